"""Rows and elements by index."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

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
    """With this axis as the first."""
    whole = g.traced(x)
    dim = g.axis(whole, dim)
    return whole.permuted([dim] + [i for i in range(len(whole.shape)) if i != dim]).value


def _from_rows(value: Value, dim: int, count: int) -> Traced:
    """With the first `count` axes as those from `dim` on."""
    rank = len(value.shape)
    return Traced(value, [*range(count, count + dim), *range(count), *range(count + dim, rank)])


@row("embedding")
def embedding(g: Lowering, weight: Any, indices: Any, padding_idx: int = -1,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Traced:
    if scale_grad_by_freq:
        raise Unsupported("[from_torch] an embedding with scale_grad_by_freq is not supported")
    weight, at = g.traced(weight), _indices(g, indices)
    rows = ops.gather(weight.value, at)
    if padding_idx < 0:
        return Traced(rows)
    # The padding's row is read, and gets no gradient.
    is_padding = ops.equal(at, g.scalar(padding_idx, at.dtype))
    mask = ops.broadcast(ops.reshape(is_padding, shape=[*at.shape, 1]), shape=list(rows.shape))
    return Traced(ops.where(mask, ops.stop_gradient(rows), rows))


@row("embedding_bag", "embedding_bag.padding_idx", "_embedding_bag")
def embedding_bag(g: Lowering, weight: Any, indices: Any, offsets: Any,
                  scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
                  per_sample_weights: Any = None, include_last_offset: bool = False,
                  padding_idx: Optional[int] = None) -> Tuple[Traced, None, None, None]:
    count = g.value(indices).shape[0]
    size = count // max(len(offsets) - include_last_offset, 1) if hasattr(offsets, "shape") else 0
    if (not isinstance(offsets, g.torch.Tensor) or size == 0
            or offsets.tolist() != list(range(0, count + include_last_offset, size))):
        raise Unsupported("[from_torch] an embedding_bag of bags of several sizes is not "
                          "supported; expected indices of two axes")
    if padding_idx is not None and padding_idx >= 0:
        raise Unsupported("[from_torch] an embedding_bag with padding_idx is not supported")
    rows = embedding(g, weight, indices, -1, scale_grad_by_freq)
    if per_sample_weights is not None:
        each = reshaped(g.traced(per_sample_weights), [count, 1])
        rows = Traced(ops.mul(rows.value, each.value))
    bags = reshaped(rows, [count // size, size, rows.shape[-1]])
    reduce = (ops.reduce_sum, ops.reduce_mean, ops.reduce_max)[mode]
    return Traced(reduce(bags.value, axes=[1])), None, None, None


@row("gather")
def gather(g: Lowering, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Traced:
    value, at = g.value(x), _indices(g, index)
    dim = g.axis(value, dim)
    # Indices may be of fewer elements along the other axes.
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
    sizes = [x.shape[axis] for axis in axes]
    rows = reshaped(x.permuted(axes + rest), [math.prod(sizes), *(x.shape[i] for i in rest)])
    flat: Optional[Value] = None
    for axis, size in zip(axes, sizes):
        at = _from_start(g, indices[axis], size)
        flat = at if flat is None else ops.add(ops.mul(flat, g.scalar(size, "i64")), at)
    assert flat is not None
    made = ops.gather(rows.value, flat if flat.shape else ops.reshape(flat, shape=[1]))
    if not flat.shape:
        made = ops.reshape(made, shape=list(made.shape[1:]))
    return _from_rows(made, place, len(flat.shape))


def _from_start(g: Lowering, at: Any, size: int) -> Value:
    """Indices counted from the first element; those below 0 count from the last."""
    if isinstance(at, g.torch.Tensor):
        return g.value(g.torch.where(at < 0, at + size, at), "i64")
    value = g.value(at, "i64")
    return ops.where(ops.less(value, g.scalar(0, "i64")),
                     ops.add(value, g.scalar(size, "i64")), value)


@row("scatter_add")
def scatter_add(g: Lowering, x: Any, dim: int, index: Any, src: Any) -> Traced:
    value, at = g.value(x), _indices(g, index)
    dim = g.axis(value, dim)
    updates = g.value(src, value.dtype)
    for axis, n in enumerate(at.shape):
        if n != updates.shape[axis]:
            updates = ops.slice(updates, axis=axis, start=0, end=n)
        if axis != dim and n != value.shape[axis]:
            raise Unsupported(f"[from_torch] scatter_add with indices {tuple(at.shape)} into "
                              f"{tuple(value.shape)} is not supported; expected the same "
                              f"dimensions but along axis {dim}")
    return Traced(ops.put_add(value, at, updates, axis=dim))


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
