#!/usr/bin/env python3
"""Writes local_response_norm.csv, for tests/cpu/local_response_norm_goldens_test.cc.

PyTorch's local_response_norm in double precision, and its gradient for a loss that
weighs each element of the result. Of an even number of channels PyTorch has one more
before than after, and ONNX one more after: the channels are turned round before and
after. Rows, operands and weights are those of make_conv_goldens.py.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_local_response_norm_goldens.py
"""

import pathlib

import torch.nn.functional as F

from make_conv_goldens import rows, tensor

# name: x, size, alpha, beta, bias; the same as in the test.
CASES = {
    "alexnet": ((2, 11, 4, 3), 5, 1e-4, 0.75, 1.0),
    "strong": ((2, 7, 5, 6), 3, 2.0, 1.5, 2.0),
    "even": ((3, 8, 9), 4, 1.0, 0.5, 0.5),
    "wider than the channels": ((2, 3, 2, 3, 4), 12, 5.0, 0.75, 1.0),
}


def main():
    lines = ["case,what,index,value"]
    for name, (shape, size, alpha, beta, bias) in CASES.items():
        x = tensor(name + " x", shape).requires_grad_()
        y = F.local_response_norm(x.flip(1), size, alpha, beta, bias).flip(1)
        (y * tensor(name + " weights", y.shape)).sum().backward()
        for what, values in (("y", y), ("dx", x.grad)):
            lines += rows(name, what, values)
    path = pathlib.Path(__file__).resolve().parent / "local_response_norm.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
