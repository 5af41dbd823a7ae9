"""Normalization."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

from stowage import ops
from stowage._aten.shapes import reshaped
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value
from stowage.errors import Unsupported


# A batch norm without momentum averages its statistics over all batches.
CUMULATIVE = -1.0


def _rows(x: Traced, count: int) -> Traced:
    """Merges the last `count` axes."""
    if count == 1:
        return x
    shape = x.shape
    return reshaped(x, [*shape[:len(shape) - count], math.prod(shape[len(shape) - count:])])


def _param(g: Lowering, x: Any, size: int, default: float, dtype: str) -> Value:
    if x is None:
        return g.fill([size], default, dtype)
    return reshaped(g.traced(x, dtype), [size]).value


@row("layer_norm")
def layer_norm(g: Lowering, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5, *_: Any) -> Traced:
    x = g.traced(x)
    rows = _rows(x, len(shape))
    size = rows.shape[-1]
    made = ops.layer_norm(rows.value, _param(g, weight, size, 1, x.dtype),
                          _param(g, bias, size, 0, x.dtype), eps=eps)[0]
    return reshaped(Traced(made), x.shape)


@row("native_layer_norm")
def native_layer_norm(g: Lowering, x: Any, shape: Sequence[int], weight: Any, bias: Any,
                      eps: float) -> Tuple[Traced, None, None]:
    return layer_norm(g, x, shape, weight, bias, eps), None, None


@row("rms_norm")
def rms_norm(g: Lowering, x: Any, shape: Sequence[int], weight: Any = None,
             eps: Optional[float] = None) -> Traced:
    x = g.traced(x)
    rows = _rows(x, len(shape))
    eps = float(g.torch.finfo(g.dtype_of(x)).eps) if eps is None else eps
    made = ops.rms_norm(rows.value, _param(g, weight, rows.shape[-1], 1, x.dtype), eps=eps)[0]
    return reshaped(Traced(made), x.shape)


@row("_fused_rms_norm")
def fused_rms_norm(g: Lowering, x: Any, shape: Sequence[int], weight: Any,
                   eps: Optional[float]) -> Tuple[Traced, None]:
    return rms_norm(g, x, shape, weight, eps), None


def _per_channel(value: Value, rank: int) -> Value:
    return ops.reshape(value, shape=[value.shape[0], *[1] * (rank - 2)])


def _scaled(g: Lowering, y: Value, weight: Any, bias: Any) -> Value:
    rank = len(y.shape)
    if weight is not None:
        y = ops.mul(y, _per_channel(g.value(weight, y.dtype), rank))
    if bias is not None:
        y = ops.add(y, _per_channel(g.value(bias, y.dtype), rank))
    return y


@row("group_norm")
def group_norm(g: Lowering, x: Any, groups: int, weight: Any = None, bias: Any = None,
               eps: float = 1e-5, *_: Any) -> Traced:
    x = g.traced(x)
    rows = reshaped(x, [x.shape[0], groups, math.prod(x.shape[1:]) // groups])
    size = rows.shape[-1]
    made = ops.layer_norm(rows.value, g.fill([size], 1, x.dtype), g.fill([size], 0, x.dtype),
                          eps=eps)[0]
    return Traced(_scaled(g, ops.reshape(made, shape=list(x.shape)), weight, bias))


@row("native_group_norm")
def native_group_norm(g: Lowering, x: Any, weight: Any, bias: Any, n: int, c: int, size: int,
                      groups: int, eps: float) -> Tuple[Traced, None, None]:
    return group_norm(g, x, groups, weight, bias, eps), None, None


@row("instance_norm")
def instance_norm(g: Lowering, x: Any, weight: Any, bias: Any, mean: Any, variance: Any,
                  use_input_stats: bool, momentum: float, eps: float, *_: Any) -> Traced:
    x = g.traced(x)
    if use_input_stats and mean is not None:
        raise Unsupported("[from_torch] an instance norm that tracks running statistics is not "
                          "supported in training mode")
    if not use_input_stats:
        return _by_statistics(g, x, weight, bias, mean, variance, eps)
    return group_norm(g, x, x.shape[1], weight, bias, eps)


# --- Batch norms ---


def _by_statistics(g: Lowering, x: Traced, weight: Any, bias: Any, mean: Any, variance: Any,
                   eps: float) -> Traced:
    """Normalizes with running statistics, as a scale and a shift per channel."""
    rank = len(x.shape)
    dtype = "f64" if x.dtype == "f64" else "f32"
    scale = ops.rsqrt(ops.add(g.value(variance, dtype), g.scalar(eps, dtype)))
    if weight is not None:
        scale = ops.mul(scale, g.value(weight, dtype))
    shift = ops.neg(ops.mul(g.value(mean, dtype), scale))
    if bias is not None:
        shift = ops.add(shift, g.value(bias, dtype))
    scale, shift = (_per_channel(g.cast(each, x.dtype), rank) for each in (scale, shift))
    return Traced(ops.add(ops.mul(x.value, scale), shift))


def _by_batch(g: Lowering, x: Traced, weight: Any, bias: Any,
              eps: float) -> Tuple[Traced, Value, Value]:
    """Normalizes with the statistics of the batch. Also returns the mean, and the variance divided
    by the count less one."""
    channels = x.shape[1]
    y, mean, variance = ops.batch_norm(x.value, _param(g, weight, channels, 1, x.dtype),
                                       _param(g, bias, channels, 0, x.dtype), eps=eps)
    count = math.prod(x.shape) // channels
    wide = ops.mul(variance, g.scalar(count / max(count - 1, 1), variance.dtype))
    return Traced(y), mean, wide


def _moved(g: Lowering, kept: Any, now: Value, momentum: float) -> Optional[Traced]:
    if kept is None:
        return None
    value = g.value(kept)
    weight = g.scalar(momentum, value.dtype)
    if momentum == CUMULATIVE and id(kept) not in g.counts:
        raise Unsupported("[from_torch] a batch norm without momentum that is called twice is not "
                          "supported")
    if momentum == CUMULATIVE:
        batches = ops.cast(g.counts[id(kept)].value, dtype=value.dtype)
        weight = ops.reciprocal(ops.add(batches, g.scalar(1, value.dtype)))
    made: List[Value] = g.builder.emit(
        "lerp_update", [value, g.cast(now, value.dtype),
                        ops.broadcast(weight, shape=list(value.shape))], {})
    return Traced(made[0])


@row("_native_batch_norm_legit_functional")
def batch_norm_functional(g: Lowering, x: Any, weight: Any, bias: Any, mean: Any, variance: Any,
                          training: bool, momentum: float, eps: float) -> Tuple[Any, ...]:
    x = g.traced(x)
    if not training:
        return _by_statistics(g, x, weight, bias, mean, variance, eps), None, None, mean, variance
    y, now, wide = _by_batch(g, x, weight, bias, eps)
    return (y, None, None, _moved(g, mean, now, momentum), _moved(g, variance, wide, momentum))


@row("_native_batch_norm_legit_no_training")
def batch_norm_no_training(g: Lowering, x: Any, weight: Any, bias: Any, mean: Any, variance: Any,
                           momentum: float, eps: float) -> Tuple[Traced, None, None]:
    return _by_statistics(g, g.traced(x), weight, bias, mean, variance, eps), None, None


@row("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(g: Lowering, x: Any, weight: Any, bias: Any, training: bool,
                        momentum: float, eps: float) -> Tuple[Traced, None, None]:
    return _by_batch(g, g.traced(x), weight, bias, eps)[0], None, None


@row("batch_norm")
def batch_norm(g: Lowering, x: Any, weight: Any, bias: Any, mean: Any, variance: Any,
               training: bool, momentum: float, eps: float, *_: Any) -> Traced:
    x = g.traced(x)
    if training:
        return _by_batch(g, x, weight, bias, eps)[0]
    return _by_statistics(g, x, weight, bias, mean, variance, eps)
