#!/usr/bin/env python3
"""Writes convolutions.csv, which tests/cpu/conv_goldens_test.cc compares with.

Convolutions and transposed ones of PyTorch in double precision, and their gradients
for a loss that weighs each element of the result. Operands and weights follow the
formula of make_goldens.py, which the test computes too.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_conv_goldens.py

Rows are case,what,index,value, where what is y, dx or dw and index is one of up to
eight elements in row-major order, or `norm2`, the Euclidean norm of all.
"""

import math
import pathlib

import torch
import torch.nn.functional as F

from make_goldens import uniforms

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}

# name: x, w, options; the same as in the test.
CASES = {
    "conv plain": ((2, 3, 8, 7), (4, 3, 3, 2), {}),
    "conv strides and dilation": (
        (2, 4, 9, 10),
        (6, 2, 3, 3),
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2},
    ),
    "conv depthwise": (
        (2, 5, 7, 7),
        (5, 1, 3, 3),
        {"stride": 2, "padding": 1, "groups": 5},
    ),
    "conv one dimension": ((3, 2, 11), (4, 2, 4), {"stride": 3, "padding": 2}),
    "conv three dimensions": (
        (1, 2, 4, 5, 6),
        (3, 2, 2, 3, 2),
        {"stride": (1, 2, 1), "padding": (1, 0, 1)},
    ),
    "transposed twofold": ((2, 6, 4, 5), (6, 3, 2, 2), {"stride": 2}),
    "transposed with output padding": (
        (2, 4, 5, 4),
        (4, 3, 3, 3),
        {"stride": (2, 3), "padding": 1, "output_padding": (1, 2), "groups": 2},
    ),
    "transposed with dilation": (
        (1, 3, 6),
        (3, 2, 3),
        {"stride": 2, "padding": 1, "dilation": 2},
    ),
}


def tensor(name, shape):
    return torch.from_numpy(uniforms(name, math.prod(shape))).reshape(shape)


def rows(name, what, values):
    values = values.detach().flatten()
    yield f"{name},{what},norm2,{values.norm().item():.17g}"
    count = len(values)
    for i in sorted({k * (count - 1) // 7 for k in range(8)}):
        yield f"{name},{what},{i},{values[i].item():.17g}"


def main():
    lines = ["case,what,index,value"]
    for name, (x_shape, w_shape, options) in CASES.items():
        x = tensor(name + " x", x_shape).requires_grad_()
        w = tensor(name + " w", w_shape).requires_grad_()
        table = TRANSPOSED if name.startswith("transposed") else CONV
        y = table[len(x_shape) - 2](x, w, **options)
        (y * tensor(name + " weights", y.shape)).sum().backward()
        for what, values in (("y", y), ("dx", x.grad), ("dw", w.grad)):
            lines += rows(name, what, values)
    path = pathlib.Path(__file__).resolve().parent / "convolutions.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
