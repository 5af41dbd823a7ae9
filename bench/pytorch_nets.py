#!/usr/bin/env python3
"""Times training steps of the built-in nets beside PyTorch's, on the CPU or a GPU.

For each net, Stowage and PyTorch (eager, and with --compile compiled too) train in f32,
images by SGD with momentum and text by AdamW, in processes of their own, in turn,
ROUNDS times. Printed are the fastest step and the peak memory of each, PyTorch's less
what importing it takes, and the ratios of Stowage's figures to PyTorch's. Images are
random; Stowage draws the text from the novel in examples/data, PyTorch by lot. With
--half, a net whose process takes more than half of what eager PyTorch's takes is
trained inside a budget that keeps it to that, by running some ops again.

With --device cuda memory is what lies on the GPU: the arena, and what PyTorch's allocator
held at most. f32 is computed in f32 by both, not in TF32; with --dtype bf16 PyTorch
computes under autocast. --batch and --size are those of every net that is named.

    bazel build //tools:stowage
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python bench/pytorch_nets.py --threads 2 [--compile] [--half] [NET...]
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "examples/data/pride_and_prejudice.txt"
VOCABULARY = 96
# Batch, and channels and size of the images, or tokens of a sequence.
NETS = {
    "cnn-small": (64, (1, 28)),
    "resnet18": (64, (3, 32)),
    "resnet50": (16, (3, 64)),
    "mobilenet-v2": (32, (3, 64)),
    "unet": (8, (3, 128)),
    "vit-tiny": (32, (3, 64)),
    "lstm-char": (32, 64),
    "llama-nano": (8, 64),
    "gpt-nano": (8, 64),
    "gpt2-124m": (1, 256),
}
CLASSES = 10
# What --half leaves of PyTorch's bytes: its peaks differ by 6 % from run to run.
HALF = 0.45


def is_text(net):
    return isinstance(NETS[net][1], int)


def examples(net, count, shape):
    """x and y, as Stowage's data would be."""
    random = np.random.default_rng(1)
    if is_text(net):
        tokens = random.integers(VOCABULARY, size=(count, shape + 1))
        return tokens[:, :-1], tokens[:, 1:]
    channels, size = shape
    x = random.standard_normal((count, channels, size, size)).astype(np.float32)
    shape = (count, size, size) if net == "unet" else (count,)
    return x, (np.arange(np.prod(shape)).reshape(shape) % CLASSES).astype(np.int32)


def sizes(net, args):
    """NETS[net], save what was asked for."""
    batch, shape = NETS[net]
    if args.size is not None:
        shape = args.size if is_text(net) else (shape[0], args.size)
    return args.batch or batch, shape


def of_stowage(net, args, budget=None):
    """The fastest step, the peak memory, and what of it is arena."""
    batch, shape = sizes(net, args)
    with tempfile.TemporaryDirectory() as folder:
        command = [ROOT / "bazel-bin/tools/stowage", "train", "--model", net]
        command += ["--batch", str(batch), "--steps", str(args.steps)]
        command += ["--threads", str(args.threads), "--device", args.device, "--json"]
        command += ["--dtype", args.dtype]
        if budget is not None:
            command += ["--budget", str(budget), "--recompute", "auto"]
        if is_text(net):
            command += ["--data", TEXT, "--seq", str(shape)]
        else:
            x, y = examples(net, 2 * batch, shape)
            np.savez(f"{folder}/images.npz", x=x, y=y)
            command += ["--data", f"{folder}/images.npz"]
            command += ["--optimizer", "momentum"]
        lines = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    steps = [row["step_seconds"] for row in rows if "step_seconds" in row]
    arena = rows[-1]["arena_bytes"]
    peak = rows[-1]["peak_rss_bytes"] if args.device == "cpu" else arena
    return min(steps[2:]), peak, arena


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(net, args):
    """One net in PyTorch, in a process of its own; prints what of_torch reads."""
    import torch

    import torch_nets

    torch.set_num_threads(args.threads)
    imported = peak_rss_bytes()
    cuda = args.device == "cuda"
    batch, shape = sizes(net, args)
    x, y = (torch.from_numpy(a).to(args.device) for a in examples(net, batch, shape))
    y = y.long()
    if cuda:
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
    if is_text(net):
        model = torch_nets.make_text(net).to(args.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        model = torch_nets.make(net, *shape, CLASSES).to(args.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    step_model = torch.compile(model) if args.compile else model
    steps = []
    for _ in range(args.steps):
        began = time.perf_counter()
        with torch.autocast(args.device, torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = step_model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if cuda:
            torch.cuda.synchronize()
        steps.append(time.perf_counter() - began)
    held = torch.cuda.max_memory_allocated if cuda else peak_rss_bytes
    peak = held() - (0 if cuda else imported)
    print(json.dumps([min(steps[2:]), peak, torch.__version__]))


def of_torch(net, args, compiled):
    command = [sys.executable, __file__, "--child", net]
    command += ["--steps", str(args.steps), "--threads", str(args.threads)]
    command += ["--device", args.device, "--dtype", args.dtype]
    command += ["--batch", str(args.batch)] if args.batch else []
    command += ["--size", str(args.size)] if args.size else []
    command += ["--compile"] if compiled else []
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--size", type=int, help="of images, or tokens of a sequence")
    parser.add_argument("--child", choices=NETS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child, args)
    unknown = [net for net in args.nets if net not in NETS]
    if unknown:
        parser.error(f"no net {unknown[0]}; expected {', '.join(NETS)}")
    print("net          with        ms/step   Stowage   ratio   MB  Stowage  ratio")
    for net in args.nets or NETS:
        kinds = ["eager", "compiled"] if args.compile else ["eager"]
        best = {}
        budget = None
        if args.half:
            _, peak, arena = of_stowage(net, args)
            half = int(HALF * of_torch(net, args, False)[1])
            budget = half - (peak - arena) if peak > half else None
        for _ in range(args.rounds):
            for kind in ["stowage", *kinds]:
                figures = (
                    of_stowage(net, args, budget)
                    if kind == "stowage"
                    else of_torch(net, args, kind == "compiled")
                )
                if kind not in best or figures[0] < best[kind][0]:
                    best[kind] = figures
        seconds, bytes_, _ = best["stowage"]
        for kind in kinds:
            of, memory, version = best[kind]
            print(
                f"{net:12} {kind:9} {1e3 * of:9.1f} {1e3 * seconds:9.1f} "
                f"{seconds / of:7.2f} {memory / 1e6:6.0f} {bytes_ / 1e6:7.0f} "
                f"{bytes_ / memory:6.2f}   PyTorch {version}",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()
