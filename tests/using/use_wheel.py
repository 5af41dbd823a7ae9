"""Uses an installed package away from this repository: plans and trains a model by name and
one of an ONNX file, reads tokens and images by the command, and looks where the libraries
came from that it loaded for that.

    use_wheel.py MODEL.onnx.xz
"""

import json
import lzma
import os
import pathlib
import re
import struct
import subprocess
import sys
import zlib

import numpy as np

import stowage

PACKAGE = pathlib.Path(stowage.__file__).parent


def png(side, grey):
    """An image of one grey."""
    def chunk(kind, content):
        return (struct.pack(">I", len(content)) + kind + content +
                struct.pack(">I", zlib.crc32(kind + content)))

    rows = (b"\0" + bytes([grey]) * side) * side
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0,
                                                            0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def byte_tokenizer():
    """A tokenizer of bytes and one pair, as tokenizer.json has one."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    letters.update((byte, chr(256 + i)) for i, byte in
                   enumerate(byte for byte in range(256) if byte not in plain))
    parts = {"type": "ByteLevel", "add_prefix_space": False}
    vocab = {letters[byte]: byte for byte in range(256)}
    vocab["ab"] = 256
    return {"version": "1.0", "added_tokens": [], "normalizer": None,
            "pre_tokenizer": parts, "post_processor": None, "decoder": parts,
            "model": {"type": "BPE", "vocab": vocab, "merges": ["a b"]}}


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "stowage", *arguments], check=True,
                          capture_output=True, text=True).stdout


assert "site-packages" in str(PACKAGE), PACKAGE
whole = stowage.plan("gpt-nano", batch=8, device="cpu")
budget = whole.arena_bytes * 6 // 10
with stowage.Trainer("gpt-nano", batch=8, seq=64, budget=budget, device="cpu") as trainer:
    tokens = np.arange(512, dtype=np.int32).reshape(8, 64) % 60
    losses = [trainer.step(tokens, tokens) for _ in range(3)]
    assert trainer.arena_bytes <= budget
assert losses[-1] < losses[0], losses

with lzma.open(sys.argv[1]) as file:
    assert stowage.plan(file.read(), batch=32, device="cpu").arena_bytes > 0

# A wheel for any processor has several CPU targets, of which one is chosen.
target = stowage.cpu_target()
described = re.search(r"^CPU kernels: (\S+) \(\S+\)(?: of (.*))?$", command("--version"),
                      re.MULTILINE)
assert described and described[1] == target, (target, described)
for other in (described[2] or target).split(", "):
    os.environ["STOWAGE_CPU_TARGET"] = other
    if other <= target:
        assert f"CPU kernels: {other} " in command("--version")
del os.environ["STOWAGE_CPU_TARGET"]
print(f"[wheel] {described[0]}")

assert "gpt-nano" in command("models")
pathlib.Path("tokenizer.json").write_text(json.dumps(byte_tokenizer()), encoding="utf-8")
pathlib.Path("text").write_text("abc", encoding="utf-8")
ids = command("tokens", "--tokenizer", "tokenizer.json", "encode", "text")
assert ids.split() == ["256", "99"], ids
for name, grey in (("dark", 20), ("light", 230)):
    for i in range(8):
        path = pathlib.Path("images", name, f"{i}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(8, grey + i))
trained = command("train", "--model", "mlp", "--data", "images", "--batch", "4", "--steps",
                  "3", "--device", "cpu", "--json", "--no-plan-cache")
assert json.loads(trained.splitlines()[-1])["done"], trained

# Of what came with the package, nothing of the system's was taken; but what Python itself has
# loaded before is one library for all.
brought = {path.name for path in (PACKAGE / "libs").glob("*")}
mapped = set(re.findall(r"(/\S+\.so\S*)$", pathlib.Path("/proc/self/maps").read_text(
    encoding="utf-8"), re.MULTILINE))
of_python = subprocess.run(["/usr/bin/ldd", os.path.realpath(sys.executable)], check=True,
                           capture_output=True, text=True).stdout
for path in mapped:
    stem = os.path.basename(path).split(".so")[0]
    if any(name.startswith(stem + ".so") for name in brought) and stem not in of_python:
        assert path.startswith(str(PACKAGE)), path
assert any(path.startswith(str(PACKAGE / "libs")) for path in mapped), mapped
