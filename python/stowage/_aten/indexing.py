"""Gathers, scatters and other ops by index."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

from stowage import ops
from stowage._aten.shapes import broadcast, reshaped
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value
from stowage.errors import Unsupported


def _indices(g: Lowering, x: Any) -> Value:
    if g.dtype_of(x) not in (g.torch.int32, g.torch.int64):
        return g.value(x, "i64")
    return g.value(x)


def _rows(g: Lowering, x: Any, dim: int) -> Value:
    """Moves this axis to the front."""
    whole = g.traced(x)
    dim = g.axis(whole, dim)
    return whole.permuted([dim] + [i for i in range(len(whole.shape)) if i != dim]).value


def _from_rows(value: Value, dim: int, count: int) -> Traced:
    """Moves the first `count` axes to `dim`."""
    rank = len(value.shape)
    return Traced(value, [*range(count, count + dim), *range(count), *range(count + dim, rank)])


@row("embedding")
def embedding(g: Lowering, weight: Any, indices: Any, padding_idx: int = -1,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Traced:
    weight, at = g.traced(weight), _indices(g, indices)
    rows = ops.gather(weight.value, at)
    if scale_grad_by_freq:
        rows = _by_frequency(g, rows, at, weight.shape[0])
    if padding_idx < 0:
        return Traced(rows)
    # The padding row has no gradient.
    mask = _spread(ops.equal(at, g.scalar(padding_idx, at.dtype)), rows)
    return Traced(ops.where(mask, ops.stop_gradient(rows), rows))


def _spread(x: Value, rows: Value) -> Value:
    """Broadcasts a number per row over its elements."""
    return ops.broadcast(ops.reshape(x, shape=[*x.shape, 1]), shape=list(rows.shape))


def _by_frequency(g: Lowering, rows: Value, at: Value, words: int) -> Value:
    """Returns the rows. The gradient of each is divided by the number of its reads."""
    flat = ops.reshape(at, shape=[math.prod(at.shape)])
    counts = ops.scatter_add(g.fill([words], 0, rows.dtype), flat,
                             g.fill(flat.shape, 1, rows.dtype))
    share = _spread(ops.reciprocal(ops.gather(counts, at)), rows)
    still = ops.stop_gradient(rows)
    return ops.add(still, ops.mul(ops.sub(rows, still), share))


SUM, MEAN, MAX = 0, 1, 2


@row("embedding_bag", "embedding_bag.padding_idx", "_embedding_bag")
def embedding_bag(g: Lowering, weight: Any, indices: Any, offsets: Any,
                  scale_grad_by_freq: bool = False, mode: int = SUM, sparse: bool = False,
                  per_sample_weights: Any = None, include_last_offset: bool = False,
                  padding_idx: Optional[int] = None) -> Tuple[Traced, None, None, None]:
    padding = -1 if padding_idx is None else padding_idx
    rows = embedding(g, weight, indices, padding, scale_grad_by_freq).value
    count, bags = rows.shape[0], offsets.shape[0] - include_last_offset
    at = _indices(g, indices)
    kept = None if padding < 0 else ops.not_equal(at, g.scalar(padding, at.dtype))
    if per_sample_weights is not None:
        rows = ops.mul(rows, _spread(g.value(per_sample_weights, rows.dtype), rows))
    size = count // max(bags, 1)
    is_even = (isinstance(offsets, g.torch.Tensor) and size > 0
               and offsets.tolist() == list(range(0, count + include_last_offset, size)))
    if mode == MAX and not is_even:
        raise Unsupported("[from_torch] the maximum of an embedding_bag of bags of several sizes "
                          "is not supported; expected indices of two axes")
    if mode == MAX:
        return _largest_of_bags(g, rows, kept, bags), None, None, None
    shares = g.fill([count], 1, rows.dtype) if kept is None else ops.cast(kept, dtype=rows.dtype)
    if kept is not None:
        rows = ops.mul(rows, _spread(shares, rows))
    if is_even:
        made, sizes = (ops.reduce_sum(ops.reshape(x, shape=[bags, size, *x.shape[1:]]), axes=[1])
                       for x in (rows, shares))
    else:
        bag = _bags_of(g, offsets, bags, count)
        made, sizes = (ops.scatter_add(g.fill([bags, *x.shape[1:]], 0, rows.dtype), bag, x)
                       for x in (rows, shares))
    if mode == MEAN:  # an empty bag is 0
        sizes = ops.maximum(sizes, g.fill(sizes.shape, 1, rows.dtype))
        made = ops.div(made, _spread(sizes, made))
    return Traced(made), None, None, None


def _bags_of(g: Lowering, offsets: Any, bags: int, count: int) -> Value:
    """Returns the bag of each index: the last that begins at or before it."""
    begins = ops.slice(g.value(offsets, "i64"), axis=0, start=0, end=bags)
    begins = ops.broadcast(ops.reshape(begins, shape=[1, bags]), shape=[count, bags])
    places = g.value(g.torch.arange(count)[:, None].expand(count, bags))
    begun = ops.cast(ops.less_equal(begins, places), dtype="i64")
    return ops.sub(ops.reduce_sum(begun, axes=[1]), g.fill([count], 1, "i64"))


def _largest_of_bags(g: Lowering, rows: Value, kept: Optional[Value], bags: int) -> Traced:
    """Returns the elementwise maximum of each bag, or 0 for a bag that holds only padding."""
    if kept is not None:
        rows = ops.where(_spread(kept, rows), rows, g.fill(rows.shape, -math.inf, rows.dtype))
    made = ops.reduce_max(ops.reshape(rows, shape=[bags, -1, rows.shape[1]]), axes=[1])
    if kept is None:
        return Traced(made)
    is_none = ops.equal(made, g.fill(made.shape, -math.inf, rows.dtype))
    return Traced(ops.where(is_none, g.fill(made.shape, 0, rows.dtype), made))


@row("gather")
def gather(g: Lowering, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Traced:
    value, at = g.value(x), _indices(g, index)
    dim = g.axis(value, dim)
    # Indices may be smaller along the other axes.
    for axis, n in enumerate(at.shape):
        if axis != dim and n != value.shape[axis]:
            value = ops.slice(value, axis=axis, start=0, end=n)
    return Traced(ops.take_along_axis(value, at, axis=dim))


@row("take_along_dim")
def take_along_dim(g: Lowering, x: Any, index: Any, dim: Optional[int] = None) -> Traced:
    if dim is None:
        return gather(g, reshaped(g.traced(x), [-1]), 0, reshaped(g.traced(index), [-1]))
    x, index = g.traced(x), g.traced(index)
    dim = g.axis(x, dim)
    shape = [max(n, m) for n, m in zip(x.shape, index.shape)]
    return gather(g, broadcast(x, [x.shape[i] if i == dim else n for i, n in enumerate(shape)]),
                  dim, broadcast(index, [index.shape[i] if i == dim else n
                                         for i, n in enumerate(shape)]))


@row("index_select")
def index_select(g: Lowering, x: Any, dim: int, index: Any) -> Traced:
    dim = g.axis(x, dim)
    at = _indices(g, index)
    at = at if at.shape else ops.reshape(at, shape=[1])
    return _from_rows(ops.gather(_rows(g, x, dim), at), dim, 1)


@row("index.Tensor", "_unsafe_index.Tensor")
def index(g: Lowering, x: Any, indices: Sequence[Any]) -> Traced:
    x = g.traced(x)
    axes = [axis for axis, at in enumerate(indices) if at is not None]
    if any(g.dtype_of(indices[axis]) in (g.torch.bool, g.torch.uint8) for axis in axes):
        raise Unsupported("[from_torch] a choice by a mask, whose size depends on data, is not "
                          "supported; expected where or masked_fill")
    is_together = axes == list(range(axes[0], axes[0] + len(axes)))
    place = axes[0] if is_together else 0
    rest = [i for i in range(len(x.shape)) if i not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    rows = reshaped(x.permuted(axes + rest), [count, *(x.shape[i] for i in rest)])
    flat = _flat_index(g, x, indices, axes)
    made = ops.gather(rows.value, flat if flat.shape else ops.reshape(flat, shape=[1]))
    if not flat.shape:
        made = ops.reshape(made, shape=list(made.shape[1:]))
    return _from_rows(made, place, len(flat.shape))


@row("index_put", "_unsafe_index_put")
def index_put(g: Lowering, x: Any, indices: Sequence[Any], values: Any,
              accumulate: bool = False) -> Traced:
    x, values = g.traced(x), g.traced(values, g.name_of(g.dtype_of(x)))
    axes = [axis for axis, at in enumerate(indices) if at is not None]
    if any(g.dtype_of(indices[axis]) in (g.torch.bool, g.torch.uint8) for axis in axes):
        return _put_by_mask(g, x, indices, values, accumulate)
    # The rows at the indices, as in `index`.
    rest = [i for i in range(len(x.shape)) if i not in axes]
    flat = _flat_index(g, x, indices, axes)
    lead, kept = list(flat.shape), [x.shape[i] for i in rest]
    is_together = axes == list(range(axes[0], axes[0] + len(axes)))
    place = axes[0] if is_together else 0
    whole = [*kept[:place], *lead, *kept[place:]]
    values = broadcast(reshaped(values, [1] * (len(whole) - len(values.shape)) + [*values.shape]),
                       whole)
    turned = values.permuted([*range(place, place + len(lead)), *range(place),
                              *range(place + len(lead), len(whole))])
    updates = reshaped(turned, [math.prod(lead), *kept]).value
    at = ops.reshape(flat, shape=[math.prod(lead)])
    order = axes + rest
    rows = reshaped(x.permuted(order), [math.prod(x.shape[i] for i in axes), *kept])
    made = _added(g, rows, at, updates) if accumulate else _replaced(g, rows, at, updates)
    back = reshaped(Traced(made), [x.shape[i] for i in order])
    return back.permuted([order.index(i) for i in range(len(order))])


def _added(g: Lowering, rows: Traced, at: Value, updates: Value) -> Value:
    return ops.scatter_add(rows.value, at, updates)


def _replaced(g: Lowering, rows: Traced, at: Value, updates: Value) -> Value:
    """Replaces rows by updates; several updates of one row are averaged, each with the full
    gradient."""
    dtype, shape = updates.dtype, list(rows.shape)
    total = ops.scatter_add(g.fill(shape, 0, dtype), at, updates)
    counts = ops.scatter_add(g.fill(shape[:1], 0, dtype), at, g.fill(at.shape, 1, dtype))
    counts = ops.reshape(counts, shape=[shape[0], *[1] * (len(shape) - 1)])
    counts = ops.broadcast(counts, shape=shape)
    if dtype in ("i32", "i64"):  # which have no gradient
        one = ops.maximum(counts, g.fill(shape, 1, dtype))
        mean = ops.div(ops.cast(total, dtype="f64"), ops.cast(one, dtype="f64"))
        return ops.where(ops.greater(counts, g.fill(shape, 0, dtype)),
                         ops.cast(mean, dtype=dtype), rows.value)
    mean = ops.div(total, ops.maximum(counts, g.fill(shape, 1, dtype)))
    put = ops.sub(total, ops.stop_gradient(ops.sub(total, mean)))
    return ops.where(ops.greater(counts, g.fill(shape, 0, dtype)), put, rows.value)


def _put_by_mask(g: Lowering, x: Traced, indices: Sequence[Any], values: Traced,
                 accumulate: bool) -> Traced:
    """Assigns the same values to every element, or row of x, that a mask selects. The number of
    selected elements depends on data, so that each cannot have values of its own."""
    masks = [at for at in indices if at is not None]
    mask = g.traced(masks[0], "bool")
    first = next(i for i, at in enumerate(indices) if at is not None)
    rest = len(x.shape) - first - len(mask.shape)
    shape = list(values.shape)
    split = max(len(shape) - rest, 0)  # the axes behind it are those of a row
    if len(masks) > 1 or accumulate or shape[:split][-1:] not in ([], [1]):
        raise Unsupported("[from_torch] an assignment by a mask of several values, whose number "
                          "depends on data, is not supported; expected where or masked_fill")
    spread = shape[:max(split - 1, 0)] + [1] * (len(mask.shape) if split else 0) + shape[split:]
    row_ = reshaped(values, [1] * (len(x.shape) - len(spread)) + spread)
    mask = reshaped(mask, [1] * first + [*mask.shape] + [1] * rest)
    return Traced(ops.where(broadcast(mask, x.shape).value, broadcast(row_, x.shape).value,
                            x.value))


def _flat_index(g: Lowering, x: Traced, indices: Sequence[Any], axes: Sequence[int]) -> Value:
    """Flat row indices over all indexed axes."""
    flat: Optional[Value] = None
    for axis in axes:
        size = x.shape[axis]
        at = _from_start(g, indices[axis], size)
        flat = at if flat is None else ops.add(ops.mul(flat, g.scalar(size, "i64")), at)
    assert flat is not None
    return flat


def _from_start(g: Lowering, at: Any, size: int) -> Value:
    """Converts indices that count from the end to nonnegative indices."""
    if isinstance(at, g.torch.Tensor):
        return g.value(g.torch.where(at < 0, at + size, at), "i64")
    value = g.value(at, "i64")
    return ops.where(ops.less(value, g.scalar(0, "i64")),
                     ops.add(value, g.scalar(size, "i64")), value)


def on_part(x: Value, at: Value, dim: int, make: Callable[[Value], Value]) -> Value:
    """Applies `make` to the elements along the other axes that have indices."""
    for axis, n in enumerate(at.shape):
        size = x.shape[axis]
        if axis == dim or n == size:
            continue
        inner = on_part(ops.slice(x, axis=axis, start=0, end=n), at, dim, make)
        return ops.concat([inner, ops.slice(x, axis=axis, start=n, end=size)], axis=axis)
    return make(x)


def updates_of(g: Lowering, src: Any, at: Value, dtype: str) -> Value:
    """Expands a number, or truncates a tensor, to the shape of the indices."""
    if not isinstance(src, (Traced, g.torch.Tensor)) or not src.shape:
        return ops.broadcast(ops.reshape(g.value(src, dtype), shape=[1] * len(at.shape)),
                             shape=list(at.shape))
    updates = g.value(src, dtype)
    for axis, n in enumerate(at.shape):
        if n != updates.shape[axis]:
            updates = ops.slice(updates, axis=axis, start=0, end=n)
    return updates


def count_of(g: Lowering, part: Value, at: Value, dim: int) -> Value:
    """Returns the number of indices of each element."""
    return ops.put_add(g.fill(part.shape, 0, part.dtype), at, g.fill(at.shape, 1, part.dtype),
                       axis=dim)


@row("scatter_add")
def scatter_add(g: Lowering, x: Any, dim: int, index: Any, src: Any) -> Traced:
    value, at = g.value(x), _indices(g, index)
    dim = g.axis(value, dim)
    updates = updates_of(g, src, at, value.dtype)
    return Traced(on_part(value, at, dim,
                          lambda part: ops.put_add(part, at, updates, axis=dim)))


@row("scatter.src", "scatter.value")
def scatter(g: Lowering, x: Any, dim: int, index: Any, src: Any) -> Traced:
    """Replaces elements; several updates of one element are averaged, each with the full
    gradient."""
    value, at = g.value(x), _indices(g, index)
    dim = g.axis(value, dim)
    updates = updates_of(g, src, at, value.dtype)

    def put(part: Value) -> Value:
        total = ops.put_add(g.fill(part.shape, 0, part.dtype), at, updates, axis=dim)
        count = count_of(g, part, at, dim)
        mean = ops.div(total, ops.maximum(count, g.fill(part.shape, 1, part.dtype)))
        put = ops.sub(total, ops.stop_gradient(ops.sub(total, mean)))
        return ops.where(ops.greater(count, g.fill(part.shape, 0, part.dtype)), put, part)

    return Traced(on_part(value, at, dim, put))


@row("index_add")
def index_add(g: Lowering, x: Any, dim: int, index: Any, source: Any, *,
              alpha: float = 1) -> Traced:
    dim = g.axis(x, dim)
    rows = _rows(g, x, dim)
    updates = g.cast(_rows(g, source, dim), rows.dtype)
    if alpha != 1:
        updates = ops.mul(updates, g.scalar(alpha, rows.dtype))
    return _from_rows(ops.scatter_add(rows, _indices(g, index), updates), dim, 1)


@row("one_hot")
def one_hot(g: Lowering, x: Any, classes: int = -1) -> Traced:
    if classes < 0:
        raise Unsupported("[from_torch] one_hot without a number of classes, which then depends "
                          "on data, is not supported; give num_classes")
    at = g.value(x, "i64")
    spread = ops.broadcast(ops.reshape(at, shape=[*at.shape, 1]), shape=[*at.shape, classes])
    places: List[int] = list(spread.shape)
    every = ops.broadcast(g.value(g.torch.arange(classes)), shape=places)
    return Traced(ops.cast(ops.equal(spread, every), dtype="i64"))


@row("diagonal", "diagonal_copy")
def diagonal(g: Lowering, x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Traced:
    whole = g.traced(x)
    dim1, dim2 = g.axis(whole, dim1), g.axis(whole, dim2)
    rest = [i for i in range(len(whole.shape)) if i not in (dim1, dim2)]
    lines, columns = whole.shape[dim1], whole.shape[dim2]
    count = min(lines, columns - offset) if offset >= 0 else min(lines + offset, columns)
    if count <= 0:
        raise Unsupported(f"[from_torch] the diagonal {offset} of {lines} x {columns} has no "
                          "elements, which is not supported")
    first = offset if offset >= 0 else -offset * columns
    at = g.torch.arange(count) * (columns + 1) + first
    flat = reshaped(whole.permuted([dim1, dim2] + rest),
                    [lines * columns, *(whole.shape[i] for i in rest)])
    return _from_rows(ops.gather(flat.value, g.value(at, "i64")), len(rest), 1)


@row("unfold", "unfold_copy")
def unfold(g: Lowering, x: Any, dim: int, size: int, step: int) -> Traced:
    """Returns windows along an axis. Their elements form a new last axis."""
    whole = g.traced(x)
    dim, rank = g.axis(whole, dim), len(whole.shape)
    starts = g.torch.arange(0, whole.shape[dim] - size + 1, step)
    at = starts[:, None] + g.torch.arange(size)
    taken = ops.gather(_rows(g, whole, dim), g.value(at, "i64"))  # windows, elements, the rest
    return Traced(taken, [*range(2, dim + 2), 0, *range(dim + 2, rank + 1), 1])


@row("bucketize.Tensor")
def bucketize(g: Lowering, x: Any, boundaries: Any, *, out_int32: bool = False,
              right: bool = False) -> Traced:
    return searchsorted(g, boundaries, x, out_int32=out_int32, right=right)


@row("searchsorted.Tensor")
def searchsorted(g: Lowering, boundaries: Any, x: Any, *, out_int32: bool = False,
                 right: bool = False, side: Optional[str] = None, sorter: Any = None) -> Traced:
    """Returns the number of boundaries before each number."""
    if sorter is not None or len(boundaries.shape) != 1:
        raise Unsupported("[from_torch] searchsorted in rows, or by a sorter, is not supported; "
                          "expected boundaries of one axis")
    dtype = g.result_type(boundaries, x)
    value, bounds = g.value(x, dtype), g.value(boundaries, dtype)
    shape = [*value.shape, bounds.shape[0]]
    each = ops.broadcast(ops.reshape(value, shape=[*value.shape, 1]), shape=shape)
    bounds = ops.broadcast(ops.reshape(bounds, shape=[1] * len(value.shape) + [shape[-1]]),
                           shape=shape)
    is_before = (ops.less_equal if right or side == "right" else ops.less)(bounds, each)
    counts = ops.reduce_sum(ops.cast(is_before, dtype="i64"), axes=[len(shape) - 1])
    return Traced(g.cast(counts, "i32" if out_int32 else "i64"))
