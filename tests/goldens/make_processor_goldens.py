#!/usr/bin/env python3
"""Writes gpt_nano_x86_64.csv: losses that builds for other processors are compared with.

    python3 tests/goldens/make_processor_goldens.py bazel-bin/tools/stowage

STOWAGE is a build for x86-64. Rows are step,loss of gpt-nano in f32, with its own optimizer,
on the first pages of the novel. These numbers are Stowage's own: what they are compared with is the same program
on another processor (tests/using/aarch64.py), and that they are right is what PyTorch's
gpt_nano_adamw.csv shows.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOVEL = ROOT / "examples/data/pride_and_prejudice.txt"
GOLDEN = ROOT / "tests/goldens/gpt_nano_x86_64.csv"
TRAIN = ["train", "--model", "gpt-nano", "--batch", "2", "--seq", "16", "--steps", "20",
         "--sample", "0", "--device", "cpu", "--threads", "2", "--seed", "1", "--no-plan-cache",
         "--json"]


def losses(command, *options):
    """Step -> loss of TRAIN with further options, by a command: [program, ...]."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as text:
        text.write(NOVEL.read_bytes()[:8000])
        text.flush()
        said = subprocess.run([*command, *TRAIN, "--data", text.name, *options], check=True,
                              capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in said.splitlines()]
    return {row["step"]: row["loss"] for row in rows if "loss" in row}


def main():
    found = losses([sys.argv[1]])
    GOLDEN.write_text("step,loss\n" + "".join(f"{step},{loss!r}\n"
                                              for step, loss in found.items()))


if __name__ == "__main__":
    main()
