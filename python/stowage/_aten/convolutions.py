"""Convolutions, pooling and resizing."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from stowage import ops
from stowage._aten.indexing import index_select
from stowage._aten.products import product
from stowage._aten.shapes import reshaped, unsqueeze
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value

Numbers = Union[int, Sequence[int]]


def _each(numbers: Numbers, count: int) -> List[int]:
    listed = [int(numbers)] if isinstance(numbers, int) else [int(i) for i in numbers]
    return listed * count if len(listed) == 1 else listed


def _batched(g: Lowering, x: Any, spatial: int) -> Tuple[Traced, bool]:
    x = g.traced(x)
    is_one = len(x.shape) == spatial + 1
    return (unsqueeze(g, x, 0) if is_one else x), is_one


def _finished(g: Lowering, y: Traced, bias: Any, is_one: bool) -> Traced:
    if bias is not None:
        spread = ops.reshape(g.value(bias, y.dtype),
                             shape=[y.shape[1], *[1] * (len(y.shape) - 2)])
        y = Traced(ops.add(y.value, spread))
    return reshaped(y, y.shape[1:]) if is_one else y


@row("convolution")
def convolution(g: Lowering, x: Any, weight: Any, bias: Any, stride: Numbers, padding: Any,
                dilation: Numbers, transposed: bool, output_padding: Numbers,
                groups: int) -> Traced:
    weight = g.traced(weight)
    spatial = len(weight.shape) - 2
    x, is_one = _batched(g, x, spatial)
    kernel = weight.shape[2:]
    stride, dilation = _each(stride, spatial), _each(dilation, spatial)
    if isinstance(padding, str):
        spans = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel)]
        before, after = [n // 2 for n in spans], [n - n // 2 for n in spans]
    else:
        before = after = _each(padding, spatial)
    if not transposed:
        made = ops.conv(x.value, weight.value, stride=stride, padding=before + after,
                        dilation=dilation, groups=groups)
        return _finished(g, Traced(made), bias, is_one)
    size = [(n - 1) * s - low - high + d * (k - 1) + more + 1 for n, s, low, high, d, k, more in
            zip(x.shape[2:], stride, before, after, dilation, kernel,
                _each(output_padding, spatial))]
    made = ops.conv_transpose(x.value, weight.value, size=size, stride=stride,
                              padding=before + after, dilation=dilation, groups=groups)
    return _finished(g, Traced(made), bias, is_one)


@row("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv(g: Lowering, x: Any, weight: Any, bias: Any = None, stride: Numbers = 1,
         padding: Any = 0, dilation: Numbers = 1, groups: int = 1) -> Traced:
    return convolution(g, x, weight, bias, stride, padding, dilation, False, 0, groups)


@row("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(g: Lowering, x: Any, weight: Any, bias: Any = None, stride: Numbers = 1,
                   padding: Numbers = 0, output_padding: Numbers = 0, groups: int = 1,
                   dilation: Numbers = 1) -> Traced:
    return convolution(g, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


# --- Pools ---

# For each output along an axis, the elements that it reads; -1: none.
Places = Sequence[Sequence[int]]


def _pool_places(size: int, count: int, kernel: int, stride: int, pad: int,
                 dilation: int) -> Places:
    read = [range(first, first + kernel * dilation, dilation)
            for first in (i * stride - pad for i in range(count))]
    return [[at if 0 <= at < size else -1 for at in window] for window in read]


def _adaptive_places(size: int, count: int) -> Places:
    """Returns the windows from floor(i size / count) to ceil((i + 1) size / count)."""
    spans = [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    widest = max(len(span) for span in spans)
    return [[*span, *[-1] * (widest - len(span))] for span in spans]


def _windows(g: Lowering, sizes: Sequence[int], axes: Sequence[Places]) -> Any:
    """Returns the flat indices of the elements that each output (first axis) reads."""
    made = g.torch.zeros(1, 1, dtype=g.torch.int64)
    for size, places in zip(sizes, axes):
        outer, inner = made[:, None, :, None], g.torch.tensor(places)[None, :, None, :]
        is_none = (outer < 0) | (inner < 0)
        made = g.torch.where(is_none, -1, outer * size + inner).flatten(2).flatten(0, 1)
    return made


def _rows(x: Traced) -> Value:
    """Reshapes to (examples and channels, elements)."""
    return reshaped(x, [x.shape[0] * x.shape[1], math.prod(x.shape[2:])]).value


def _largest(g: Lowering, rows: Value, places: Value, lacks: Any = None) -> Value:
    """Returns the index of the first largest element of each window (rows, windows, elements)."""
    shape = list(places.shape)
    among = ops.take_along_axis(rows, ops.reshape(places, shape=[shape[0], -1]), axis=1)
    among = ops.reshape(among, shape=shape)
    if lacks is not None and bool(lacks.any()):
        among = ops.where(ops.broadcast(g.value(lacks), shape=shape),
                          g.fill(shape, -math.inf, among.dtype), among)
    best = ops.reshape(ops.arg_max(among), shape=[*shape[:2], 1])
    return ops.reshape(ops.take_along_axis(places, best, axis=2), shape=shape[:2])


def _largest_of(g: Lowering, x: Traced, axes: Sequence[Places]) -> Value:
    windows = _windows(g, x.shape[2:], axes)
    rows = _rows(x)
    places = ops.broadcast(g.value(windows.clamp(min=0)), shape=[rows.shape[0], *windows.shape])
    return _largest(g, rows, places, windows < 0)


def _indices(g: Lowering, x: Traced, axes: Sequence[Places], is_one: bool) -> Traced:
    """Returns the indices of the largest elements, computed on demand."""
    shape = [*x.shape[:2], *(len(places) for places in axes)][int(is_one):]
    return Traced(None, make=lambda: ops.reshape(_largest_of(g, x, axes), shape=shape),
                  shape=shape, dtype="i64")


def _max_pool(g: Lowering, spatial: int, x: Any, kernel: Numbers, stride: Any = (),
              padding: Numbers = 0, dilation: Numbers = 1,
              ceil_mode: bool = False) -> Tuple[Traced, Traced]:
    x, is_one = _batched(g, x, spatial)
    kernel, pads, dilation = (_each(each, spatial) for each in (kernel, padding, dilation))
    stride = _each(stride, spatial) if stride else kernel
    made = ops.max_pool(x.value, kernel=kernel, stride=stride, pad_before=pads, pad_after=pads,
                        dilation=dilation, ceil_mode=ceil_mode)
    axes = [_pool_places(*each) for each in
            zip(x.shape[2:], made.shape[2:], kernel, stride, pads, dilation)]
    return _finished(g, Traced(made), None, is_one), _indices(g, x, axes, is_one)


def _avg_pool(g: Lowering, spatial: int, x: Any, kernel: Numbers, stride: Any = (),
              padding: Numbers = 0, ceil_mode: bool = False, count_include_pad: bool = True,
              divisor_override: Optional[int] = None) -> Traced:
    x, is_one = _batched(g, x, spatial)
    kernel, pads = _each(kernel, spatial), _each(padding, spatial)
    stride = _each(stride, spatial) if stride else kernel
    made = ops.avg_pool(x.value, kernel=kernel, stride=stride, pad_before=pads, pad_after=pads,
                        ceil_mode=ceil_mode,
                        count_include_pad=count_include_pad or divisor_override is not None)
    if divisor_override is not None:
        # The divisor of each window, which includes padding.
        counts = g.torch.ones((), dtype=g.torch.float64)
        for size, count, k, s, pad in zip(x.shape[2:], made.shape[2:], kernel, stride, pads):
            first = g.torch.arange(count) * s - pad
            counts = counts[..., None] * ((first + k).clamp(max=size + pad) - first)
        made = ops.mul(made, g.value(counts / divisor_override, made.dtype))
    return _finished(g, Traced(made), None, is_one)


for _n in (1, 2, 3):
    row(f"max_pool{_n}d")(lambda g, *args, _n=_n, **kwargs: _max_pool(g, _n, *args, **kwargs)[0])
    row(f"max_pool{_n}d_with_indices")(
        lambda g, *args, _n=_n, **kwargs: _max_pool(g, _n, *args, **kwargs))
    row(f"avg_pool{_n}d")(lambda g, *args, _n=_n, **kwargs: _avg_pool(g, _n, *args, **kwargs))


def _adaptive_avg(g: Lowering, spatial: int, x: Any, sizes: Numbers) -> Traced:
    x, is_one = _batched(g, x, spatial)
    sizes = _each(sizes, spatial)
    had = x.shape[2:]
    if all(n == 1 for n in sizes):
        made = ops.reduce_mean(x.value, axes=list(range(2, 2 + spatial)), keep=True)
        return _finished(g, Traced(made), None, is_one)
    if all(n % size == 0 for n, size in zip(had, sizes)):
        kernel = [n // size for n, size in zip(had, sizes)]
        return _finished(g, _avg_pool(g, spatial, x, kernel), None, is_one)
    for axis, (n, size) in enumerate(zip(had, sizes), start=2):
        shares = g.torch.zeros(n, size, dtype=g.torch.float64)
        for i, places in enumerate(_adaptive_places(n, size)):
            read = [at for at in places if at >= 0]
            shares[read, i] = 1 / len(read)
        x = _along(g, x, axis, shares)
    return _finished(g, x, None, is_one)


def _along(g: Lowering, x: Traced, axis: int, shares: Any) -> Traced:
    """Multiplies by a matrix (elements, outputs) along an axis."""
    turned, back = g.last(x, axis)
    return product(g, turned, g.traced(shares, x.dtype)).permuted(back)


def _adaptive_max(g: Lowering, spatial: int, x: Any, sizes: Numbers) -> Tuple[Traced, Traced]:
    x, is_one = _batched(g, x, spatial)
    sizes = _each(sizes, spatial)
    had = x.shape[2:]
    axes = [_adaptive_places(n, size) for n, size in zip(had, sizes)]
    if all(n % size == 0 for n, size in zip(had, sizes)):
        made, _ = _max_pool(g, spatial, x, [n // size for n, size in zip(had, sizes)])
    else:
        made = _taken(x, _largest_of(g, x, axes), sizes)
    return _finished(g, made, None, is_one), _indices(g, x, axes, is_one)


def _taken(x: Traced, places: Value, sizes: Sequence[int]) -> Traced:
    """Returns the elements of each example and channel at indices (rows, outputs)."""
    made = ops.take_along_axis(_rows(x), places, axis=1)
    return Traced(ops.reshape(made, shape=[*x.shape[:2], *sizes]))


for _n in (1, 2, 3):
    row(f"adaptive_avg_pool{_n}d", *([f"_adaptive_avg_pool{_n}d"] if _n > 1 else []))(
        lambda g, x, sizes, _n=_n: _adaptive_avg(g, _n, x, sizes))
    row(f"adaptive_max_pool{_n}d")(lambda g, x, sizes, _n=_n: _adaptive_max(g, _n, x, sizes))


def _fractional(g: Lowering, spatial: int, x: Any, kernel: Numbers, sizes: Numbers,
                samples: Any) -> Tuple[Traced, Traced]:
    """Pools over random windows. Window i begins at floor((i + u) a) - floor(u a) and the last one
    ends at the end of the axis, for a number u in [0, 1) per example, channel and axis."""
    x, is_one = _batched(g, x, spatial)
    kernel, sizes = _each(kernel, spatial), _each(sizes, spatial)
    count = x.shape[0] * x.shape[1]
    drawn = ops.reshape(g.value(samples, "f32"), shape=[count, spatial])
    places: Optional[Value] = None
    for axis, (n, size, k) in enumerate(zip(x.shape[2:], sizes, kernel)):
        # torch orders the numbers of two axes from the last.
        column = spatial - 1 - axis if spatial == 2 else axis
        u = ops.slice(drawn, axis=1, start=column, end=column + 1)
        a = g.scalar((n - k) / max(size - 1, 1), "f32")
        steps = ops.broadcast(g.value(g.torch.arange(size), "f32"), shape=[count, size])
        u = ops.broadcast(u, shape=[count, size])
        first = ops.sub(ops.floor(ops.mul(ops.add(steps, u), a)), ops.floor(ops.mul(u, a)))
        is_last = ops.broadcast(g.value(g.torch.arange(size) == size - 1), shape=[count, size])
        first = ops.cast(ops.where(is_last, g.fill([count, size], n - k, "f32"), first),
                         dtype="i64")
        shape = [count, size, k]
        along = ops.add(ops.broadcast(ops.reshape(first, shape=[count, size, 1]), shape=shape),
                        ops.broadcast(g.value(g.torch.arange(k)), shape=shape))
        places = along if places is None else _crossed(g, places, along, n)
    assert places is not None
    found = _largest(g, _rows(x), places)
    shape = [*x.shape[:2], *sizes]
    return (_finished(g, _taken(x, found, sizes), None, is_one),
            Traced(ops.reshape(found, shape=shape[int(is_one):])))


def _crossed(g: Lowering, outer: Value, inner: Value, size: int) -> Value:
    """Extends flat indices (rows, windows, elements) by an axis of this size."""
    (count, a, k), (_, b, m) = outer.shape, inner.shape
    whole = [count, a, b, k, m]
    scaled = ops.reshape(ops.mul(outer, g.scalar(size, "i64")), shape=[count, a, 1, k, 1])
    made = ops.add(ops.broadcast(scaled, shape=whole),
                   ops.broadcast(ops.reshape(inner, shape=[count, 1, b, 1, m]), shape=whole))
    return ops.reshape(made, shape=[count, a * b, k * m])


row("fractional_max_pool2d")(lambda g, *args: _fractional(g, 2, *args))
row("fractional_max_pool3d")(lambda g, *args: _fractional(g, 3, *args))


# --- Resizing ---


def _sizes(x: Traced, sizes: Any, factors: Any) -> List[int]:
    if sizes is not None:
        return [int(n) for n in sizes]
    return [int(math.floor(n * f)) for n, f in zip(x.shape[2:], factors)]


def _is_whole(x: Traced, sizes: Sequence[int], factors: Any) -> bool:
    """Returns whether scale factors equal the ratios of sizes; otherwise torch uses the factors."""
    return all(factor is None or abs(n * factor - size) <= 1e-9
               for n, size, factor in zip(x.shape[2:], sizes, factors or ()))


def _factors(x: Traced, factors: Any) -> List[Optional[float]]:
    return list(factors) if factors else [None] * (len(x.shape) - 2)


def _by_axes(g: Lowering, x: Traced, sizes: Any, factors: Any,
             resize: Callable[..., Any]) -> Traced:
    """Resizes with a matrix along each axis. torch computes the matrix as `resize` of a tensor
    (1, n, n, 1) along its third axis."""
    made = _sizes(x, sizes, factors)
    for axis, (size, factor) in enumerate(zip(made, _factors(x, factors)), start=2):
        n = x.shape[axis]
        one = g.torch.eye(n, dtype=g.torch.float64)[None, :, :, None]
        x = _along(g, x, axis, resize(one, [size, 1], factor)[0, :, :, 0])
    return x


@row("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def nearest(g: Lowering, x: Traced, sizes: Any, factors: Any) -> Traced:
    made = _sizes(x, sizes, factors)
    if not _is_whole(x, made, factors):
        return _picked(g, x, made, factors, g.torch.ops.aten.upsample_nearest1d.default)
    return Traced(ops.resize(x.value, sizes=made, mode="nearest"))


@row("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec",
     "_upsample_nearest_exact3d.vec")
def nearest_exact(g: Lowering, x: Traced, sizes: Any, factors: Any) -> Traced:
    return _picked(g, x, _sizes(x, sizes, factors), factors,
                   g.torch.ops.aten._upsample_nearest_exact1d.default)


def _picked(g: Lowering, x: Traced, sizes: Sequence[int], factors: Any,
            resize: Callable[..., Any]) -> Traced:
    """Gathers along each axis the elements that torch's `resize` selects."""
    for axis, (size, factor) in enumerate(zip(sizes, _factors(x, factors)), start=2):
        places = g.torch.arange(float(x.shape[axis]))[None, None]
        x = index_select(g, x, axis, resize(places, [size], factor)[0, 0].long())
    return x


@row("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def linear(g: Lowering, x: Traced, sizes: Any, align_corners: bool, factors: Any) -> Traced:
    made = _sizes(x, sizes, factors)
    if not align_corners and not _is_whole(x, made, factors):
        resize = g.torch.ops.aten.upsample_bilinear2d.default
        return _by_axes(g, x, sizes, factors,
                        lambda one, size, factor: resize(one, size, False, factor, None))
    return Traced(ops.resize(x.value, sizes=made, mode="linear", align_corners=align_corners))


@row("upsample_bicubic2d.vec")
def cubic(g: Lowering, x: Traced, sizes: Any, align_corners: bool, factors: Any) -> Traced:
    resize = g.torch.ops.aten.upsample_bicubic2d.default
    return _by_axes(g, x, sizes, factors,
                    lambda one, size, factor: resize(one, size, align_corners, factor, None))


@row("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def nearest_to(g: Lowering, x: Traced, sizes: Any, *factors: Any) -> Traced:
    return nearest(g, x, sizes, factors)


@row("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear_to(g: Lowering, x: Traced, sizes: Any, align_corners: bool, *factors: Any) -> Traced:
    return linear(g, x, sizes, align_corners, factors)
