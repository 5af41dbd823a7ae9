"""Matmuls."""

from __future__ import annotations

from typing import Any, List, Tuple

from stowage import ops
from stowage._aten.elementwise import add as add_row
from stowage._aten.shapes import broadcast, reshaped
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value
from stowage.errors import Unsupported

# From this number of classes, logits are computed inside the loss in chunks of rows, as in the
# built-in models (nn/model_parts.cc).
LEAST_CLASSES = 8192


def _operand(x: Traced) -> Tuple[Value, bool]:
    """Returns a matrix, or a batch of matrices, and whether it is stored transposed."""
    rank = len(x.order)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return (x.base, True) if x.order == swapped else (x.value, False)


def product(g: Lowering, a: Any, b: Any) -> Traced:
    """Returns the matmul of a (..., M, K) and b (..., K, N)."""
    dtype = g.result_type(a, b)
    (x, is_x_transposed), (y, is_y_transposed) = (
        _operand(g.traced(each, dtype)) for each in (a, b))
    return Traced(ops.matmul(x, y, transpose_a=is_x_transposed, transpose_b=is_y_transposed))


@row("linear")
def linear(g: Lowering, x: Any, weight: Any, bias: Any = None) -> Traced:
    x, weight = g.traced(x), g.traced(weight)
    if len(x.shape) == 1:
        return reshaped(linear(g, reshaped(x, [1, -1]), weight, bias), [-1])
    turned = weight.permuted([1, 0])
    if bias is None and weight.shape[0] >= LEAST_CLASSES and not weight.is_permuted:
        features = x.value
        return Traced(None, linear=(features, weight.base),
                      make=lambda: product(g, Traced(features), turned).value,
                      shape=(*x.shape[:-1], weight.shape[0]), dtype=x.dtype)
    made = product(g, x, turned)
    return made if bias is None else add_row(g, made, bias)


@row("addmm")
def addmm(g: Lowering, bias: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Traced:
    made = product(g, a, b)
    if alpha != 1:
        made = Traced(ops.mul(made.value, g.scalar(alpha, made.dtype)))
    return made if beta == 0 else add_row(g, made, bias, beta)


@row("baddbmm")
def baddbmm(g: Lowering, bias: Any, a: Any, b: Any, *, beta: float = 1,
            alpha: float = 1) -> Traced:
    return addmm(g, bias, a, b, beta=beta, alpha=alpha)


@row("addbmm")
def addbmm(g: Lowering, bias: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Traced:
    made = ops.reduce_sum(product(g, a, b).value, axes=[0])
    if alpha != 1:
        made = ops.mul(made, g.scalar(alpha, made.dtype))
    return Traced(made) if beta == 0 else add_row(g, Traced(made), bias, beta)


@row("_grouped_mm", "grouped_mm_fallback")
def grouped_mm(g: Lowering, x: Any, weight: Any, offs: Any = None, bias: Any = None,
               out_dtype: Any = None) -> Traced:
    """Multiplies each group of rows of x, which ends at `offs`, by its own matrix, as the experts
    of a mixture do (transformers' grouped_mm_fallback does the same in other types)."""
    x, weight = g.traced(x), g.traced(weight)
    is_of_experts = len(x.shape) == 2 and len(weight.shape) == 3 and offs is not None
    if not is_of_experts or bias is not None or out_dtype not in (None, g.dtype_of(x)):
        raise Unsupported("[from_torch] grouped_mm is supported of rows (S, K), matrices "
                          f"(E, K, N) and ends (E), without a bias; got {x.shape}, "
                          f"{weight.shape}")
    matrices, is_transposed = _operand(weight)
    ends = g.value(offs, "i64") if g.dtype_of(offs) != g.torch.int32 else g.value(offs)
    return Traced(ops.grouped_matmul(x.value, matrices, ends, transpose_w=is_transposed))


@row("mm", "bmm")
def mm(g: Lowering, a: Any, b: Any) -> Traced:
    return product(g, a, b)


@row("mv")
def mv(g: Lowering, a: Any, b: Any) -> Traced:
    return matmul(g, a, b)


@row("dot", "vdot", "inner")
def dot(g: Lowering, a: Any, b: Any) -> Traced:
    return matmul(g, a, b)


def _transposed(x: Traced) -> Traced:
    rank = len(x.shape)
    return x.permuted([*range(rank - 2), rank - 1, rank - 2])


def _of_one_lead(a: Traced, b: Traced) -> Tuple[Traced, Traced]:
    """Broadcasts the leading axes of both."""
    rank = max(len(a.shape), len(b.shape))
    a, b = (reshaped(x, [1] * (rank - len(x.shape)) + list(x.shape)) for x in (a, b))
    lead = [max(n, m) for n, m in zip(a.shape[:-2], b.shape[:-2])]
    return broadcast(a, [*lead, *a.shape[-2:]]), broadcast(b, [*lead, *b.shape[-2:]])


@row("matmul")
def matmul(g: Lowering, a: Any, b: Any) -> Traced:
    a, b = g.traced(a), g.traced(b)
    lost: List[int] = []  # axes of the result that vectors do not have
    if len(a.shape) == 1:
        a = reshaped(a, [1, -1])
        lost.append(-2)
    if len(b.shape) == 1:
        b = reshaped(b, [-1, 1])
        lost.append(-1)
    if len(a.shape) == 2 and len(b.shape) > 2:
        # One matrix times many is the transpose of many times one.
        made = _transposed(product(g, _transposed(b), _transposed(a)))
    else:
        if len(b.shape) > 2:
            a, b = _of_one_lead(a, b)
        made = product(g, a, b)
    rank = len(made.shape)
    gone = {axis + rank for axis in lost}
    return reshaped(made, [n for i, n in enumerate(made.shape) if i not in gone]) if gone else made


@row("bilinear")
def bilinear(g: Lowering, a: Any, b: Any, weight: Any, bias: Any = None) -> Traced:
    """Returns y[o], the sum over i and j of a[i] weight[o, i, j] b[j], plus the bias."""
    a, b, weight = g.traced(a), g.traced(b), g.traced(weight)
    outs, ins, others = weight.shape
    wide = product(g, reshaped(a, [-1, ins]),
                   reshaped(weight.permuted([1, 0, 2]), [ins, outs * others]))
    made = matmul(g, reshaped(wide, [-1, outs, others]), reshaped(b, [-1, others, 1]))
    made = reshaped(made, [*a.shape[:-1], outs])
    return made if bias is None else add_row(g, made, bias)
