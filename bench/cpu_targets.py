#!/usr/bin/env python3
"""Times steps of each CPU target of a portable build beside the default build.

    bench/cpu_targets.py NATIVE PORTABLE [--rounds 5] [--targets v4,v3,v2] [NET...]

NATIVE and PORTABLE are `stowage` as the two builds have it, the second with --config=portable.
Runs take turns: in each round, NATIVE comes before each of the targets of PORTABLE. The time of a
step is that of the processor, which other work changes least, on one thread; a target's ratio is
the median over rounds of its time by that of NATIVE before it.
"""

import argparse
import os
import pathlib
import random
import resource
import statistics
import struct
import subprocess
import tempfile
import zlib

NOVEL = pathlib.Path(__file__).parent.parent / "examples/data/pride_and_prejudice.txt"
# Net -> data, options, steps. Of data, a number is the side of square images.
NETS = {
    "gpt-nano": (NOVEL, ["--sample", "0"], 150),
    "llama-nano": (NOVEL, ["--sample", "0"], 150),
    "lstm-char": (NOVEL, ["--sample", "0"], 60),
    "resnet18": (32, ["--batch", "64"], 20),
    "mobilenet-v2": (64, ["--batch", "32"], 20),
}


def png(side, rng):
    """An image of noise, in colors."""
    def chunk(kind, content):
        return (struct.pack(">I", len(content)) + kind + content +
                struct.pack(">I", zlib.crc32(kind + content)))

    rows = b"".join(b"\0" + rng.randbytes(3 * side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_images(folder, side):
    rng = random.Random(side)
    for label in "ab":
        (folder / label).mkdir(parents=True)
        for i in range(64):
            (folder / label / f"{i}.png").write_bytes(png(side, rng))


def step_seconds(command, target, steps, work):
    """Of the processor, by runs of two lengths: what comes before the first step cancels out."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
    if target:
        environment["STOWAGE_CPU_TARGET"] = target
    taken = []
    for count in (2, 2 + steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([*command, "--steps", str(count)], env=environment, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return (taken[1] - taken[0]) / steps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("native")
    parser.add_argument("portable")
    parser.add_argument("nets", nargs="*", default=list(NETS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--targets", default="v4,v3,v2")
    given = parser.parse_args()
    targets = given.targets.split(",")
    print("| net | native, ms |", " | ".join(targets), "| lowest and highest of a round |")
    print("|---|---:|" + "---:|" * len(targets) + "---|")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for net in given.nets:
            data, options, steps = NETS[net]
            if isinstance(data, int):
                make_images(work / net, data)
                data = work / net
            tail = ["train", "--model", net, "--data", str(data), "--device", "cpu", "--threads",
                    "1", *options]
            step_seconds([given.native, *tail], "", 1, work)  # plans are kept
            native = []
            ratios = {target: [] for target in targets}
            for _ in range(given.rounds):
                for target in targets:
                    native.append(step_seconds([given.native, *tail], "", steps, work))
                    taken = step_seconds([given.portable, *tail], target, steps, work)
                    ratios[target].append(taken / native[-1])
            print(f"| {net} | {statistics.median(native) * 1e3:.2f} |",
                  " | ".join(f"{statistics.median(ratios[target]):.3f}" for target in targets), "|",
                  "; ".join(f"{min(ratios[target]):.3f} to {max(ratios[target]):.3f}"
                            for target in targets), "|", flush=True)


if __name__ == "__main__":
    main()
