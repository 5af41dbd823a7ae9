"""Fine-tuning with weights on disk beside a resident run: losses, arenas, seconds per step.

    python3 bench/disk_offload.py STOWAGE MODEL.gguf TEXT FOLDER [--limit BYTES] [--rounds N]

FOLDER, on a disk, gets plans, adapters and the file of offloaded values. Every round runs, in
turn, the resident step without a budget, the resident step in the budget that leaves it as
much beside the weights as the offloaded one has, and the offloaded step in 64 and 48 MB; the
losses of all must be equal. With --limit, the offloaded run of 48 MB is also put into a
cgroup of so many bytes, which needs root: its page cache then holds no copy of the file.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

STEPS = 6


def run(command, cgroup=None):
    def enter():
        if cgroup:
            (cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          preexec_fn=enter)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    if done.returncode != 0 or not rows or "done" not in rows[-1]:
        raise SystemExit(f"{command}\n{done.returncode} {done.stderr.decode()[-400:]}")
    steps = [row for row in rows if "loss" in row]
    return {"losses": [row["loss"] for row in steps],
            "seconds": statistics.median(row["step_seconds"] for row in steps),
            "arena": rows[-1]["arena_bytes"], "host": rows[-1]["host_bytes"],
            "peak": rows[-1]["peak_rss_bytes"], "frozen": rows[-1]["frozen_bytes"]}


def new_cgroup(limit):
    own = pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    for line in own:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            folder, name = f"/sys/fs/cgroup/memory{path}", "memory.limit_in_bytes"
            break
        folder, name = f"/sys/fs/cgroup{path}", "memory.max"
    cgroup = pathlib.Path(folder) / "stowage-disk"
    cgroup.mkdir(exist_ok=True)
    (cgroup / name).write_text(str(limit), encoding="ascii")
    return cgroup


def main():
    parser = argparse.ArgumentParser()
    for name in ("stowage", "model", "text", "folder"):
        parser.add_argument(name)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    folder = pathlib.Path(flags.folder)
    folder.mkdir(parents=True, exist_ok=True)
    base = [flags.stowage, "finetune", "--weights", flags.model, "--data", flags.text, "--seq",
            "256", "--batch", "1", "--lora-rank", "8", "--steps", str(STEPS), "--sample", "0",
            "--device", "cpu", "--plan-cache", str(folder / "plans"), "--json"]
    disk = ["--fit", "auto", "--offload", "disk", "--offload-dir", str(folder)]
    runs = {"resident": base, "disk, 64 MB": base + disk + ["--budget", "64MB"],
            "disk, 48 MB": base + disk + ["--budget", "48MB"]}
    first = run(runs["resident"])
    beside = 64_000_000 + first["frozen"]
    runs[f"resident, {beside / 1e6:.0f} MB"] = base + ["--budget", str(beside), "--fit",
                                                      "recompute,tiles"]
    results = {name: [] for name in runs}
    for _ in range(flags.rounds):
        for name, command in runs.items():
            results[name].append(run(command))
    if flags.limit:
        cgroup = new_cgroup(flags.limit)
        results[f"disk, 48 MB, all of the process in {flags.limit} bytes"] = [
            run(runs["disk, 48 MB"], cgroup)]
        cgroup.rmdir()
    print("| run | arena | on disk | seconds a step | of resident | losses |")
    print("|---|---:|---:|---:|---:|---|")
    resident = statistics.median(each["seconds"] for each in results["resident"])
    for name, each in results.items():
        seconds = statistics.median(one["seconds"] for one in each)
        equal = all(one["losses"] == first["losses"] for one in each)
        print(f"| {name} | {each[0]['arena']:,} | {each[0]['host']:,} | {seconds:.3f} | "
              f"{seconds / resident:.2f} | {'equal' if equal else 'OTHER'} |")


if __name__ == "__main__":
    main()
