"""Elementwise ops."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Optional

from stowage import _core, ops
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value
from stowage.errors import Unsupported


# Ops on integers: unchanged, or by another op; all others are on floats.
_OF_INTEGERS: Dict[str, Callable[[Lowering, Value], Value]] = {
    "neg": lambda g, x: ops.neg(x), "abs": lambda g, x: ops.absolute(x),
    "sign": lambda g, x: ops.sign(x), "sgn": lambda g, x: ops.sign(x),
    "floor": lambda g, x: x, "ceil": lambda g, x: x, "round": lambda g, x: x,
    "square": lambda g, x: ops.mul(x, x),
    "relu": lambda g, x: ops.maximum(x, g.scalar(0, x.dtype)),
}


def _unary(name: str, make: Callable[[Value], Value]) -> None:
    def each(g: Lowering, x: Traced) -> Traced:
        if not g.is_float(x) and name in _OF_INTEGERS:
            return Traced(_OF_INTEGERS[name](g, x.base), x.order)
        if not g.is_float(x):
            x = g.traced(x, g.name_of(g.torch.get_default_dtype()))
        return Traced(make(x.base), x.order)
    row(name)(each)


for _name, _make in {
        "neg": ops.neg, "abs": ops.absolute, "sign": ops.sign, "sgn": ops.sign, "exp": ops.exp,
        "log": ops.log, "sqrt": ops.sqrt, "rsqrt": ops.rsqrt, "square": ops.square,
        "reciprocal": ops.reciprocal, "sin": ops.sin, "cos": ops.cos, "relu": ops.relu,
        "silu": ops.silu, "sigmoid": ops.sigmoid, "tanh": ops.tanh, "expm1": ops.expm1,
        "log1p": ops.log1p, "erf": ops.erf, "floor": ops.floor, "ceil": ops.ceil,
        "round": ops.round_, "mish": ops.mish, "hardswish": ops.hard_swish,
}.items():
    _unary(_name, _make)


@row("gelu")
def gelu(g: Lowering, x: Traced, *, approximate: str = "none") -> Traced:
    return Traced((ops.gelu_tanh if approximate == "tanh" else ops.gelu_erf)(x.base), x.order)


@row("softplus")
def softplus(g: Lowering, x: Traced, beta: float = 1, threshold: float = 20) -> Traced:
    scaled = x.base if beta == 1 else ops.mul(x.base, g.scalar(beta, x.dtype))
    bent = ops.softplus(scaled)
    y = bent if beta == 1 else ops.mul(bent, g.scalar(1 / beta, x.dtype))
    # torch returns x above the threshold, where softplus differs by at most e^-20.
    if threshold < 15:
        y = ops.where(ops.greater(scaled, g.scalar(threshold, x.dtype)), x.base, y)
    return Traced(y, x.order)


@row("log_sigmoid")
def log_sigmoid(g: Lowering, x: Traced) -> Traced:
    return Traced(ops.neg(ops.softplus(ops.neg(x.base))), x.order)


@row("leaky_relu")
def leaky_relu(g: Lowering, x: Traced, slope: float = 0.01) -> Traced:
    if slope < 0:
        return Traced(ops.where(ops.greater(x.base, g.scalar(0, x.dtype)), x.base,
                                ops.mul(x.base, g.scalar(slope, x.dtype))), x.order)
    return Traced(ops.leaky_relu(x.base, slope=slope), x.order)


@row("elu")
def elu(g: Lowering, x: Traced, alpha: float = 1, scale: float = 1,
        input_scale: float = 1) -> Traced:
    if input_scale == 1 and alpha > 0 and scale > 0:
        return Traced(ops.elu(x.base, alpha=alpha, scale=scale), x.order)
    # e^x may be infinite for x > 0.
    low = ops.minimum(x.base, g.fill(x.base.shape, 0, x.dtype))
    bent = ops.mul(ops.expm1(ops.mul(low, g.scalar(input_scale, x.dtype))),
                   g.scalar(alpha * scale, x.dtype))
    straight = x.base if scale == 1 else ops.mul(x.base, g.scalar(scale, x.dtype))
    return Traced(ops.where(ops.greater(x.base, g.scalar(0, x.dtype)), straight, bent), x.order)


@row("celu")
def celu(g: Lowering, x: Traced, alpha: float = 1) -> Traced:
    return elu(g, x, alpha, 1, 1 / alpha)


@row("hardtanh")
def hardtanh(g: Lowering, x: Traced, low: float = -1, high: float = 1) -> Traced:
    return Traced(ops.clamp(x.base, min=low, max=high), x.order)


@row("hardsigmoid")
def hardsigmoid(g: Lowering, x: Traced) -> Traced:
    bent = ops.add(ops.mul(x.base, g.scalar(1 / 6, x.dtype)), g.scalar(0.5, x.dtype))
    return Traced(ops.clamp(bent, min=0, max=1), x.order)


@row("prelu", "_prelu_kernel")
def prelu(g: Lowering, x: Traced, weight: Any) -> Traced:
    slope = g.traced(weight, x.dtype)
    rank = len(x.shape)
    shape = slope.shape
    if len(shape) == 1 and shape[0] > 1:
        shape = tuple(shape[0] if i == 1 else 1 for i in range(rank))
    value = ops.reshape(slope.value, shape=list(shape))
    return Traced(ops.where(ops.greater(x.value, g.scalar(0, x.dtype)), x.value,
                            ops.mul(x.value, value)))


@row("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor")
def clamp(g: Lowering, x: Any, low: Any = None, high: Any = None) -> Traced:
    dtype = g.result_type(x, *(each for each in (low, high) if each is not None))
    y = g.value(x, dtype)
    if low is not None:
        y = _bounded(g, y, low, dtype, ops.maximum, ops.less, ops.greater)
    if high is not None:
        y = _bounded(g, y, high, dtype, ops.minimum, ops.greater, ops.less)
    return Traced(y)


def _bounded(g: Lowering, y: Value, bound: Any, dtype: str,
             nearest: Callable[[Value, Value], Value], beyond: Callable[[Value, Value], Value],
             within: Callable[[Value, Value], Value]) -> Value:
    """Clamps y. If y equals a bound that is a number, versions of torch differ in the gradient. A
    bound that is a tensor has the gradient of `maximum`."""
    value = g.value(bound, dtype)
    if hasattr(bound, "shape"):
        return nearest(y, value)
    limit, y = _core.broadcast(value, y)
    if _passes_at_bounds(g.torch):
        return ops.where(beyond(y, limit), limit, y)
    return ops.where(within(y, limit), y, limit)


@functools.lru_cache(maxsize=None)
def _passes_at_bounds(torch: Any) -> bool:
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.zeros(1, requires_grad=True)
        x.clamp(0, 1).sum().backward()
    return bool(x.grad != 0)


@row("clamp_max", "clamp_max.Tensor")
def clamp_max(g: Lowering, x: Any, high: Any) -> Traced:
    return clamp(g, x, None, high)


# --- Binary ops ---


def binary(g: Lowering, make: Callable[[Value, Value], Value], a: Any, b: Any,
           dtype: str = "") -> Traced:
    """Applies a binary op in torch's computation type."""
    dtype = dtype or g.result_type(a, b)
    if isinstance(a, Traced) and isinstance(b, Traced) and a.order == b.order and a.is_permuted \
            and len(a.shape) == len(b.shape):
        return Traced(make(g.cast(a.base, dtype), g.cast(b.base, dtype)), a.order)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Traced) and one.is_permuted and not len(getattr(other, "shape", ())):
            x, y = g.cast(one.base, dtype), g.value(other, dtype)
            return Traced(make(x, y) if one is a else make(y, x), one.order)
    return Traced(make(g.value(a, dtype), g.value(b, dtype)))


def _scaled(g: Lowering, b: Any, alpha: float, dtype: str) -> Any:
    if alpha == 1:
        return b
    if isinstance(b, Traced):
        return Traced(ops.mul(g.cast(b.base, dtype), g.scalar(alpha, dtype)), b.order)
    return b * alpha


@row("add.Tensor", "add.Scalar")
def add(g: Lowering, a: Any, b: Any, alpha: float = 1) -> Traced:
    dtype = g.result_type(a, b)
    if dtype == "bool":
        return binary(g, ops.logical_or, a, b)
    return binary(g, ops.add, a, _scaled(g, b, alpha, dtype), dtype)


@row("sub.Tensor", "sub.Scalar")
def sub(g: Lowering, a: Any, b: Any, alpha: float = 1) -> Traced:
    dtype = g.result_type(a, b)
    return binary(g, ops.sub, a, _scaled(g, b, alpha, dtype), dtype)


@row("rsub.Tensor", "rsub.Scalar")
def rsub(g: Lowering, a: Any, b: Any, alpha: float = 1) -> Traced:
    return sub(g, b, a, alpha)


@row("mul.Tensor", "mul.Scalar")
def mul(g: Lowering, a: Any, b: Any) -> Traced:
    dtype = g.result_type(a, b)
    if dtype == "bool":
        return binary(g, ops.logical_and, a, b)
    if a is b:
        return Traced(ops.square(a.base), a.order)
    return binary(g, ops.mul, a, b, dtype)


@row("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(g: Lowering, a: Any, b: Any) -> Traced:
    dtype = g.result_type(a, b)
    if not g.types[dtype].is_floating_point:
        dtype = g.name_of(g.torch.get_default_dtype())
    return binary(g, ops.div, a, b, dtype)


@row("div.Tensor_mode", "div.Scalar_mode")
def div_mode(g: Lowering, a: Any, b: Any, *, rounding_mode: Optional[str] = None) -> Traced:
    if rounding_mode is None:
        return div(g, a, b)
    dtype = g.result_type(a, b)
    is_real = g.types[dtype].is_floating_point
    inner = dtype if is_real else "f64"
    x, y = _core.broadcast(g.value(a, inner), g.value(b, inner))
    zero = g.scalar(0, inner)
    if rounding_mode == "trunc":
        quotient = ops.div(x, y)
        made = ops.where(ops.less(quotient, zero), ops.ceil(quotient), ops.floor(quotient))
        return Traced(g.cast(made, dtype))
    # By the remainder, as in torch, so that 1 // 0.1 is 9.
    left = ops.fmod(x, y)
    quotient = ops.div(ops.sub(x, left), y)
    is_left = ops.not_equal(left, zero)
    differs = ops.not_equal(ops.less(y, zero), ops.less(left, zero))
    one = ops.cast(ops.logical_and(is_left, differs), dtype=inner)
    quotient = ops.sub(quotient, one)
    low = ops.floor(quotient)
    more = ops.cast(ops.greater(ops.sub(quotient, low), g.scalar(0.5, inner)), dtype=inner)
    return Traced(g.cast(ops.add(low, more), dtype))


@row("floor_divide")
def floor_divide(g: Lowering, a: Any, b: Any) -> Traced:
    return div_mode(g, a, b, rounding_mode="floor")


for _name, _op in {
        "maximum": ops.maximum, "minimum": ops.minimum, "eq.Tensor": ops.equal,
        "eq.Scalar": ops.equal, "ne.Tensor": ops.not_equal, "ne.Scalar": ops.not_equal,
        "lt.Tensor": ops.less, "lt.Scalar": ops.less, "le.Tensor": ops.less_equal,
        "le.Scalar": ops.less_equal, "gt.Tensor": ops.greater, "gt.Scalar": ops.greater,
        "ge.Tensor": ops.greater_equal, "ge.Scalar": ops.greater_equal,
}.items():
    row(_name)(lambda g, a, b, _op=_op: binary(g, _op, a, b))


@row("remainder.Tensor", "remainder.Scalar")
def remainder(g: Lowering, a: Any, b: Any) -> Traced:
    return _of_reals(g, ops.remainder, a, b)


@row("fmod.Tensor", "fmod.Scalar")
def fmod(g: Lowering, a: Any, b: Any) -> Traced:
    return _of_reals(g, ops.fmod, a, b)


def _of_reals(g: Lowering, make: Callable[[Value, Value], Value], a: Any, b: Any) -> Traced:
    """Computes integers in f64, which is exact up to 2^53."""
    dtype = g.result_type(a, b)
    if g.types[dtype].is_floating_point:
        return binary(g, make, a, b)
    made = binary(g, make, a, b, "f64")
    return Traced(g.cast(made.base, dtype), made.order)


def _as_bool(g: Lowering, x: Any) -> Value:
    return g.value(x, "bool")


@row("logical_and", "bitwise_and.Tensor", "__and__.Tensor")
def logical_and(g: Lowering, a: Any, b: Any) -> Traced:
    _expect_bool(g, a, b)
    return Traced(ops.logical_and(_as_bool(g, a), _as_bool(g, b)))


@row("logical_or", "bitwise_or.Tensor", "__or__.Tensor")
def logical_or(g: Lowering, a: Any, b: Any) -> Traced:
    _expect_bool(g, a, b)
    return Traced(ops.logical_or(_as_bool(g, a), _as_bool(g, b)))


@row("logical_xor", "bitwise_xor.Tensor", "__xor__.Tensor")
def logical_xor(g: Lowering, a: Any, b: Any) -> Traced:
    _expect_bool(g, a, b)
    return Traced(ops.not_equal(_as_bool(g, a), _as_bool(g, b)))


@row("logical_not", "bitwise_not")
def logical_not(g: Lowering, x: Any) -> Traced:
    _expect_bool(g, x)
    return Traced(ops.logical_not(_as_bool(g, x)))


def _expect_bool(g: Lowering, *operands: Any) -> None:
    for x in operands:
        if hasattr(x, "shape") and g.dtype_of(x) not in (g.torch.bool,) and not g.is_float(x):
            raise Unsupported(f"[from_torch] logic with the bits of {x.dtype} is not supported; "
                              "expected bool")


@row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(g: Lowering, condition: Any, a: Any, b: Any) -> Traced:
    dtype = g.result_type(a, b)
    x, y = _core.broadcast(g.value(a, dtype), g.value(b, dtype))
    chosen, x = _core.broadcast(g.value(condition, "bool"), x)
    x, y = _core.broadcast(x, y)
    return Traced(ops.where(chosen, x, y))


@row("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(g: Lowering, x: Any, mask: Any, value: Any) -> Traced:
    return where(g, mask, g.traced(value, g.name_of(g.dtype_of(x))), x)


@row("addcmul")
def addcmul(g: Lowering, x: Any, a: Any, b: Any, *, value: float = 1) -> Traced:
    return add(g, x, mul(g, a, b), value)


@row("addcdiv")
def addcdiv(g: Lowering, x: Any, a: Any, b: Any, *, value: float = 1) -> Traced:
    return add(g, x, div(g, a, b), value)


@row("lerp.Scalar", "lerp.Tensor")
def lerp(g: Lowering, a: Any, b: Any, weight: Any) -> Traced:
    return add(g, a, mul(g, sub(g, b, a), weight))


@row("pow.Tensor_Scalar")
def pow_scalar(g: Lowering, x: Any, exponent: float) -> Traced:
    x = g.traced(x, g.result_type(x, exponent))
    if exponent == 0:
        return Traced(g.fill(x.shape, 1, x.dtype))
    known = {2: ops.square, 0.5: ops.sqrt, -0.5: ops.rsqrt, -1: ops.reciprocal}
    if exponent in known:
        return Traced(known[exponent](x.base), x.order)
    if float(exponent).is_integer() and 1 <= abs(exponent) <= 8:
        made = base = x.base
        for _ in range(int(abs(exponent)) - 1):
            made = ops.mul(made, base)
        return Traced(made if exponent > 0 else ops.reciprocal(made), x.order)
    return binary(g, ops.power, x, float(exponent), x.dtype)


@row("pow.Tensor_Tensor", "pow.Scalar")
def power(g: Lowering, a: Any, b: Any) -> Traced:
    return binary(g, ops.power, a, b)


@row("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")
def xlogy(g: Lowering, a: Any, b: Any) -> Traced:
    """Returns a log b, or 0 where a is 0."""
    dtype = g.result_type(a, b)
    if not g.types[dtype].is_floating_point:
        dtype = g.name_of(g.torch.get_default_dtype())
    x, y = _core.broadcast(g.value(a, dtype), g.value(b, dtype))
    is_zero = ops.equal(x, g.fill(x.shape, 0, dtype))
    one = g.fill(x.shape, 1, dtype)
    return Traced(ops.mul(x, ops.log(ops.where(is_zero, one, y))))


# --- Identities ---


@row("view.dtype")
def view_dtype(g: Lowering, x: Traced, dtype: Any) -> Traced:
    if g.name_of(dtype) != x.dtype:
        raise Unsupported(f"[from_torch] a view of {x.dtype} as {dtype} is not supported")
    return x


@row("clone", "contiguous", "alias", "lift_fresh_copy", "lift_fresh")
def same(g: Lowering, x: Traced, *_: Any, **__: Any) -> Traced:
    return x


@row("detach", "detach_copy")
def detach(g: Lowering, x: Traced) -> Traced:
    return Traced(ops.stop_gradient(x.base), x.order)


@row("_to_copy", "to.dtype", "to.dtype_layout", "to.device", "type_as")
def to(g: Lowering, x: Traced, *args: Any, dtype: Any = None, **__: Any) -> Traced:
    for each in args:
        if isinstance(each, g.torch.dtype):
            dtype = each
        elif isinstance(each, (Traced, g.torch.Tensor)):
            dtype = g.dtype_of(each)
    return x if dtype is None else g.traced(x, g.name_of(dtype))


@row("copy")
def copy(g: Lowering, x: Any, other: Any, non_blocking: bool = False) -> Traced:
    made = g.traced(other, g.name_of(g.dtype_of(x)))
    return made if made.shape == tuple(x.shape) else Traced(
        ops.broadcast(made.value, shape=list(x.shape)))


@row("fill.Scalar", "fill.Tensor")
def fill(g: Lowering, x: Any, number: Any) -> Traced:
    return copy(g, x, number)
