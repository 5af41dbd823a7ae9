#!/usr/bin/env python3
"""Writes quantize.csv, which tests/formats/quantize_test.cc compares with.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install gguf numpy
    pip download --no-deps --no-binary :all: llama-cpp-python && tar xf llama_cpp_python-*.tar.gz
    cmake -S llama_cpp_python-*/vendor/llama.cpp -B build && cmake --build build --target ggml-base
    /tmp/venv/bin/python tests/goldens/make_quantize_goldens.py build/bin/libggml-base.so

Rows are case,type,numbers,bytes: the bits of floats, and blocks of them, in hexadecimal.
Blocks are those of gguf.quants.quantize; of the K types, which it has no encoder for, those
of ggml's own ggml_quantize_chunk, in the library that is named.
"""

import ctypes
import pathlib
import sys

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TYPES = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]


def cases():
    rng = np.random.default_rng(11)
    yield "normal", 0.02 * rng.standard_normal(1024)
    yield "heavy-tailed", 0.02 * rng.standard_t(3, 1024)
    yield "above zero", rng.uniform(1, 2, 512)
    yield "below zero", -rng.uniform(1, 2, 512)
    yield "small", 1e-4 * rng.standard_normal(512)
    yield "subnormal scales", 1e-5 * rng.standard_normal(512)
    yield "large", rng.uniform(-6e4, 6e4, 512)
    yield "ties", rng.integers(-16, 17, 512) / 4
    yield "zeros", np.zeros(256)
    yield "equal", np.full(256, 0.375)
    one = np.zeros(256)
    one[77] = -3
    yield "one", one


def by_ggml(library, numbers, kind):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros(len(numbers) // block * size, np.uint8)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    written = library.ggml_quantize_chunk(
        int(kind), numbers.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(0), ctypes.c_int64(1), ctypes.c_int64(len(numbers)), None)
    assert written == len(out)
    return out


def main():
    library = ctypes.CDLL(sys.argv[1])
    with open(HERE / "quantize.csv", "w", encoding="ascii") as out:
        out.write("case,type,numbers,bytes\n")
        for case, numbers in cases():
            numbers = numbers.astype(np.float32) + np.float32(0)  # no zero has a sign
            bits = "".join(f"{b:08x}" for b in numbers.view(np.uint32))
            for name in TYPES:
                kind = gguf.GGMLQuantizationType[name]
                if name.endswith("_K"):
                    data = by_ggml(library, numbers, kind)
                else:
                    data = gguf.quants.quantize(numbers.reshape(-1, 32), kind)
                # The numbers of a case are those of its first row.
                out.write(f"{case},{name},{bits if name == TYPES[0] else ''},"
                          f"{data.tobytes().hex()}\n")


if __name__ == "__main__":
    main()
