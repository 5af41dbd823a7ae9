#!/usr/bin/env python3
"""Compares two ranks of one thread each with one rank of two threads.

    bazel build //tools:stowage
    python3 bench/rank_scaling.py bazel-bin/tools/stowage

Both take the same batch: the ranks each half of it, the one rank all. They are run in turn,
five times. Of the times of a run's steps the median is taken, without the first three, and of
those the median of the runs. Prints a row of Markdown for each model and sharding.
"""

import json
import statistics
import subprocess
import sys

TEXT = ["--data", "examples/data/pride_and_prejudice.txt", "--batch", "16", "--steps", "40"]
MODELS = ["gpt-nano", "llama-nano"]
RUNS = 5
MPI = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-n", "2"]


def seconds_a_step(command):
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    steps = [json.loads(line) for line in run.stdout.splitlines()]
    return statistics.median([step["step_seconds"] for step in steps
                              if "step_seconds" in step][3:])


def main():
    stowage = sys.argv[1]
    models = sys.argv[2:] or MODELS
    print("| model | sharding | one rank, two threads, ms | two ranks, ms | efficiency |")
    print("|---|---|---|---|---|")
    for model in models:
        common = [stowage, "train", "--model", model, *TEXT, "--sample", "0",
                  "--json"]
        for sharding in ["none", "states", "weights"]:
            alone, ranks = [], []
            for _ in range(RUNS):
                alone.append(seconds_a_step([*common, "--threads", "2"]))
                ranks.append(seconds_a_step(
                    [*MPI, *common, "--threads", "1", "--shard", sharding]))
            one, two = statistics.median(alone), statistics.median(ranks)
            print(f"| {model} | {sharding} | {1e3 * one:.1f} | {1e3 * two:.1f} "
                  f"| {one / two:.2f} |", flush=True)


if __name__ == "__main__":
    main()
