#!/usr/bin/env python3
"""The overhead of a step from Python over one from C++, and whether steps allocate memory.

    bazel build //bench:small_step
    pip install dist/stowage-*.whl
    python bench/python_steps.py

Microseconds are medians of 20,000 steps of the mlp, batch 32, one thread, in turn with the
same from C++, three times.
"""

import os
import pathlib
import statistics
import subprocess
import time

import numpy as np

import stowage

ROOT = pathlib.Path(__file__).resolve().parent.parent


def resident():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Tensor:
    """As a library's that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def from_python(trainer, x, y):
    times = []
    for _ in range(20_000):
        start = time.perf_counter_ns()
        trainer.step(x, y)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1e3


def main():
    trainer = stowage.Trainer("mlp", batch=32, optimizer="sgd", lr=1e-3, device="cpu",
                              threads=1)
    x, y = np.full((32, 64), 0.5, np.float32), np.ones(32, np.int32)
    for _ in range(3):
        cpp = float(subprocess.run([ROOT / "bazel-bin/bench/small_step"], check=True,
                                   capture_output=True, text=True).stdout)
        for way, wrap in (("NumPy", np.asarray), ("DLPack", Tensor)):
            python = from_python(trainer, wrap(x), wrap(y))
            print(f"C++ {cpp:.2f} us, Python by {way} {python:.2f} us, more "
                  f"{python - cpp:.2f} us")
    before = resident()
    for _ in range(10_000):
        trainer.step(x, y)
    print(f"10,000 further steps: {resident() - before} bytes more")


if __name__ == "__main__":
    main()
