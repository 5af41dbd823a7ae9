#!/usr/bin/env python3
"""Writes lean_optimizers.csv, for tests/cpu/lean_optimizers_test.cc.

What 100 steps of Lion, Adafactor and Muon make of five params in double precision, as
they are after 1, 10 and 100. Adafactor is PyTorch's, with params of more than two axes
given to it as matrices. Lion is written down from its paper. Muon is, too, with the
Newton-Schulz steps as what they do to singular values; the embedding and the vector are
PyTorch's AdamW's. The gradient of a param p is s (p - target), and twice that for the
rows of the embedding that are looked up twice.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_lean_optimizers_goldens.py
"""

import math
import pathlib

import torch

from make_conv_goldens import rows

PARAMS = {
    "table": (5, 4),
    "wide": (3, 5),
    "tall": (6, 3),
    "filters": (4, 2, 3, 1),
    "vector": (5,),
}
LOOKED_UP = [0, 3, 1, 3, 2, 4, 0]
STEPS = 100


def numbers(shape, f):
    values = [f(i) for i in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def problem():
    """name: (param, gradient's factor, target)."""
    of = {}
    for k, (name, shape) in enumerate(PARAMS.items()):
        p = numbers(shape, lambda i, k=k: math.sin(i + 1 + 10 * k))
        target = numbers(shape, lambda i, k=k: math.cos(2 * i + k))
        s = numbers(shape, lambda i, k=k: 0.5 + 0.25 * math.sin(3 * i + k))
        if name == "table":
            count = torch.bincount(torch.tensor(LOOKED_UP)).double()
            s = s * count[:, None]
        of[name] = (p, s, target)
    return of


def rate(step):
    return 2.0**-5 if step <= 50 else 2.0**-6


class Lion:
    decay = 0.25

    def __init__(self, p, name):
        self.m = torch.zeros_like(p)

    def update(self, p, g, lr, step):
        change = torch.sign(0.9 * self.m + 0.1 * g)
        self.m = 0.99 * self.m + 0.01 * g
        return p - lr * (change + self.decay * p)


class Adafactor:
    decay = 0.25

    def __init__(self, p, name):
        self.p = p.reshape(p.shape[0], -1).clone() if p.dim() > 1 else p.clone()
        self.optimizer = torch.optim.Adafactor([self.p], weight_decay=self.decay)

    def update(self, p, g, lr, step):
        self.p.grad = g.reshape(self.p.shape)
        self.optimizer.param_groups[0]["lr"] = lr
        self.optimizer.step()
        return self.p.reshape(p.shape).clone()


class Muon:
    decay = 0.25

    def __init__(self, p, name):
        self.by_adamw = name in ("table", "vector")
        self.m = torch.zeros_like(p)
        if self.by_adamw:
            self.p = p.clone()
            self.optimizer = torch.optim.AdamW(
                [self.p], betas=(0.9, 0.95), eps=1e-8, weight_decay=self.decay
            )

    def update(self, p, g, lr, step):
        if self.by_adamw:
            self.p.grad = g
            self.optimizer.param_groups[0]["lr"] = lr
            self.optimizer.step()
            return self.p.clone()
        self.m = 0.95 * self.m + 0.05 * g
        mixed = (0.05 * g + 0.95 * self.m).reshape(p.shape[0], -1)
        u, sigma, v = torch.linalg.svd(mixed, full_matrices=False)
        sigma = sigma / max(torch.linalg.vector_norm(sigma).item(), 1e-7)
        for _ in range(5):
            sigma = 3.4445 * sigma - 4.7750 * sigma**3 + 2.0315 * sigma**5
        change = (u @ torch.diag(sigma) @ v).reshape(p.shape)
        scale = 0.2 * math.sqrt(max(mixed.shape))
        return p - lr * self.decay * p - lr * scale * change


def main():
    lines = ["case,what,index,value"]
    for case, kind in (("lion", Lion), ("adafactor", Adafactor), ("muon", Muon)):
        for name, (p, s, target) in problem().items():
            rule = kind(p, name)
            for step in range(1, STEPS + 1):
                p = rule.update(p, s * (p - target), rate(step), step)
                if step in (1, 10, 100):
                    lines += rows(case, f"{name}@{step}", p)
    path = pathlib.Path(__file__).resolve().parent / "lean_optimizers.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
