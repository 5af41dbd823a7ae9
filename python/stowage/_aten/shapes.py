"""Ops that move elements: views, concatenation, slices, padding."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

from stowage import ops
from stowage._aten.table import Lowering, Traced, row


def reshaped(x: Traced, shape: Sequence[int]) -> Traced:
    shape = [int(i) for i in shape]
    if -1 in shape:
        rest = -math.prod(shape)
        shape[shape.index(-1)] = math.prod(x.shape) // rest if rest else 0
    if tuple(shape) == x.shape:
        return x
    # Axes of one element do not affect the layout.
    if x.is_permuted and [i for i in x.order if x.base.shape[i] > 1] == sorted(
            i for i in x.order if x.base.shape[i] > 1):
        return Traced(ops.reshape(x.base, shape=shape))
    linear = None
    if x.linear is not None and len(shape) and shape[-1] == x.shape[-1] and not x.is_permuted:
        features, weight = x.linear
        linear = (ops.reshape(features, shape=shape[:-1] + [features.shape[-1]]), weight)
        return Traced(None, linear=linear, make=lambda: ops.reshape(x.value, shape=shape),
                      shape=shape, dtype=x.dtype)
    return Traced(ops.reshape(x.value, shape=shape))


@row("view", "reshape", "_unsafe_view", "view_copy")
def view(g: Lowering, x: Traced, shape: Sequence[int]) -> Traced:
    return reshaped(x, shape)


@row("flatten.using_ints")
def flatten(g: Lowering, x: Traced, start: int = 0, end: int = -1) -> Traced:
    if not x.shape:
        return reshaped(x, [1])
    start, end = g.axis(x, start), g.axis(x, end)
    shape = x.shape
    return reshaped(x, [*shape[:start], math.prod(shape[start:end + 1]), *shape[end + 1:]])


@row("unflatten.int")
def unflatten(g: Lowering, x: Traced, dim: int, sizes: Sequence[int]) -> Traced:
    dim, sizes = g.axis(x, dim), [int(i) for i in sizes]
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[dim] // -math.prod(sizes)
    return reshaped(x, [*x.shape[:dim], *sizes, *x.shape[dim + 1:]])


@row("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy.dims")
def squeeze(g: Lowering, x: Traced, dims: Any = None) -> Traced:
    axes = [] if isinstance(dims, (list, tuple)) and not dims else g.axes(x, dims)
    return reshaped(x, [n for i, n in enumerate(x.shape) if i not in axes or n != 1])


@row("unsqueeze")
def unsqueeze(g: Lowering, x: Traced, dim: int) -> Traced:
    dim = dim + len(x.shape) + 1 if dim < 0 else dim
    return reshaped(x, [*x.shape[:dim], 1, *x.shape[dim:]])


@row("permute")
def permute(g: Lowering, x: Traced, dims: Sequence[int]) -> Traced:
    return x.permuted([g.axis(x, i) for i in dims])


@row("transpose.int", "swapaxes", "swapdims")
def transpose(g: Lowering, x: Traced, a: int, b: int) -> Traced:
    order = list(range(len(x.shape)))
    if order:
        a, b = g.axis(x, a), g.axis(x, b)
        order[a], order[b] = order[b], order[a]
    return x.permuted(order)


@row("t", "numpy_T", "mT")
def t(g: Lowering, x: Traced) -> Traced:
    return transpose(g, x, -1, -2) if len(x.shape) > 1 else x


@row("movedim.int", "movedim.intlist")
def movedim(g: Lowering, x: Traced, source: Any, target: Any) -> Traced:
    sources = [g.axis(x, i) for i in ([source] if isinstance(source, int) else source)]
    targets = [g.axis(x, i) for i in ([target] if isinstance(target, int) else target)]
    order: List[int] = [-1] * len(x.shape)
    for one, other in zip(sources, targets):
        order[other] = one
    rest = iter(i for i in range(len(x.shape)) if i not in sources)
    return x.permuted([next(rest) if i < 0 else i for i in order])


def broadcast(x: Traced, shape: Sequence[int]) -> Traced:
    return x if tuple(shape) == x.shape else Traced(ops.broadcast(x.value, shape=list(shape)))


@row("expand", "broadcast_to")
def expand(g: Lowering, x: Traced, shape: Sequence[int], **_: Any) -> Traced:
    lead = len(shape) - len(x.shape)
    return broadcast(x, [x.shape[i - lead] if n == -1 else int(n) for i, n in enumerate(shape)])


@row("expand_as")
def expand_as(g: Lowering, x: Traced, other: Any) -> Traced:
    return broadcast(x, other.shape)


# --- Slices ---


@row("slice.Tensor")
def slice_(g: Lowering, x: Traced, dim: int = 0, start: Optional[int] = None,
           end: Optional[int] = None, step: int = 1) -> Any:
    dim = g.axis(x, dim)
    size = x.shape[dim]
    first, last, step = slice(start, end, step).indices(size)
    last = max(first, last)
    if (first, last, step) == (0, size, 1):
        return x
    if first == last:  # of no elements, whatever x has
        return g.torch.empty([0 if i == dim else n for i, n in enumerate(x.shape)],
                             dtype=g.dtype_of(x))
    return Traced(ops.slice(x.base, axis=x.order[dim], start=first, end=last, step=step), x.order)


@row("narrow")
def narrow(g: Lowering, x: Traced, dim: int, start: int, length: int) -> Any:
    start = start + x.shape[g.axis(x, dim)] if start < 0 else start
    return slice_(g, x, dim, start, start + length)


@row("select.int")
def select(g: Lowering, x: Traced, dim: int, index: int) -> Traced:
    dim = g.axis(x, dim)
    part = narrow(g, x, dim, index, 1)
    return reshaped(part, [n for i, n in enumerate(part.shape) if i != dim])


@row("split_with_sizes", "split.sizes", "split_with_sizes_copy")
def split_with_sizes(g: Lowering, x: Traced, sizes: Sequence[int],
                     dim: int = 0) -> Tuple[Traced, ...]:
    axis = x.order[g.axis(x, dim)]
    if len(sizes) == 1:
        return (x,)
    return tuple(Traced(each, x.order) for each in
                 ops.split(x.base, axis=axis, sizes=[int(i) for i in sizes]))


@row("split.Tensor")
def split(g: Lowering, x: Traced, size: int, dim: int = 0) -> Tuple[Traced, ...]:
    whole = x.shape[g.axis(x, dim)]
    return split_with_sizes(g, x, [min(size, whole - i) for i in range(0, whole, size)], dim)


@row("chunk")
def chunk(g: Lowering, x: Traced, chunks: int, dim: int = 0) -> Tuple[Traced, ...]:
    return split(g, x, -(-x.shape[g.axis(x, dim)] // chunks), dim)


@row("tensor_split.sections")
def tensor_split(g: Lowering, x: Traced, sections: int, dim: int = 0) -> Tuple[Traced, ...]:
    size, more = divmod(x.shape[g.axis(x, dim)], sections)
    return split_with_sizes(g, x, [size + (i < more) for i in range(sections)], dim)


@row("unbind.int")
def unbind(g: Lowering, x: Traced, dim: int = 0) -> Tuple[Traced, ...]:
    dim = g.axis(x, dim)
    rest = [n for i, n in enumerate(x.shape) if i != dim]
    return tuple(reshaped(part, rest)
                 for part in split_with_sizes(g, x, [1] * x.shape[dim], dim))


# --- Concatenation ---


@row("cat", "concat", "concatenate")
def cat(g: Lowering, tensors: Sequence[Any], dim: int = 0) -> Traced:
    # torch ignores empty tensors of any rank.
    parts = [x for x in tensors if math.prod(x.shape) > 0]
    dtype = g.result_type(*tensors)
    dim = g.axis(parts[0], dim)
    if len(parts) == 1:
        return g.traced(parts[0], dtype)
    return Traced(ops.concat([g.value(x, dtype) for x in parts], axis=dim))


@row("stack")
def stack(g: Lowering, tensors: Sequence[Any], dim: int = 0) -> Traced:
    rank = len(tensors[0].shape)
    dim = dim + rank + 1 if dim < 0 else dim
    return cat(g, [unsqueeze(g, g.traced(x), dim) for x in tensors], dim)


@row("repeat")
def repeat(g: Lowering, x: Traced, repeats: Sequence[int]) -> Traced:
    lead = len(repeats) - len(x.shape)
    shape = [1] * lead + list(x.shape)
    wide: List[int] = []
    for times, n in zip(repeats, shape):
        wide += [int(times), n]
    spread = broadcast(reshaped(x, [n for size in shape for n in (1, size)]), wide)
    return reshaped(spread, [int(times) * n for times, n in zip(repeats, shape)])


@row("repeat_interleave.self_int")
def repeat_interleave(g: Lowering, x: Traced, repeats: int, dim: Optional[int] = None,
                      **_: Any) -> Traced:
    if dim is None:
        x, dim = reshaped(x, [-1]), 0
    dim = g.axis(x, dim)
    shape = x.shape
    wide = broadcast(unsqueeze(g, x, dim + 1), [*shape[:dim + 1], repeats, *shape[dim + 1:]])
    return reshaped(wide, [*shape[:dim], shape[dim] * repeats, *shape[dim + 1:]])


@row("select_scatter")
def select_scatter(g: Lowering, x: Any, part: Any, dim: int, index: int) -> Traced:
    dim = g.axis(x, dim)
    index = index + x.shape[dim] if index < 0 else index
    return _put(g, x, unsqueeze(g, g.traced(part), dim), dim, index)


@row("slice_scatter")
def slice_scatter(g: Lowering, x: Any, part: Any, dim: int = 0, start: Optional[int] = None,
                  end: Optional[int] = None, step: int = 1) -> Traced:
    dim = g.axis(x, dim)
    first, last, step = slice(start, end, step).indices(x.shape[dim])
    return _put(g, x, part, dim, first) if step == 1 else _put_every(
        g, x, part, dim, range(first, last, step))


def _put(g: Lowering, x: Any, part: Any, dim: int, start: int) -> Traced:
    x, part = g.traced(x), g.traced(part, g.name_of(g.dtype_of(x)))
    end = start + part.shape[dim]
    parts = [part] if end > start else []
    if start > 0:
        parts.insert(0, slice_(g, x, dim, 0, start))
    if end < x.shape[dim]:
        parts.append(slice_(g, x, dim, end, x.shape[dim]))
    return cat(g, parts, dim)


def _put_every(g: Lowering, x: Any, part: Any, dim: int, places: Sequence[int]) -> Traced:
    """Replaces the elements at these indices of an axis. The result is gathered from both."""
    x, part = g.traced(x), g.traced(part, g.name_of(g.dtype_of(x)))
    size = x.shape[dim]
    at = g.torch.arange(size)
    at[list(places)] = g.torch.arange(size, size + len(places))
    order = [dim, *(i for i in range(len(x.shape)) if i != dim)]
    rows = cat(g, [x, part], dim).permuted(order)
    taken = Traced(ops.gather(rows.value, g.value(at)))
    return taken.permuted([order.index(i) for i in range(len(order))])


@row("flip")
def flip(g: Lowering, x: Traced, dims: Sequence[int]) -> Traced:
    for dim in g.axes(x, list(dims)) if dims else []:
        # Indices from the end.
        turned, back = g.last(x, dim)
        at = ops.broadcast(g.value(g.torch.arange(x.shape[dim] - 1, -1, -1), "i32"),
                           shape=list(turned.shape))
        x = Traced(ops.take_along_axis(turned.value, at, axis=len(x.shape) - 1)).permuted(back)
    return x


@row("roll")
def roll(g: Lowering, x: Traced, shifts: Any, dims: Any = ()) -> Traced:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not dims and not isinstance(dims, int):
        return reshaped(roll(g, reshaped(x, [-1]), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, [dims] if isinstance(dims, int) else dims):
        dim = g.axis(x, dim)
        shift %= x.shape[dim]
        if shift:
            at = x.shape[dim] - shift
            x = cat(g, [slice_(g, x, dim, at), slice_(g, x, dim, 0, at)], dim)
    return x


# --- Padding ---


def _sides(x: Traced, padding: Sequence[int]) -> Tuple[List[int], List[int]]:
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for i in range(len(padding) // 2):
        before[rank - 1 - i] = int(padding[2 * i])
        after[rank - 1 - i] = int(padding[2 * i + 1])
    return before, after


def _cut(g: Lowering, x: Traced, padding: Sequence[int]) -> Tuple[Traced, List[int], List[int]]:
    """Crops negative pads; returns the result and the other pads."""
    before, after = _sides(x, padding)
    for axis, (low, high) in enumerate(zip(before, after)):
        if low < 0 or high < 0:
            x = slice_(g, x, axis, max(0, -low), x.shape[axis] - max(0, -high))
    return x, [max(0, n) for n in before], [max(0, n) for n in after]


@row("constant_pad_nd")
def constant_pad(g: Lowering, x: Traced, padding: Sequence[int], value: float = 0) -> Traced:
    x, before, after = _cut(g, x, padding)
    if not any(before) and not any(after):
        return x
    if g.is_float(x):
        return Traced(ops.pad(x.value, before=before, after=after, value=value))
    made = x.value
    for axis, (low, high) in enumerate(zip(before, after)):
        ends = [[g.fill([size if i == axis else n for i, n in enumerate(made.shape)], value,
                        made.dtype)] if size else [] for size in (low, high)]
        if low or high:
            made = ops.concat([*ends[0], made, *ends[1]], axis=axis)
    return Traced(made)


@row("pad")
def pad(g: Lowering, x: Traced, padding: Sequence[int], mode: str = "constant",
        value: Optional[float] = None) -> Traced:
    if mode == "constant":
        return constant_pad(g, x, padding, value or 0)
    x, before, after = _cut(g, x, padding)
    if mode == "circular":
        for axis, (low, high) in enumerate(zip(before, after)):
            size = x.shape[axis]
            parts = [slice_(g, x, axis, size - low)] if low else []
            parts += [x] + ([slice_(g, x, axis, 0, high)] if high else [])
            x = cat(g, parts, axis)
        return x
    return Traced(ops.pad(x.value, before=before, after=after,
                          mode="edge" if mode == "replicate" else mode))


for _kind in ("reflection", "replication"):
    for _rank in (1, 2, 3):
        row(f"{_kind}_pad{_rank}d")(
            lambda g, x, padding, _mode="reflect" if _kind == "reflection" else "replicate":
            pad(g, x, padding, _mode))


@row("pixel_shuffle")
def pixel_shuffle(g: Lowering, x: Traced, factor: int) -> Traced:
    *lead, c, h, w = x.shape
    n = len(lead)
    split_ = reshaped(x, [*lead, c // factor**2, factor, factor, h, w])
    turned = split_.permuted([*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return reshaped(turned, [*lead, c // factor**2, h * factor, w * factor])


@row("tril")
def tril(g: Lowering, x: Traced, diagonal: int = 0) -> Traced:
    return _triangle(g, x, g.torch.ones(x.shape[-2:]).tril(diagonal))


@row("triu")
def triu(g: Lowering, x: Traced, diagonal: int = 0) -> Traced:
    return _triangle(g, x, g.torch.ones(x.shape[-2:]).triu(diagonal))


def _triangle(g: Lowering, x: Traced, kept: Any) -> Traced:
    mask = ops.broadcast(g.value(kept, "bool"), shape=list(x.shape))
    return Traced(ops.where(mask, x.value, g.fill(x.shape, 0, x.dtype)))
