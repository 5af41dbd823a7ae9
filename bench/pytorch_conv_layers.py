#!/usr/bin/env python3
"""Times convolutions of known nets on the CPU, here and in PyTorch, as a Markdown table.

    bazel build -c opt //bench:conv_layers
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python bench/pytorch_conv_layers.py --threads 2

Both compute in f32, contiguous, and take turns, layer by layer. A time is the fastest
call of all rounds, and with one thread it is processor time, so that what else the
machine does matters least. A ratio is ours over PyTorch's. `x` and `w` are the
gradients to the image and to the filters.
"""

import argparse
import pathlib
import subprocess
import time

import torch

# N, C, H, W, O, kernel, stride, padding, groups, transposed.
LAYERS = {
    "resnet18 3x3 at 32": (64, 64, 32, 32, 64, 3, 1, 1, 1, 0),
    "resnet18 3x3 at 8": (64, 64, 8, 8, 64, 3, 1, 1, 1, 0),
    "resnet18 3x3 at 16": (64, 128, 16, 16, 128, 3, 1, 1, 1, 0),
    "resnet18 3x3 at 4": (64, 512, 4, 4, 512, 3, 1, 1, 1, 0),
    "resnet18 3x3 by 2": (64, 64, 32, 32, 128, 3, 2, 1, 1, 0),
    "resnet18 3x3 by 2 at 8": (64, 256, 8, 8, 512, 3, 2, 1, 1, 0),
    "resnet18 1x1 by 2": (64, 64, 32, 32, 128, 1, 2, 0, 1, 0),
    "resnet18 7x7 by 2": (64, 3, 32, 32, 64, 7, 2, 3, 1, 0),
    "resnet18 3x3 of 3 channels": (64, 3, 32, 32, 64, 3, 1, 1, 1, 0),
    "mobilenet-v2 1x1 out": (32, 16, 56, 56, 96, 1, 1, 0, 1, 0),
    "mobilenet-v2 1x1 in": (32, 144, 28, 28, 24, 1, 1, 0, 1, 0),
    "mobilenet-v2 depthwise": (32, 144, 28, 28, 144, 3, 1, 1, 144, 0),
    "mobilenet-v2 depthwise by 2": (32, 96, 56, 56, 96, 3, 2, 1, 96, 0),
    "unet 3x3 at 128": (4, 64, 128, 128, 64, 3, 1, 1, 1, 0),
    "unet transposed 2x2 by 2": (4, 128, 64, 64, 64, 2, 2, 0, 1, 1),
}
PASSES = ("forward", "x", "w")


def clock():
    one = torch.get_num_threads() == 1
    return time.process_time() if one else time.perf_counter()


def in_pytorch(layer, seconds):
    n, c, h, w, o, kernel, stride, padding, groups, transposed = layer
    x = torch.rand(n, c, h, w)
    shape = (c, o // groups) if transposed else (o, c // groups)
    filters = torch.rand(*shape, kernel, kernel)

    def forward():
        return torch.ops.aten.convolution(
            x, filters, None, [stride] * 2, [padding] * 2, [1, 1],
            bool(transposed), [0, 0], groups)

    dy = torch.rand_like(forward())

    def backward(mask):
        return torch.ops.aten.convolution_backward(
            dy, x, filters, None, [stride] * 2, [padding] * 2, [1, 1],
            bool(transposed), [0, 0], groups, mask)

    calls = (
        forward,
        lambda: backward([True, False, False]),
        lambda: backward([False, True, False]),
    )
    return [fastest(call, seconds) for call in calls]


def fastest(call, seconds):
    """Milliseconds."""
    best = float("inf")
    begin = clock()
    count = 0
    while count < 3 or clock() < begin + seconds:
        start = clock()
        call()
        best = min(best, clock() - start)
        count += 1
    return 1000 * best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3,
                        help="of each pass in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the layers' names")
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    torch.set_grad_enabled(False)
    binary = pathlib.Path(__file__).resolve().parent.parent / "bazel-bin/bench/conv_layers"
    ours = subprocess.Popen([binary, str(flags.threads)], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print(f"PyTorch {torch.__version__}, {flags.threads} threads, milliseconds.\n")
    print("| layer | " + " | ".join(
        f"{name} | PyTorch | ratio" for name in PASSES) + " |")
    print("|---|" + "---:|" * 9)
    for name, layer in LAYERS.items():
        if flags.only not in name:
            continue
        best = [[float("inf")] * 3, [float("inf")] * 3]
        for _ in range(flags.rounds):
            theirs = in_pytorch(layer, flags.seconds)
            ours.stdin.write(" ".join(map(str, layer)) + f" {flags.seconds}\n")
            ours.stdin.flush()
            times = [float(number) for number in ours.stdout.readline().split()]
            for total, of_round in zip(best, (times, theirs)):
                total[:] = map(min, total, of_round)
        print(f"| {name} | " + " | ".join(
            f"{a:.2f} | {b:.2f} | {a / b:.2f}" for a, b in zip(*best)) + " |",
            flush=True)
    ours.stdin.close()
    ours.wait()


if __name__ == "__main__":
    main()
