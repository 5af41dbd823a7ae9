#!/usr/bin/env python3
"""Writes lstm.csv, for tests/cpu/lstm_goldens_test.cc.

PyTorch's nn.LSTM in double precision, one direction of it, and its gradients for a
loss that weighs each element of h. What the inputs add to the gates is given as it is:
the input's weights are the identity, and there are no biases. For the other direction
positions are turned round before and after. Rows, operands and weights are those of
make_conv_goldens.py.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_lstm_goldens.py
"""

import pathlib

import torch

from make_conv_goldens import rows, tensor

# name: batch, time, hidden, reverse; the same as in the test.
CASES = {
    "forward": (3, 5, 4, False),
    "backward": (2, 4, 7, True),
    "one position": (2, 1, 3, False),
    "wide": (5, 3, 37, False),
}


def main():
    lines = ["case,what,index,value"]
    for name, (batch, time, hidden, reverse) in CASES.items():
        shapes = {"gates": (batch, time, 4 * hidden), "h0": (batch, hidden),
                  "c0": (batch, hidden), "w": (4 * hidden, hidden)}
        given = {
            what: tensor(f"{name} {what}", shape).requires_grad_()
            for what, shape in shapes.items()
        }
        lstm = torch.nn.LSTM(4 * hidden, hidden, bias=False, batch_first=True,
                             dtype=torch.float64)
        weights = {"weight_ih_l0": torch.eye(4 * hidden, dtype=torch.float64),
                   "weight_hh_l0": given["w"]}
        x = given["gates"].flip(1) if reverse else given["gates"]
        states = (given["h0"][None], given["c0"][None])
        y, _ = torch.func.functional_call(lstm, weights, (x, states))
        y = y.flip(1) if reverse else y
        (y * tensor(name + " weights", y.shape)).sum().backward()
        lines += rows(name, "y", y)
        for what, operand in given.items():
            lines += rows(name, "d" + what, operand.grad)
    path = pathlib.Path(__file__).resolve().parent / "lstm.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
