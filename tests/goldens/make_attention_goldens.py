#!/usr/bin/env python3
"""Writes attention.csv, which tests/cpu/attention_goldens_test.cc compares with.

PyTorch's scaled_dot_product_attention in double precision, and its gradients for a
loss that weighs each element of the result. Which keys a query reads is given as a
mask, written out query by query; a bias is added to that, and so is, for "closed", -inf
for the last keys of an entry. Operands and weights follow the formula of
make_goldens.py, which the test computes too.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_attention_goldens.py

Rows are as in convolutions.csv.
"""

import pathlib

import torch
import torch.nn.functional as F

from make_conv_goldens import rows, tensor

# name: q (B, T, H, D), k and v (B, S, G, D), options; the same as in the test.
CASES = {
    "all keys": ((2, 9, 4, 8), (2, 9, 4, 8), {}),
    "more keys and shared heads": ((2, 5, 6, 8), (2, 13, 2, 8), {}),
    "more queries": ((1, 13, 2, 8), (1, 5, 1, 8), {}),
    "causal with shared heads": ((2, 9, 4, 8), (2, 9, 1, 8), {"causal": True}),
    "causal with more keys": (
        (1, 70, 2, 4),
        (1, 90, 2, 4),
        {"causal": True, "scale": 0.7},
    ),
    "causal window": ((1, 70, 2, 4), (1, 90, 1, 4), {"causal": True, "window": 7}),
    "window": ((1, 20, 1, 4), (1, 24, 1, 4), {"window": 5}),
    "lengths": ((3, 5, 2, 8), (3, 11, 2, 8), {"lengths": (4, 11, 1)}),
    "bias": ((2, 5, 4, 8), (2, 7, 2, 8), {"bias": (2, 4, 5, 7)}),
    "relative positions": (
        (2, 9, 4, 8),
        (2, 9, 4, 8),
        {"bias": (1, 4, 9, 9), "causal": True},
    ),
    "bias of heads": (
        (2, 70, 4, 4),
        (2, 75, 1, 4),
        {"bias": (1, 4, 1, 75), "causal": True, "window": 9},
    ),
    "bias for all": ((2, 6, 2, 4), (2, 5, 2, 4), {"bias": (1, 1, 1, 5)}),
    "padding": (
        (3, 5, 2, 8),
        (3, 11, 2, 8),
        {"bias": (3, 1, 1, 11), "closed": (7, 0, 10)},
    ),
}


def mask(q_shape, k_shape, causal=False, window=None, lengths=None):
    (batch, queries, _, _), keys = q_shape, k_shape[1]
    read = torch.zeros(batch, 1, queries, keys, dtype=torch.bool)
    for b in range(batch):
        for t in range(queries):
            place = keys - queries + t
            for s in range(lengths[b] if lengths else keys):
                ahead = causal and s > place
                away = window is not None and abs(s - place) >= window
                read[b, 0, t, s] = not ahead and not away
    return read


def closed_keys(shape, counts):
    closed = torch.zeros(shape, dtype=torch.float64)
    for b, count in enumerate(counts):
        closed[b, ..., shape[3] - count :] = -torch.inf
    return closed


def main():
    lines = ["case,what,index,value"]
    for name, (q_shape, k_shape, options) in CASES.items():
        q = tensor(name + " q", q_shape).requires_grad_()
        k = tensor(name + " k", k_shape).requires_grad_()
        v = tensor(name + " v", k_shape).requires_grad_()
        scale = options.pop("scale", None)
        bias_shape = options.pop("bias", None)
        closed = options.pop("closed", None)
        read = mask(q_shape, k_shape, **options)
        if bias_shape:
            bias = tensor(name + " bias", bias_shape).requires_grad_()
            added = bias + closed_keys(bias_shape, closed) if closed else bias
            read = added.masked_fill(~read, -torch.inf)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=read,
            scale=scale,
            enable_gqa=True,
        ).transpose(1, 2)
        (y * tensor(name + " weights", y.shape)).sum().backward()
        named = [("y", y), ("dq", q.grad), ("dk", k.grad), ("dv", v.grad)]
        if bias_shape:
            named.append(("dbias", bias.grad))
        for what, values in named:
            lines += rows(name, what, values)
    path = pathlib.Path(__file__).resolve().parent / "attention.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
