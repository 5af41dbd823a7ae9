#!/usr/bin/env python3
"""Times steps in f32 and bf16 beside PyTorch's under autocast, on the CPU.

For each net, a round is some steps of Stowage in f32 and in bf16, in turn
(bench/dtype_steps.cc), and then as many of eager PyTorch under autocast to bf16, whose process
waits meanwhile. Images are trained by SGD with momentum and text by AdamW. Times are the
processor's, which other processes lengthen little; PyTorch's threads sleep where they would spin.
Printed are the medians over all rounds, and of each round's ratios.

    bazel build //bench:dtype_steps
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python bench/dtype_steps.py --threads 2 [NET...]
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Batch, and the size of images of three channels, or tokens of a sequence.
NETS = {"gpt2-124m": (1, 256), "resnet18": (32, 64), "gpt-nano": (8, 64)}
CLASSES = 10


def child(net, args):
    """Takes a line from stdin for each round, and prints its steps' milliseconds."""
    import torch

    import torch_nets

    torch.set_num_threads(args.threads)
    batch, size = NETS[net]
    torch.manual_seed(1)
    if net.startswith("gpt"):
        x, y = torch.randint(CLASSES, (2, batch, size))
        model = torch_nets.make_text(net)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        x, y = torch.randn(batch, 3, size, size), torch.arange(batch) % CLASSES
        model = torch_nets.make(net, 3, size, CLASSES)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def step():
        began = time.process_time()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return 1e3 * (time.process_time() - began)

    step()
    for _ in sys.stdin:
        print(statistics.median(step() for _ in range(args.steps)), flush=True)


def of_stowage(net, args):
    """Medians in f32 and in bf16."""
    batch, size = NETS[net]
    command = [ROOT / "bazel-bin/bench/dtype_steps", net, batch, size, args.steps, args.threads]
    words = subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True
    ).stdout.split()
    return float(words[1]), float(words[3])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", choices=NETS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args)
    print("net             f32 ms  bf16 ms   ratio   PyTorch ms   ratio")
    for net in args.nets or NETS:
        command = [sys.executable, __file__, "--child", net]
        command += ["--threads", str(args.threads), "--steps", str(args.steps)]
        passive = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
        rows = []
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=passive
        ) as torch:
            for _ in range(args.rounds):
                f32, bf16 = of_stowage(net, args)
                torch.stdin.write("\n")
                torch.stdin.flush()
                rows.append((f32, bf16, float(torch.stdout.readline())))
            torch.stdin.close()
        f32, bf16, other = (statistics.median(column) for column in zip(*rows))
        of_f32 = statistics.median(row[1] / row[0] for row in rows)
        of_other = statistics.median(row[1] / row[2] for row in rows)
        print(f"{net:12} {f32:9.1f} {bf16:8.1f} {of_f32:7.3f} {other:12.1f} {of_other:7.3f}")
    return None


if __name__ == "__main__":
    main()
