#!/usr/bin/env python3
"""Steps in C beside the library with one thread: time, arena and code size.

    bazel build //tools:stowage
    python3 bench/steps_in_c.py bazel-bin/tools/stowage

Prints medians over rounds. A round runs every form of a model once, whole processes in turn. A
step's time is processor time, so that other programs count little: in C the median step, in the
library the difference between two runs of other lengths, over the steps between.
"""

import pathlib
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile

ROUNDS = 3
FLAGS = "-O3 -march=native"
FORMS = {"scalar": [], "--simd 16": ["--simd", "16"], "--simd 32": ["--simd", "32"],
         "--simd 64": ["--simd", "64"]}
# Options, and steps of a run: about half a second.
MODELS = {
    "mlp": (["--batch", "64"], 3000),
    "cnn-small": (["--batch", "16"], 60),
    "lstm-char": (["--batch", "8", "--seq", "64"], 30),
    "gpt-nano": (["--batch", "4", "--seq", "64"], 40),
    "llama-nano": (["--batch", "4", "--seq", "64"], 40),
}
SIDES = {"mlp": 8, "cnn-small": 28}  # of images
DATA = {"mlp": "mlp.csv", "cnn-small": "cnn-small"}

MAIN = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "step.h"

static int compare(const void *a, const void *b) {
  const clock_t x = *(const clock_t *)a, y = *(const clock_t *)b;
  return (x > y) - (x < y);
}
int main(void) {
  static clock_t times[STEPS];
  uint32_t state = 1;
  step_init(42);
  for (int i = 0; i < STEPS; ++i) {
    for (int j = 0; j < INPUTS; ++j) {
      state = state * 1664525U + 1013904223U;
      IN()[j] = IS_IMAGE ? (float)(state >> 16) / 65536 : (state >> 16) % 64;
    }
    for (int j = 0; j < LABELS; ++j) {
      state = state * 1664525U + 1013904223U;
      OUT()[j] = (int32_t)(state >> 16) % (IS_IMAGE ? 10 : 64);
    }
    *step_input_lr() = 1e-3f;
    *step_input_step() = i + 1;
    const clock_t start = clock();
    if (step_step() != 0) return 1;
    times[i] = clock() - start;
  }
  qsort(times, STEPS, sizeof *times, compare);
  double sum = 0; /* a clock may be coarser than a step */
  for (int i = STEPS / 4; i < STEPS - STEPS / 4; ++i) sum += (double)times[i];
  printf("%.6f\n", 1e3 * sum / (STEPS - STEPS / 4 * 2) / CLOCKS_PER_SEC);
  return 0;
}
"""


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Model:
    """The programs of a model."""

    def __init__(self, name, stowage, folder):
        self.name, self.stowage, self.folder = name, stowage, folder
        self.options, self.steps = MODELS[name]
        self.data = folder / DATA.get(name, "text.txt")

    def source(self, form):
        return self.folder / f"{self.name}{form.replace(' ', '_')}" / "step.c"

    def compile(self, form):
        source = self.source(form)
        source.parent.mkdir()
        subprocess.run([self.stowage, "compile", "--model", self.name, *self.options,
                        *FORMS[form], "--no-plan-cache", "-o", str(source)],
                       check=True, stdout=subprocess.DEVNULL)
        (source.parent / "main.c").write_text(MAIN)

    def text_bytes(self, form, flags):
        source = self.source(form)
        subprocess.run(["gcc", *flags.split(), "-c", str(source), "-o", "size.o"], check=True,
                       cwd=source.parent)
        sizes = subprocess.run(["size", "size.o"], check=True, capture_output=True, text=True,
                               cwd=source.parent)
        return int(sizes.stdout.splitlines()[1].split()[0])

    def arena_bytes(self, form):
        header = self.source(form).with_suffix(".h").read_text()
        return int(header.split("STEP_ARENA_BYTES ")[1].split()[0])

    def build(self, form, flags):
        batch = int(self.options[1])
        side = SIDES.get(self.name)
        tokens = batch * 64
        macros = {"STEPS": self.steps, "IS_IMAGE": int(side is not None),
                  "INPUTS": batch * side * side if side else tokens,
                  "LABELS": batch if side else tokens,
                  "IN": "step_input_x" if side else "step_input_tokens",
                  "OUT": "step_input_y" if side else "step_input_targets"}
        source = self.source(form)
        subprocess.run(["gcc", *flags.split(), *[f"-D{k}={v}" for k, v in macros.items()],
                        "main.c", "step.c", "-o", "step", "-lm"], check=True,
                       cwd=source.parent)

    def in_c(self, form):
        run = subprocess.run([str(self.source(form).parent / "step")], check=True,
                             capture_output=True, text=True)
        return float(run.stdout)

    def in_library(self):
        def run(steps):
            return cpu_seconds([self.stowage, "train", "--model", self.name, *self.options,
                                "--data", str(self.data), "--threads", "1", "--steps", str(steps),
                                "--no-plan-cache",
                                *([] if self.name in SIDES else ["--sample", "0"])])
        short = self.steps // 4
        return 1e3 * (run(self.steps + short) - run(short)) / self.steps


def write_data(folder):
    chance = random.Random(1)
    text = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz .,;:") for _ in range(40000))
    (folder / "text.txt").write_text(text)
    rows = [",".join(str(chance.randrange(17)) for _ in range(64)) + f",{i % 10}"
            for i in range(640)]
    (folder / "mlp.csv").write_text("\n".join(rows) + "\n")
    # IDX files.
    (folder / "cnn-small").mkdir()
    for name, count in (("train", 320), ("t10k", 64)):
        (folder / "cnn-small" / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 0x803, count, 28, 28) + chance.randbytes(count * 784))
        (folder / "cnn-small" / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))


def main():
    stowage = str(pathlib.Path(sys.argv[1]).resolve())
    flags = sys.argv[2] if len(sys.argv) > 2 else FLAGS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_data(folder)
        print(f"gcc {flags}; milliseconds and ratios to the library with one thread, medians of "
              f"{ROUNDS} rounds")
        for model in (Model(name, stowage, folder) for name in MODELS):
            for form in FORMS:
                model.compile(form)
                model.build(form, flags)
            times = {form: [] for form in FORMS}
            library = []
            for _ in range(ROUNDS):
                library.append(model.in_library())
                for form in FORMS:
                    times[form].append(model.in_c(form))
            print(f"{model.name}: library {statistics.median(library):.3f} ms")
            for form, measured in times.items():
                ratio = statistics.median(a / b for a, b in zip(measured, library))
                print(f"  {form}: {statistics.median(measured):.3f} ms, ratio {ratio:.2f}, "
                      f"arena {model.arena_bytes(form)} bytes, text "
                      f"{model.text_bytes(form, '-Os -march=native')} -Os, "
                      f"{model.text_bytes(form, flags)} {flags}", flush=True)


if __name__ == "__main__":
    main()
