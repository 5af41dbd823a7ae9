"""Reductions of the updates of one element."""

from __future__ import annotations

import math
from typing import Any, List

from stowage import ops
from stowage._aten.indexing import count_of, on_part, updates_of
from stowage._aten.reductions import topk
from stowage._aten.scans import scan
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value
from stowage.errors import Unsupported


@row("scatter_reduce.two")
def scatter_reduce(g: Lowering, x: Any, dim: int, index: Any, src: Any, reduce: str, *,
                   include_self: bool = True) -> Traced:
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise Unsupported(f'[from_torch] scatter_reduce by "{reduce}" is not supported; expected '
                          '"sum", "mean", "amax" or "amin"')
    value, at = g.value(x), g.value(index, "i64")
    dim = g.axis(value, dim)
    updates = updates_of(g, src, at, value.dtype)

    def put(part: Value) -> Value:
        if reduce == "amax":
            return _largest(g, part, at, updates, dim, include_self)
        if reduce == "amin":
            return ops.neg(_largest(g, ops.neg(part), at, ops.neg(updates), dim, include_self))
        zeros, ones = (g.fill(part.shape, each, part.dtype) for each in (0, 1))
        counts = count_of(g, part, at, dim)
        is_named = ops.greater(counts, zeros)
        base = part if include_self else ops.where(is_named, zeros, part)
        total = ops.put_add(base, at, updates, axis=dim)
        if reduce == "sum":
            return total
        return ops.div(total, ops.add(counts, ones) if include_self
                       else ops.maximum(counts, ones))

    return Traced(on_part(value, at, dim, put))


def _largest(g: Lowering, part: Value, at: Value, updates: Value, dim: int,
             include_self: bool) -> Value:
    """Returns the largest update of each element. As in torch, all updates that equal it share its
    gradient, and so does the element itself if it equals it."""
    was, given = ops.stop_gradient(part), ops.stop_gradient(updates)
    # The updates by their indices: a running maximum over those of one index, which starts anew at
    # the next, has the largest of each at its last place.
    order = topk(g, g.traced(Traced(at), "f64"), at.shape[dim], dim, False)[1].value

    def larger(a: List[Value], b: List[Value]) -> List[Value]:
        return [b[0], ops.where(ops.equal(a[0], b[0]), ops.maximum(a[1], b[1]), b[1])]

    sorted_ = [ops.take_along_axis(each, order, axis=dim) for each in (at, given)]
    running = scan(g, sorted_, dim, [-1, -math.inf], larger)[1]
    counts = ops.put_add(g.fill(part.shape, 0, "f64"), at, g.fill(at.shape, 1, "f64"), axis=dim)
    last = ops.sub(ops.cumsum(counts, axis=dim), g.fill(part.shape, 1, "f64"))
    last = ops.cast(ops.maximum(last, g.fill(part.shape, 0, "f64")), dtype="i64")
    made = ops.take_along_axis(running, last, axis=dim)
    is_named = ops.greater(counts, g.fill(part.shape, 0, "f64"))
    made = ops.where(is_named, ops.maximum(made, was) if include_self else made, was)

    of_update, of_self = (ops.cast(ops.equal(each, best), dtype=part.dtype) for each, best in (
        (given, ops.take_along_axis(made, at, axis=dim)), (was, made)))
    ties = ops.put_add(of_self, at, of_update, axis=dim)
    of_update = ops.div(of_update, ops.take_along_axis(ties, at, axis=dim))
    of_self = ops.div(of_self, ties)
    if not include_self:
        of_self = ops.where(is_named, g.fill(part.shape, 0, part.dtype), of_self)
    made = ops.add(made, ops.mul(ops.sub(part, was), of_self))
    return ops.put_add(made, at, ops.mul(ops.sub(updates, given), of_update), axis=dim)
