#!/usr/bin/env python3
"""Trains a model under falling budgets and prints what each costs, as Markdown.

    bazel build //tools:stowage
    bench/budget_table.py bazel-bin/tools/stowage --model gpt-nano \\
        --data examples/data/pride_and_prejudice.txt

The budgets are shares of the arena of the run without any optimization. Each is met by
the fewest optimizations that do, in the order of OPTIMIZATIONS. Steps are timed by `stowage
time`, each in turn with one of the run without optimizations; the extra time is the median
over the rounds of the median over such pairs. With --op-times DIRECTORY plans are
made by measured times, and what they predict stands beside what was measured: the
ops of the step without optimizations are timed first, then those of the step that these
times choose for each budget, each over four times as many steps and into a file
there; the rounds come after that, and have no part in it. Losses are those that
`stowage train` prints, step by step, compared with those of the run without optimizations.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

OPTIMIZATIONS = [
    [],
    ["--recompute", "auto"],
    ["--recompute", "auto", "--micro-batches", "auto"],
    ["--recompute", "auto", "--offload", "auto"],
    ["--recompute", "auto", "--micro-batches", "auto", "--offload", "auto"],
]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: the budget cannot be met
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done


class Runner:
    def __init__(self, args):
        self.args = args
        self.model = ["--model", args.model, "--threads", str(args.threads)]
        for name in ("batch", "seq"):
            if getattr(args, name):
                self.model += [f"--{name}", str(getattr(args, name))]
        self.times = []
        if args.op_times:
            self.times = self.time_ops([], "given")

    def train(self, optimizations, steps):
        """The lines of a run, or None when the budget cannot be met."""
        done = run([self.args.stowage, "train", *self.model, "--data", self.args.data,
                    "--device", "cpu", "--steps", str(steps), "--json", *optimizations])
        if done.returncode != 0:
            return None
        return [json.loads(line) for line in done.stdout.splitlines()]

    def extra_percent(self, optimizations):
        """How much longer steps take than those without optimizations, in percent."""
        done = run([self.args.stowage, "time", *self.model, "--data", self.args.data,
                    "--device", "cpu", "--steps", str(self.args.steps), "--json", *optimizations])
        return json.loads(done.stdout)["extra_time_percent"]

    def time_ops(self, flags, name):
        """Times the ops of a step; the flags that make plans by these times."""
        file = os.path.join(self.args.op_times, f"{self.args.model}.{name}.times")
        run([self.args.stowage, "time", *self.model, "--data", self.args.data,
             "--device", "cpu", "--steps", str(4 * self.args.steps), "-o", file, *flags])
        return ["--op-times", file]

    def plan(self, flags):
        done = run([self.args.stowage, "plan", *self.model, "--device", "cpu", "--json",
                    *flags])
        return json.loads(done.stdout)


def used(plan):
    """The optimizations that a plan uses, in words."""
    words = []
    if plan["recomputed_nodes"]:
        words.append(f"{plan['recomputed_nodes']} ops run again")
    if plan["micro_batches"] > 1:
        words.append(f"{plan['micro_batches']} micro-batches")
    if plan["offloaded_values"]:
        words.append(f"{plan['offloaded_values']} values offloaded")
    return ", ".join(words) or "none"


def losses(lines):
    return [line["loss"] for line in lines if "loss" in line]


def compare(lines, base):
    if losses(lines) == losses(base):
        return "bit for bit"
    most = max(abs(a - b) / abs(b) for a, b in zip(losses(lines), losses(base)))
    return f"within {most:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stowage")
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--shares", default="100,75,50,35", help="percent")
    parser.add_argument("--steps", type=int, default=20, help="that are timed")
    parser.add_argument("--loss-steps", type=int, default=200, help="that are compared")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--op-times", metavar="DIRECTORY", help="for files of times")
    args = parser.parse_args()
    runner = Runner(args)
    known = run([args.stowage, "train", "--help"]).stdout
    sets = [optimizations for optimizations in OPTIMIZATIONS
            if all(flag in known for flag in optimizations if flag.startswith("--"))]

    free = runner.train([], 1)[-1]["arena_bytes"]
    rows = []
    for share in (int(text) for text in args.shares.split(",")):
        budget = free * share // 100
        for optimizations in sets:
            flags = [*optimizations, "--budget", str(budget)]
            # Times are for choosing what runs again, and mean nothing without.
            times = runner.times if optimizations else []
            if runner.train([*flags, *times], 1) is None:
                continue
            if times:
                times = runner.time_ops([*flags, *times], share)
            flags += times
            rows.append({"share": share, "budget": budget, "flags": flags,
                         "plan": runner.plan(flags), "extra": []})
            break
        else:
            rows.append({"share": share, "budget": budget, "flags": None})

    fitting = [row for row in rows if row["flags"] is not None]
    base = runner.train([], args.loss_steps)
    for row in fitting:
        row["lines"] = runner.train(row["flags"], args.loss_steps)
        row["losses"] = compare(row["lines"], base)
    for _ in range(args.rounds):
        for row in fitting:
            row["extra"].append(runner.extra_percent(row["flags"]))

    print(f"{args.model}, {args.threads} thread(s); without optimizations {free:,} bytes; "
          f"{args.rounds} rounds of {args.steps} steps, {args.loss_steps} losses\n")
    print("| budget | fits | optimizations used | more operations | more time, predicted "
          "| more time, measured | losses |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        head = f"| {row['share']} %: {row['budget']:,} |"
        if row["flags"] is None:
            print(f"{head} no | | | | | |")
            continue
        plan = row["plan"]
        predicted = plan.get("predicted_extra_time_percent")
        extra = sorted(row["extra"])
        print(f"{head} yes, {row['lines'][-1]['arena_bytes']:,} | {used(plan)} "
              f"| {plan['recompute_flops_percent']:.2f} % "
              f"| {'' if predicted is None else f'{predicted:.1f} %'} "
              f"| {statistics.median(extra):.1f} % ({extra[0]:.1f} to {extra[-1]:.1f}) "
              f"| {row['losses']} |")


if __name__ == "__main__":
    main()
