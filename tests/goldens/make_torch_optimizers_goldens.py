#!/usr/bin/env python3
"""Writes torch_optimizers.csv, for tests/cpu/torch_optimizers_test.cc.

What PyTorch's optimizers make of two params in double precision, with settings that are not
their defaults, as the params are after 1, 7 and 30 steps. The gradient of a param p is
s (p - target). The learning rate changes at every step, in cases of two rates another way
for each param, and the momentum, or beta1, in cases that say so.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_torch_optimizers_goldens.py
"""

import math
import pathlib

import torch
from torch import optim

from make_conv_goldens import rows

PARAMS = {"filters": (2, 3, 2, 2), "vector": (5,)}
STEPS = 30

CASES = {
    "sgd": lambda p: optim.SGD(p, weight_decay=0.1),
    "dampened": lambda p: optim.SGD(p, momentum=0.8, dampening=0.25, weight_decay=0.1),
    "ascending": lambda p: optim.SGD(p, momentum=0.5, weight_decay=0.5, maximize=True),
    "cycled momentum": lambda p: optim.SGD(p, momentum=0.9, weight_decay=0.1),
    "cycled nesterov": lambda p: optim.SGD(p, momentum=0.9, nesterov=True),
    "centered": lambda p: optim.RMSprop(p, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.1),
    "cycled rmsprop": lambda p: optim.RMSprop(p, momentum=0.5),
    "adagrad": lambda p: optim.Adagrad(
        p, lr_decay=0.1, initial_accumulator_value=0.25, eps=1e-3, weight_decay=0.1),
    "adam": lambda p: optim.Adam(p, amsgrad=True, betas=(0.8, 0.9), weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, amsgrad=True, betas=(0.8, 0.9), weight_decay=0.1),
    "cycled adamw": lambda p: optim.AdamW(p, betas=(0.8, 0.9), weight_decay=0.1),
    "nadam": lambda p: optim.NAdam(p, weight_decay=0.1, momentum_decay=0.01),
    "cycled nadam": lambda p: optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True),
    "radam": lambda p: optim.RAdam(p, betas=(0.9, 0.95), weight_decay=0.1),
    "short radam": lambda p: optim.RAdam(
        p, betas=(0.9, 0.5), weight_decay=0.1, decoupled_weight_decay=True),
    "adamax": lambda p: optim.Adamax(p, betas=(0.9, 0.9), weight_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p, rho=0.8, eps=1e-3, weight_decay=0.1),
    "asgd": lambda p: optim.ASGD(p, lambd=0.1, alpha=0.6, t0=4, weight_decay=0.1),
    "rprop": lambda p: optim.Rprop(p, etas=(0.4, 1.3), step_sizes=(0.01, 0.1)),
    "adafactor": lambda p: optim.Adafactor(p, eps=(1e-3, 1e-2), weight_decay=0.1),
}


def numbers(shape, f):
    values = [f(i) for i in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def rate(step, k):
    """Of param k at a step, from 1 on."""
    return (1 + k) * 2.0**-6 * (1 + math.cos(step * (1 + k)) / 2)


def momentum(step):
    return 0.75 + 0.125 * math.cos(step) if step % 5 else 0.0


def main():
    torch.set_default_dtype(torch.float64)
    lines = ["case,what,index,value"]
    for case, make in CASES.items():
        params, targets, factors = [], [], []
        for k, shape in enumerate(PARAMS.values()):
            params.append(numbers(shape, lambda i, k=k: math.sin(i + 1 + 10 * k)))
            targets.append(numbers(shape, lambda i, k=k: math.cos(2 * i + k)))
            factors.append(numbers(shape, lambda i, k=k: 0.5 + 0.25 * math.sin(3 * i + k)))
        optimizer = make([{"params": [p]} for p in params])
        for step in range(1, STEPS + 1):
            for k, group in enumerate(optimizer.param_groups):
                group["lr"] = rate(step, k)
                if case.startswith("cycled"):
                    if "betas" in group:
                        group["betas"] = (momentum(step), group["betas"][1])
                    else:
                        group["momentum"] = momentum(step)
            for p, target, s in zip(params, targets, factors):
                p.grad = s * (p - target)
            optimizer.step()
            if step in (1, 7, 30):
                for name, p in zip(PARAMS, params):
                    lines += rows(case, f"{name}@{step}", p)
    path = pathlib.Path(__file__).resolve().parent / "torch_optimizers.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
