"""Convolutions, pools, resizing."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple, Union

from stowage import ops
from stowage._aten.products import product
from stowage._aten.shapes import reshaped, unsqueeze
from stowage._aten.table import Lowering, Traced, row
from stowage.errors import Unsupported

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


def _max_pool(g: Lowering, spatial: int, x: Any, kernel: Numbers, stride: Any = (),
              padding: Numbers = 0, dilation: Numbers = 1, ceil_mode: bool = False) -> Traced:
    x, is_one = _batched(g, x, spatial)
    kernel, pads = _each(kernel, spatial), _each(padding, spatial)
    made = ops.max_pool(x.value, kernel=kernel, stride=_each(stride, spatial) if stride else kernel,
                        pad_before=pads, pad_after=pads, dilation=_each(dilation, spatial),
                        ceil_mode=ceil_mode)
    return _finished(g, Traced(made), None, is_one)


def _avg_pool(g: Lowering, spatial: int, x: Any, kernel: Numbers, stride: Any = (),
              padding: Numbers = 0, ceil_mode: bool = False, count_include_pad: bool = True,
              divisor_override: Optional[int] = None) -> Traced:
    x, is_one = _batched(g, x, spatial)
    kernel, pads = _each(kernel, spatial), _each(padding, spatial)
    made = ops.avg_pool(x.value, kernel=kernel, stride=_each(stride, spatial) if stride else kernel,
                        pad_before=pads, pad_after=pads, ceil_mode=ceil_mode,
                        count_include_pad=count_include_pad or divisor_override is not None)
    if divisor_override is not None:
        if ceil_mode:
            raise Unsupported("[from_torch] avg_pool with divisor_override and ceil_mode is not "
                              "supported")
        made = ops.mul(made, g.scalar(math.prod(kernel) / divisor_override, made.dtype))
    return _finished(g, Traced(made), None, is_one)


for _n in (1, 2, 3):
    row(f"max_pool{_n}d")(lambda g, *args, _n=_n, **kwargs: _max_pool(g, _n, *args, **kwargs))
    row(f"max_pool{_n}d_with_indices")(
        lambda g, *args, _n=_n, **kwargs: (_max_pool(g, _n, *args, **kwargs), None))
    row(f"avg_pool{_n}d")(lambda g, *args, _n=_n, **kwargs: _avg_pool(g, _n, *args, **kwargs))


def _adaptive(g: Lowering, spatial: int, x: Any, sizes: Numbers, is_max: bool) -> Traced:
    x, is_one = _batched(g, x, spatial)
    sizes = _each(sizes, spatial)
    had = x.shape[2:]
    if all(n == 1 for n in sizes):
        if is_max:  # of several that are largest the first, as a pool has it
            return _finished(g, _max_pool(g, spatial, x, list(had)), None, is_one)
        made = ops.reduce_mean(x.value, axes=list(range(2, 2 + spatial)), keep=True)
        return _finished(g, Traced(made), None, is_one)
    if all(n % size == 0 for n, size in zip(had, sizes)):
        kernel = [n // size for n, size in zip(had, sizes)]
        return _finished(g, (_max_pool if is_max else _avg_pool)(g, spatial, x, kernel), None,
                         is_one)
    if is_max:
        raise Unsupported(f"[from_torch] adaptive_max_pool from {had} to {sizes} is not supported; "
                          "expected sizes that divide those")
    for axis, (n, size) in enumerate(zip(had, sizes), start=2):
        # Each output averages from floor(i n / size) to ceil((i + 1) n / size).
        shares = g.torch.zeros(n, size, dtype=g.torch.float64)
        for i in range(size):
            first, last = i * n // size, -(-(i + 1) * n // size)
            shares[first:last, i] = 1 / (last - first)
        turned, back = g.last(x, axis)
        x = product(g, turned, g.traced(shares, x.dtype)).permuted(back)
    return _finished(g, x, None, is_one)


for _n in (1, 2, 3):
    row(f"adaptive_avg_pool{_n}d", *([f"_adaptive_avg_pool{_n}d"] if _n > 1 else []))(
        lambda g, x, sizes, _n=_n: _adaptive(g, _n, x, sizes, False))
    row(f"adaptive_max_pool{_n}d")(
        lambda g, x, sizes, _n=_n: (_adaptive(g, _n, x, sizes, True), None))


# --- Resizing ---


def _sizes(x: Traced, sizes: Any, factors: Any) -> List[int]:
    if sizes is not None:
        return [int(n) for n in sizes]
    return [int(math.floor(n * f)) for n, f in zip(x.shape[2:], factors)]


def _check_factors(name: str, x: Traced, sizes: Sequence[int], factors: Any) -> None:
    """Of factors torch computes with the numbers given, which sizes may not tell."""
    for n, size, factor in zip(x.shape[2:], sizes, factors or ()):
        if factor is not None and abs(n * factor - size) > 1e-9:
            raise Unsupported(f"[from_torch] {name} of {n} elements by {factor}, which makes no "
                              "whole number of elements, is not supported")


@row("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def nearest(g: Lowering, x: Traced, sizes: Any, factors: Any) -> Traced:
    made = _sizes(x, sizes, factors)
    _check_factors("upsample_nearest", x, made, factors)
    return Traced(ops.resize(x.value, sizes=made, mode="nearest"))


@row("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def linear(g: Lowering, x: Traced, sizes: Any, align_corners: bool, factors: Any) -> Traced:
    made = _sizes(x, sizes, factors)
    _check_factors("upsample_linear", x, made, factors)
    return Traced(ops.resize(x.value, sizes=made, mode="linear", align_corners=align_corners))


@row("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def nearest_to(g: Lowering, x: Traced, sizes: Any, *factors: Any) -> Traced:
    return nearest(g, x, sizes, factors)


@row("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear_to(g: Lowering, x: Traced, sizes: Any, align_corners: bool, *factors: Any) -> Traced:
    return linear(g, x, sizes, align_corners, factors)
