#!/usr/bin/env python3
"""Prints the errors of the Python package as a Markdown table, one row each.

    pip install dist/stowage-*.whl
    python bench/python_refusals.py

tests/python holds these, and that nothing has changed where something was refused.
"""

import os

import numpy as np

import stowage
from stowage import ops


class OnGpu:
    """A tensor in another device's memory, as DLPack tells of one."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self):
        raise AssertionError("looked at, though it lies elsewhere")


def net(g, batch):
    x = g.input("x", "f32", (batch, 5))
    w = g.param("w", "f32", (5, 3), init="normal")
    loss, _ = ops.cross_entropy(ops.matmul(x, w), g.input("y", "i32", (batch,)))
    g.output("loss", loss)


def in_a_child(trainer, x, y):
    """What a step raises in a forked child."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            trainer.step(x, y)
        except stowage.StowageError as error:
            os.write(write, f"{type(error).__name__}|{error}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        kind, words = said.read().split("|", 1)
    os.wait()
    raise getattr(stowage, kind)(words)


def main():
    trainer = stowage.Trainer(net, batch=8, optimizer="sgd", lr=0.1, device="cpu", threads=1)
    closed = stowage.Trainer(net, batch=8, optimizer="sgd", lr=0.1, device="cpu", threads=1)
    closed.close()
    x, y = np.ones((8, 5), np.float32), np.zeros(8, np.int32)
    fixed = x.copy()
    fixed.flags.writeable = False
    viewed = trainer.view("w")

    def plan(budget):
        return stowage.plan(net, batch=8, budget=budget, device="cpu", threads=1)

    for what, call in [
        ("float64", lambda: trainer.step(x.astype(np.float64), y)),
        ("complex64", lambda: trainer.step(x.astype(np.complex64), y)),
        ("another shape", lambda: trainer.step(x[:7], y)),
        ("every second column", lambda: trainer.step(np.repeat(x, 2, 1)[:, ::2], y)),
        ("Fortran order", lambda: trainer.step(np.asfortranarray(x), y)),
        ("read-only", lambda: trainer.step(fixed, y)),
        ("a GPU's tensor", lambda: trainer.step(OnGpu(), y)),
        ("a list", lambda: trainer.step(x.tolist(), y)),
        ("an array too few", lambda: trainer.step(x)),
        ("a label out of range", lambda: trainer.step(x, y + 3)),
        ("`budget=nan`", lambda: plan(float("nan"))),
        ("`budget=-1`", lambda: plan(-1)),
        ("`budget=True`", lambda: plan(True)),
        ('`budget="1kB"`', lambda: plan("1kB")),
        ("a view while it is closed", trainer.close),
        ("closed", lambda: closed.step(x, y)),
        ("forked", lambda: in_a_child(trainer, x, y)),
    ]:
        try:
            call()
            kind, words = "", "taken"
        except Exception as error:  # pylint: disable=broad-except
            kind, words = f"`{type(error).__name__}`", str(error)
        print(f"| {what} | {kind} | {words} |")
    del viewed


if __name__ == "__main__":
    main()
