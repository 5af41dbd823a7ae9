"""Running products, maxima and sums of exponentials, in a logarithmic number of steps.

After step k each element holds the result of the 2^k elements up to it (Hillis and Steele 1986,
"Data parallel algorithms").
"""

from __future__ import annotations

import math
from typing import Any, Callable, List, Tuple

from stowage import ops
from stowage._aten.indexing import gather
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value

Combine = Callable[[List[Value], List[Value]], List[Value]]


def scan(g: Lowering, values: List[Value], axis: int, first: List[float],
          combine: Combine) -> List[Value]:
    """Returns the scan of `combine(earlier, later)` along an axis, which starts from `first`."""
    size, step = values[0].shape[axis], 1
    while step < size:
        earlier = []
        for value, number in zip(values, first):
            shape = list(value.shape)
            shape[axis] = step
            kept = ops.slice(value, axis=axis, start=0, end=size - step)
            earlier.append(ops.concat([g.fill(shape, number, value.dtype), kept], axis=axis))
        values = combine(earlier, values)
        step *= 2
    return values


@row("cumprod")
def cumprod(g: Lowering, x: Any, dim: int, *, dtype: Any = None) -> Traced:
    whole = g.traced(x, g.name_of(dtype) if dtype is not None else "" if g.is_float(x) else "i64")
    if not whole.shape:
        return whole
    return Traced(scan(g, [whole.value], g.axis(whole, dim), [1],
                        lambda a, b: [ops.mul(a[0], b[0])])[0])


@row("logcumsumexp")
def logcumsumexp(g: Lowering, x: Any, dim: int) -> Traced:
    whole = g.traced(x)
    if not whole.shape:
        return whole

    def add(a: List[Value], b: List[Value]) -> List[Value]:
        top = ops.stop_gradient(ops.maximum(a[0], b[0]))
        top = ops.where(ops.equal(top, g.scalar(-math.inf, whole.dtype)),
                        g.fill(top.shape, 0, whole.dtype), top)
        total = ops.add(ops.exp(ops.sub(a[0], top)), ops.exp(ops.sub(b[0], top)))
        return [ops.add(ops.log(total), top)]

    return Traced(scan(g, [whole.value], g.axis(whole, dim), [-math.inf], add)[0])


def _running(g: Lowering, x: Any, dim: int, first: float,
             beats: Callable[[Value, Value], Value]) -> Tuple[Traced, Traced]:
    """Returns the running extremum, and its last index."""
    whole = g.traced(x)
    if not whole.shape:
        return whole, g.traced(g.torch.zeros((), dtype=g.torch.int64))
    axis = g.axis(whole, dim)
    places = g.torch.arange(whole.shape[axis]).reshape(
        [-1 if i == axis else 1 for i in range(len(whole.shape))]).expand(whole.shape)

    def better(a: List[Value], b: List[Value]) -> List[Value]:
        is_earlier = beats(a[0], b[0])
        return [ops.where(is_earlier, earlier, later) for earlier, later in zip(a, b)]

    start = [ops.stop_gradient(whole.value), g.value(places, "i64")]
    _, at = scan(g, start, axis, [first, 0], better)
    return gather(g, whole, axis, Traced(at)), Traced(at)


@row("cummax")
def cummax(g: Lowering, x: Any, dim: int) -> Tuple[Traced, Traced]:
    return _running(g, x, dim, -math.inf, ops.greater)


@row("cummin")
def cummin(g: Lowering, x: Any, dim: int) -> Tuple[Traced, Traced]:
    return _running(g, x, dim, math.inf, ops.less)
