"""Losses with ops of their own; torch decomposes the others to elementwise ops."""

from __future__ import annotations

import math
from typing import Any, Optional, Tuple

from stowage import ops
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value

NONE, MEAN, SUM = 0, 1, 2
NO_BLOCKS = -1  # of a matrix of plain numbers


def _chunk(rows: int) -> int:
    """Returns the rows of logits per chunk, by the rule of the built-in models (LogitChunk,
    ir/ops.h)."""
    return max(256, min(-(-rows // 4), 4096))


def mean_cross_entropy(g: Lowering, logits: Traced, labels: Any,
                       weights: Optional[Value] = None) -> Traced:
    """Returns the weighted mean over rows of the losses of logits (..., C) at labels (...)."""
    at = g.value(labels)
    if at.dtype not in ("i32", "i64"):
        at = ops.cast(at, dtype="i64")
    count = math.prod(at.shape)
    if logits.linear is not None:
        features, matrix = logits.linear
        rows = ops.reshape(features, shape=[count, features.shape[-1]])
        flat = None if weights is None else ops.reshape(weights, shape=[count])
        made = ops.linear_cross_entropy(rows, matrix, ops.reshape(at, shape=[count]), flat,
                                        chunk=min(count, _chunk(count)), blocks=NO_BLOCKS)
        return Traced(made[0])
    if weights is None:
        return Traced(ops.cross_entropy(logits.value, at)[0])
    each = row_losses(g, logits, at)
    return Traced(ops.reduce_mean(ops.mul(each, g.cast(weights, each.dtype)), axes=[]))


def kept_cross_entropy(g: Lowering, logits: Traced, labels: Any, ignored: int = -100,
                       weight: Any = None) -> Traced:
    """Returns the mean, weighted by class, over the rows whose label is not `ignored`."""
    at = g.value(labels, "i64")
    dtype = "f64" if logits.dtype == "f64" else "f32"
    kept, safe = _kept(g, at, ignored, weight, dtype)
    total, none = _total(g, kept)
    count = g.scalar(math.prod(at.shape), dtype)
    mean = mean_cross_entropy(g, logits, Traced(safe), ops.mul(kept, ops.div(count, total)))
    return Traced(ops.add(mean.value, g.cast(none, mean.dtype)))


def _total(g: Lowering, kept: Value) -> Tuple[Value, Value]:
    """Returns the total weight of all rows and a value to add to the mean. If no row counts,
    torch's mean is NaN and its gradient is zero. The pair (1, NaN) gives this result; 0 / 0 does
    not."""
    total = ops.reduce_sum(kept, axes=[]) if kept.shape else kept
    zero = g.scalar(0, kept.dtype)
    is_none = ops.equal(total, zero)
    return (ops.where(is_none, g.scalar(1, kept.dtype), total),
            ops.where(is_none, g.scalar(math.nan, kept.dtype), zero))


def _mean(g: Lowering, summed: Value, kept: Value) -> Value:
    total, none = _total(g, kept)
    return ops.add(ops.div(summed, g.cast(total, summed.dtype)), g.cast(none, summed.dtype))


def _kept(g: Lowering, at: Value, ignored: int, weight: Any, dtype: str) -> Tuple[Value, Value]:
    """Returns the weight of each row, and labels clamped to the valid range."""
    is_kept = ops.not_equal(at, g.scalar(ignored, "i64"))
    safe = ops.where(is_kept, at, g.fill(at.shape, 0, "i64"))
    kept = ops.cast(is_kept, dtype=dtype)
    if weight is not None:
        kept = ops.mul(kept, ops.gather(g.value(weight, dtype), safe))
    return kept, safe


def row_losses(g: Lowering, logits: Traced, at: Value) -> Value:
    """Returns the loss of each row of logits (..., C) at its label."""
    log_share = ops.log_softmax(logits.value)
    axis = len(log_share.shape) - 1
    taken = ops.take_along_axis(log_share, ops.reshape(at, shape=[*at.shape, 1]), axis=axis)
    return ops.neg(ops.reshape(taken, shape=list(at.shape)))


@row("cross_entropy_loss")
def cross_entropy(g: Lowering, x: Any, target: Any, weight: Any = None, reduction: int = MEAN,
                  ignore_index: int = -100, smoothing: float = 0.0) -> Traced:
    x = g.traced(x)
    axis = 1 if len(x.shape) > 1 else 0
    order = [i for i in range(len(x.shape)) if i != axis] + [axis]
    if axis == len(x.shape) - 1:
        order = []
    logits = x.permuted(order) if order else x
    if g.is_float(target):
        target = g.traced(target)
        return _of_shares(g, logits, target.permuted(order) if order else target, weight,
                          reduction, smoothing)
    if reduction == MEAN and smoothing == 0:
        return kept_cross_entropy(g, logits, target, ignore_index, weight)
    at = g.value(target, "i64")
    kept, safe = _kept(g, at, ignore_index, weight, "f64" if x.dtype == "f64" else "f32")
    each = ops.mul(row_losses(g, logits, safe), g.cast(kept, x.dtype))
    if smoothing > 0:
        shares = ops.neg(ops.log_softmax(logits.value))
        if weight is not None:
            shares = ops.mul(shares, g.value(weight, x.dtype))
        even = ops.reduce_sum(shares, axes=[len(shares.shape) - 1])
        is_kept = ops.not_equal(at, g.scalar(ignore_index, "i64"))
        even = ops.mul(even, ops.cast(is_kept, dtype=x.dtype))
        classes = logits.shape[-1]
        each = ops.add(ops.mul(each, g.scalar(1 - smoothing, x.dtype)),
                       ops.mul(even, g.scalar(smoothing / classes, x.dtype)))
    if reduction == NONE:
        return Traced(each)
    summed = ops.reduce_sum(each, axes=[]) if each.shape else each
    return Traced(_mean(g, summed, kept) if reduction == MEAN else summed)


def _of_shares(g: Lowering, logits: Traced, shares: Traced, weight: Any, reduction: int,
               smoothing: float) -> Traced:
    """Returns the loss if labels are probabilities."""
    value, classes = shares.value, logits.shape[-1]
    if smoothing > 0:
        value = ops.add(ops.mul(value, g.scalar(1 - smoothing, value.dtype)),
                        g.scalar(smoothing / classes, value.dtype))
    terms = ops.mul(ops.log_softmax(logits.value), g.cast(value, logits.dtype))
    if weight is not None:
        terms = ops.mul(terms, g.value(weight, logits.dtype))
    each = ops.neg(ops.reduce_sum(terms, axes=[len(terms.shape) - 1]))
    if reduction == NONE or not each.shape:
        return Traced(each)
    return Traced((ops.reduce_mean if reduction == MEAN else ops.reduce_sum)(each, axes=[]))


@row("nll_loss_nd", "nll_loss", "nll_loss2d")
def nll_loss(g: Lowering, x: Any, target: Any, weight: Any = None, reduction: int = MEAN,
             ignore_index: int = -100) -> Traced:
    x = g.traced(x)
    if len(x.shape) > 1:
        x = x.permuted([i for i in range(len(x.shape)) if i != 1] + [1])
    at = g.value(target, "i64")
    kept, safe = _kept(g, at, ignore_index, weight, x.dtype)
    taken = ops.take_along_axis(x.value, ops.reshape(safe, shape=[*at.shape, 1]),
                                axis=len(x.shape) - 1)
    each = ops.neg(ops.mul(ops.reshape(taken, shape=list(at.shape)), kept))
    if reduction == NONE:
        return Traced(each)
    summed = ops.reduce_sum(each, axes=[]) if each.shape else each
    return Traced(_mean(g, summed, kept) if reduction == MEAN else summed)


@row("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(g: Lowering, *args: Any) -> Any:
    return nll_loss(g, *args), None
