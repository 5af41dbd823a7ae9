"""Reductions and scans along an axis."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from stowage import _core, ops
from stowage._aten import elementwise
from stowage._aten.shapes import reshaped, split, unsqueeze
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value
from stowage.errors import Unsupported

Axes = Union[None, int, Sequence[int]]


def _input(g: Lowering, x: Any, dtype: Any) -> Traced:
    """Returns the operand of a reduction. Integers are converted to i64, as in torch."""
    if dtype is not None:
        return g.traced(x, g.name_of(dtype))
    return g.traced(x, "" if g.is_float(x) else "i64")


def _kept(x: Traced, axes: Sequence[int]) -> Sequence[int]:
    return [1 if i in axes else n for i, n in enumerate(x.shape)]


def _reduced(g: Lowering, reduce: Callable[..., Value], x: Traced, dim: Axes,
             keepdim: bool) -> Traced:
    """Reduces over these axes, by default all; a scalar is unchanged."""
    return Traced(reduce(x.value, axes=g.axes(x, dim), keep=keepdim)) if x.shape else x


@row("sum", "sum.dim_IntList")
def sum_(g: Lowering, x: Any, dim: Axes = None, keepdim: bool = False, *,
         dtype: Any = None) -> Traced:
    return _reduced(g, ops.reduce_sum, _input(g, x, dtype), dim, keepdim)


@row("mean", "mean.dim")
def mean(g: Lowering, x: Any, dim: Axes = None, keepdim: bool = False, *,
         dtype: Any = None) -> Traced:
    return _reduced(g, ops.reduce_mean, _input(g, x, dtype), dim, keepdim)


@row("amax")
def amax(g: Lowering, x: Traced, dim: Axes = (), keepdim: bool = False) -> Traced:
    return _reduced(g, ops.reduce_max, x, dim, keepdim)


@row("amin")
def amin(g: Lowering, x: Traced, dim: Axes = (), keepdim: bool = False) -> Traced:
    return Traced(ops.neg(ops.reduce_max(ops.neg(x.value), axes=g.axes(x, dim), keep=keepdim)))


@row("max")
def max_(g: Lowering, x: Traced) -> Traced:
    return amax(g, x)


@row("min")
def min_(g: Lowering, x: Traced) -> Traced:
    return amin(g, x)


@row("topk")
def topk(g: Lowering, x: Traced, k: int, dim: int = -1, largest: bool = True,
         sorted: bool = True) -> Tuple[Traced, Traced]:
    turned, back = g.last(x, dim)
    values, places = ops.top_k(turned.value, k=k, descending=largest)
    return Traced(values).permuted(back), g.traced(Traced(places), "i64").permuted(back)


@row("sort", "sort.stable")
def sort(g: Lowering, x: Traced, dim: int = -1, descending: bool = False,
         stable: Any = None) -> Tuple[Traced, Traced]:
    return topk(g, x, x.shape[g.axis(x, dim)], dim, descending)


def _first(g: Lowering, x: Traced, dim: int, keepdim: bool,
           largest: bool) -> Tuple[Traced, Traced]:
    """Returns the maximum or minimum along an axis, and its first index."""
    values, places = topk(g, x, 1, dim, largest)
    if keepdim:
        return values, places
    shape = [n for i, n in enumerate(x.shape) if i != g.axis(x, dim)]
    return reshaped(values, shape), reshaped(places, shape)


@row("max.dim")
def max_dim(g: Lowering, x: Traced, dim: int, keepdim: bool = False) -> Tuple[Traced, Traced]:
    return _first(g, x, dim, keepdim, True)


@row("min.dim")
def min_dim(g: Lowering, x: Traced, dim: int, keepdim: bool = False) -> Tuple[Traced, Traced]:
    return _first(g, x, dim, keepdim, False)


@row("kthvalue")
def kthvalue(g: Lowering, x: Traced, k: int, dim: int = -1,
             keepdim: bool = False) -> Tuple[Traced, Traced]:
    """Returns the k-th smallest along an axis, and its index."""
    shape = [n for i, n in enumerate(x.shape) if i != g.axis(x, dim)]
    made = []
    for each in topk(g, x, k, dim, False):
        turned, back = g.last(each, dim)
        last = ops.slice(turned.value, axis=len(x.shape) - 1, start=k - 1, end=k)
        made.append(Traced(last).permuted(back) if keepdim else reshaped(
            Traced(last).permuted(back), shape))
    return made[0], made[1]


@row("median.dim")
def median_dim(g: Lowering, x: Traced, dim: int, keepdim: bool = False) -> Tuple[Traced, Traced]:
    return kthvalue(g, x, (x.shape[g.axis(x, dim)] + 1) // 2, dim, keepdim)


@row("median")
def median(g: Lowering, x: Traced) -> Traced:
    return median_dim(g, reshaped(x, [-1]), 0)[0]


@row("argmax")
def argmax(g: Lowering, x: Traced, dim: Optional[int] = None, keepdim: bool = False) -> Traced:
    if dim is None:
        x, dim = reshaped(x, [-1]), 0
    turned, _ = g.last(x, dim)
    places = g.traced(Traced(ops.arg_max(turned.value)), "i64")
    return reshaped(places, _kept(x, [g.axis(x, dim)])) if keepdim else places


@row("argmin")
def argmin(g: Lowering, x: Traced, dim: Optional[int] = None, keepdim: bool = False) -> Traced:
    return argmax(g, Traced(ops.neg(x.base), x.order), dim, keepdim)


def _moments(g: Lowering, x: Traced, axes: Sequence[int], correction: float,
             keepdim: bool) -> Tuple[Traced, Traced]:
    count = math.prod(x.shape[i] for i in axes)
    middle = ops.reduce_mean(x.value, axes=axes, keep=True)
    squares = ops.square(ops.sub(x.value, middle))
    total = ops.reduce_sum(squares, axes=axes, keep=keepdim)
    spread = ops.mul(total, g.scalar(1 / max(count - correction, 0) if count > correction
                                     else math.nan, x.dtype))
    shape = spread.shape
    return Traced(spread), Traced(ops.reshape(middle, shape=list(shape)))


@row("var.correction", "var.dim", "var")
def var(g: Lowering, x: Traced, dim: Axes = None, unbiased: Any = True, keepdim: bool = False, *,
        correction: Any = None) -> Traced:
    if isinstance(dim, bool):  # of all axes, by whether it is unbiased
        dim, unbiased = None, dim
    given = float(unbiased) if correction is None else float(correction)
    return _moments(g, x, g.axes(x, dim), given, keepdim)[0]


@row("std.correction", "std.dim", "std")
def std(g: Lowering, x: Traced, dim: Axes = None, unbiased: Any = True, keepdim: bool = False, *,
        correction: Any = None) -> Traced:
    return Traced(root(g, var(g, x, dim, unbiased, keepdim, correction=correction).value))


def _positive(g: Lowering, x: Value, make: Callable[[Value], Value]) -> Value:
    """Applies `make` to positive numbers. At 0 the result and its gradient are 0."""
    is_zero = ops.equal(x, g.scalar(0, x.dtype))
    safe = ops.where(is_zero, g.fill(x.shape, 1, x.dtype), x)
    return ops.where(is_zero, g.fill(x.shape, 0, x.dtype), make(safe))


def root(g: Lowering, total: Value) -> Value:
    """Returns the root of a sum of squares. Its gradient at 0 is 0, as in torch."""
    return _positive(g, total, ops.sqrt)


@row("var_mean.correction")
def var_mean(g: Lowering, x: Traced, dim: Axes = None, *, correction: Any = 1,
             keepdim: bool = False) -> Tuple[Traced, Traced]:
    given = 1.0 if correction is None else float(correction)
    return _moments(g, x, g.axes(x, dim), given, keepdim)


@row("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar")
def vector_norm(g: Lowering, x: Traced, ord: Any = 2, dim: Axes = None, keepdim: bool = False, *,
                dtype: Any = None) -> Traced:
    x, order = _input(g, x, dtype), 2.0 if ord is None else float(ord)
    axes = g.axes(x, dim)
    size = ops.absolute(x.value)
    if order == math.inf:
        return Traced(ops.reduce_max(size, axes=axes, keep=keepdim))
    if order == 1:
        return Traced(ops.reduce_sum(size, axes=axes, keep=keepdim))
    if order == 0:
        return Traced(ops.reduce_sum(ops.cast(ops.greater(size, g.scalar(0, x.dtype)),
                                              dtype=x.dtype), axes=axes, keep=keepdim))
    if order < 0:
        raise Unsupported(f"[from_torch] a norm of order {order:g} is not supported; expected 0 "
                          "or more")
    if order == 2:
        return Traced(root(g, ops.reduce_sum(ops.square(x.value), axes=axes, keep=keepdim)))
    powers = _positive(g, size, lambda safe: ops.power(safe, g.scalar(order, x.dtype)))
    total = ops.reduce_sum(powers, axes=axes, keep=keepdim)
    return Traced(_positive(g, total, lambda safe: ops.power(safe, g.scalar(1 / order, x.dtype))))


@row("prod.dim_int", "prod")
def prod(g: Lowering, x: Traced, dim: Optional[int] = None, keepdim: bool = False, *,
         dtype: Any = None) -> Traced:
    x = _input(g, x, dtype)
    if dim is None:
        x, dim = reshaped(x, [-1]), 0
    parts = split(g, x, 1, dim)
    made = parts[0].value
    for part in parts[1:]:
        made = ops.mul(made, part.value)
    return Traced(made) if keepdim else reshaped(
        Traced(made), [n for i, n in enumerate(x.shape) if i != g.axis(x, dim)])


@row("cdist", "_cdist_forward")
def cdist(g: Lowering, a: Any, b: Any, p: float = 2.0, mode: Any = None) -> Traced:
    a, b = g.traced(a), g.traced(b)
    return vector_norm(g, elementwise.sub(g, unsqueeze(g, a, -2), unsqueeze(g, b, -3)), p, -1)


@row("_pdist_forward", "pdist")
def pdist(g: Lowering, x: Any, p: float = 2.0) -> Traced:
    """Returns the distances of all pairs of rows."""
    rows = g.traced(x)
    first, second = g.torch.triu_indices(rows.shape[0], rows.shape[0], 1)
    a, b = (ops.gather(rows.value, g.value(each, "i64")) for each in (first, second))
    return vector_norm(g, Traced(ops.sub(a, b)), p, [1])


@row("dist")
def dist(g: Lowering, a: Any, b: Any, p: float = 2) -> Traced:
    return vector_norm(g, elementwise.sub(g, g.traced(a), g.traced(b)), p)


@row("cosine_similarity")
def cosine_similarity(g: Lowering, a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Traced:
    dtype = g.result_type(a, b)
    x, y = _core.broadcast(g.value(a, dtype), g.value(b, dtype))

    def directed(value: Value) -> Value:
        norm = vector_norm(g, Traced(value), 2, [dim], True).value
        # The gradient passes at the bound, as in torch.
        bound = ops.maximum(norm, g.fill(norm.shape, eps, dtype))
        kept = ops.add(norm, ops.stop_gradient(ops.sub(bound, norm)))
        return ops.div(value, ops.broadcast(kept, shape=list(value.shape)))

    return Traced(ops.reduce_sum(ops.mul(directed(x), directed(y)), axes=[g.axis(x, dim)]))


@row("logsumexp")
def logsumexp(g: Lowering, x: Traced, dim: Axes, keepdim: bool = False) -> Traced:
    axes = g.axes(x, dim)
    top = ops.stop_gradient(ops.reduce_max(x.value, axes=axes, keep=True))
    is_finite = ops.less(ops.absolute(top), g.scalar(math.inf, x.dtype))
    top = ops.where(is_finite, top, g.fill(top.shape, 0, x.dtype))
    total = ops.reduce_sum(ops.exp(ops.sub(x.value, top)), axes=axes, keep=True)
    made = Traced(ops.add(ops.log(total), top))
    return made if keepdim else reshaped(
        made, [n for i, n in enumerate(x.shape) if i not in axes])


@row("cumsum")
def cumsum(g: Lowering, x: Any, dim: int, *, dtype: Any = None) -> Traced:
    x = _input(g, x, dtype)
    return Traced(ops.cumsum(x.base, axis=x.order[g.axis(x, dim)]), x.order)


@row("any", "any.dim", "any.dims")
def any_(g: Lowering, x: Any, dim: Axes = None, keepdim: bool = False) -> Traced:
    held = ops.cast(g.value(x, "bool"), dtype="f32")
    return Traced(ops.cast(ops.reduce_max(held, axes=g.axes(x, dim), keep=keepdim), dtype="bool"))


@row("all", "all.dim", "all.dims")
def all_(g: Lowering, x: Any, dim: Axes = None, keepdim: bool = False) -> Traced:
    lacking = Traced(ops.logical_not(g.value(x, "bool")))
    return Traced(ops.logical_not(any_(g, lacking, dim, keepdim).value))


# --- Softmaxes ---


def along_last(g: Lowering, make: Any, x: Traced, dim: int) -> Traced:
    if not x.shape:
        return reshaped(along_last(g, make, reshaped(x, [1]), 0), [])
    turned, back = g.last(x, dim)
    return Traced(make(turned.value)).permuted(back)


@row("softmax.int", "special_softmax")
def softmax(g: Lowering, x: Traced, dim: int, dtype: Any = None) -> Traced:
    return along_last(g, ops.softmax, _input(g, x, dtype), dim)


@row("log_softmax.int", "special_log_softmax")
def log_softmax(g: Lowering, x: Traced, dim: int, dtype: Any = None) -> Traced:
    return along_last(g, ops.log_softmax, _input(g, x, dtype), dim)


@row("_softmax")
def _softmax(g: Lowering, x: Traced, dim: int, half_to_float: bool) -> Traced:
    return softmax(g, x, dim, g.torch.float32 if half_to_float else None)


@row("_log_softmax")
def _log_softmax(g: Lowering, x: Traced, dim: int, half_to_float: bool) -> Traced:
    return log_softmax(g, x, dim, g.torch.float32 if half_to_float else None)


@row("histc")
def histc(g: Lowering, x: Traced, bins: int = 100, min: float = 0, max: float = 0) -> Traced:
    """Returns the histogram over equal bins of [min, max]. Other elements are ignored."""
    if min >= max:
        raise Unsupported("[from_torch] histc between the smallest and the largest element, or "
                          f"from {min} to {max}, is not supported; expected a min below max")
    dtype = x.dtype if x.dtype in ("f32", "f64") else "f32"
    flat = ops.stop_gradient(ops.reshape(g.value(x, dtype), shape=[math.prod(x.shape)]))
    places = ops.mul(ops.sub(flat, g.scalar(min, dtype)), g.scalar(bins / (max - min), dtype))
    inside = ops.logical_and(ops.greater_equal(flat, g.scalar(min, dtype)),
                             ops.less_equal(flat, g.scalar(max, dtype)))
    at = ops.cast(ops.clamp(ops.floor(places), min=0, max=bins - 1), dtype="i64")
    return Traced(ops.scatter_add(g.fill([bins], 0, dtype), at, ops.cast(inside, dtype=dtype)))
