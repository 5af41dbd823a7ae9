"""Sampling of images at computed points."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from stowage import ops
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value
from stowage.errors import Unsupported

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER = 0, 1


@row("grid_sampler_2d", "grid_sampler")
def grid_sampler_2d(g: Lowering, x: Any, grid: Any, mode: int, padding: int,
                    align_corners: bool) -> Traced:
    """Samples x (N, C, H, W) at the points (N, h, w, 2) of a grid, in [-1, 1]."""
    x, points = g.traced(x), g.traced(grid)
    if len(x.shape) != 4 or mode not in (BILINEAR, NEAREST) or padding not in (ZEROS, BORDER):
        raise Unsupported("[from_torch] grid_sample of volumes, bicubic or by reflection is not "
                          "supported; expected images, bilinear or nearest, and padding by "
                          "zeros or the border")
    (images, channels, height, width), (_, rows, columns, _) = x.shape, points.shape
    pixels = ops.reshape(x.permuted([0, 2, 3, 1]).value,
                         shape=[images * height * width, channels])
    whole = points.value

    def place(axis: int, size: int) -> Value:
        at = ops.reshape(ops.slice(whole, axis=3, start=axis, end=axis + 1),
                         shape=[images, rows, columns])
        one = g.scalar(1, at.dtype)
        if align_corners:
            at = ops.mul(ops.add(at, one), g.scalar((size - 1) / 2, at.dtype))
        else:
            at = ops.div(ops.sub(ops.mul(ops.add(at, one), g.scalar(size, at.dtype)), one),
                         g.scalar(2, at.dtype))
        if padding == BORDER:
            at = ops.clamp(at, min=0, max=size - 1)
        return at

    across, down = place(0, width), place(1, height)
    first = g.value(g.torch.arange(images).reshape(-1, 1, 1).expand(images, rows, columns), "i64")

    def taken(column: Value, line: Value) -> Tuple[Value, Value]:
        """Returns the pixels at these indices, and whether they exist."""
        inside = ops.greater_equal(column, g.scalar(0, column.dtype))
        for lower, upper in ((column, g.scalar(width - 1, column.dtype)),
                             (g.scalar(0, line.dtype), line),
                             (line, g.scalar(height - 1, line.dtype))):
            inside = ops.logical_and(inside, ops.less_equal(lower, upper))
        column = ops.cast(ops.clamp(column, min=0, max=width - 1), dtype="i64")
        line = ops.cast(ops.clamp(line, min=0, max=height - 1), dtype="i64")
        at = ops.add(ops.mul(ops.add(ops.mul(first, g.scalar(height, "i64")), line),
                             g.scalar(width, "i64")), column)
        return ops.gather(pixels, at), inside

    corners: List[Tuple[Value, Value, Optional[Value]]]
    if mode == NEAREST:
        corners = [(ops.round_(across), ops.round_(down), None)]
    else:
        left, top = ops.stop_gradient(ops.floor(across)), ops.stop_gradient(ops.floor(down))
        right, bottom = (ops.add(each, g.scalar(1, each.dtype)) for each in (left, top))
        corners = [(column, line, ops.mul(ops.absolute(ops.sub(across, far)),
                                          ops.absolute(ops.sub(down, low))))
                   for column, far in ((left, right), (right, left))
                   for line, low in ((top, bottom), (bottom, top))]
    total = None
    for column, line, weight in corners:
        value, inside = taken(column, line)
        share = ops.cast(inside, dtype=x.dtype)
        if weight is not None:
            share = ops.mul(share, g.cast(weight, x.dtype))
        share = ops.reshape(share, shape=[images, rows, columns, 1])
        part = ops.mul(value, share)
        total = part if total is None else ops.add(total, part)
    assert total is not None
    return Traced(total, [0, 3, 1, 2])
