#!/usr/bin/env python3
"""Writes what tests/formats/quantized_test.cc and gguf_test.cc compare with, by
ggml's own Python package.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install gguf numpy
    /tmp/venv/bin/python tests/goldens/make_gguf_goldens.py

quantized.csv has rows type,bytes,numbers: blocks in hexadecimal, and what
gguf.quants.dequantize makes of them, the bits of each float in hexadecimal. Blocks
are random bytes, save that scales are finite. gguf/all_kinds.gguf has a value of
every kind and a tensor of every type; its numbers are those below.
gguf/split-0000?-of-00003.gguf are one model in three shards.
"""

import pathlib

import gguf
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K",
         "Q6_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"]
# Where the f16 numbers of a block are.
HALVES = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0],
          "TQ1_0": [52], "TQ2_0": [64]}


def type_of(name):
    return gguf.GGMLQuantizationType[name]


def blocks(name, rng):
    numbers, size = gguf.GGML_QUANT_SIZES[type_of(name)]
    count = 1 if numbers == 256 else 3 if numbers == 32 else 8
    data = rng.integers(0, 256, (count, size), dtype=np.uint8)
    if name == "F32":
        return rng.standard_normal(count).astype(np.float32).view(np.uint8).reshape(-1, 4)
    if name == "BF16":
        data[:, 1] &= 0xBF  # no infinities
    for at in HALVES.get(name, []):
        # A negative one, a subnormal one, then any that are finite.
        data[:, at + 1] &= 0xBB
        data[0, at + 1] = 0x81 if at == 0 else 0x2C
        data[-1, at + 1] = 0x03
    if name == "MXFP4":  # the exponents of subnormal, usual and the largest finite numbers
        data[:, 0] = [0, 1, 252]
    return data


def main():
    rng = np.random.default_rng(7)
    with open(HERE / "quantized.csv", "w", encoding="ascii") as out:
        out.write("type,bytes,numbers\n")
        for name in TYPES:
            data = blocks(name, rng)
            numbers = gguf.quants.dequantize(data.reshape(1, -1), type_of(name))
            bits = numbers.astype(np.float32).view(np.uint32).ravel()
            assert np.isfinite(numbers).all(), name
            out.write(f"{name},{data.tobytes().hex()},"
                      f"{''.join(f'{b:08x}' for b in bits)}\n")

    # Three shards of at most two tensors each.
    split = gguf.GGUFWriter(HERE / "gguf" / "split.gguf", "llama", split_max_tensors=2)
    for i, name in enumerate(["b", "a", "d", "c", "e"]):
        split.add_tensor(name, np.arange(4, dtype=np.float32) + 10 * i)
    split.write_header_to_file()
    split.write_kv_data_to_file()
    split.write_tensors_to_file()
    split.close()

    writer = gguf.GGUFWriter(HERE / "gguf" / "all_kinds.gguf", "llama")
    writer.add_uint8("kind.u8", 200)
    writer.add_int8("kind.i8", -100)
    writer.add_uint16("kind.u16", 60000)
    writer.add_int16("kind.i16", -30000)
    writer.add_uint32("kind.u32", 4000000000)
    writer.add_int32("kind.i32", -2000000000)
    writer.add_uint64("kind.u64", 2**63 + 5)
    writer.add_int64("kind.i64", -(2**62))
    writer.add_float32("kind.f32", 0.1)
    writer.add_float64("kind.f64", 0.1)
    writer.add_bool("kind.bool", True)
    writer.add_string("kind.text", "naïve")
    writer.add_array("array.texts", ["a", "", "çé", "dd"])
    writer.add_array("array.ints", [3, -1, 4])
    writer.add_array("array.reals", [0.5, -2.25])
    writer.add_array("array.bools", [True, False])
    for name in TYPES:
        numbers, size = gguf.GGML_QUANT_SIZES[type_of(name)]
        row = 256 if numbers == 256 else 32
        shape = (2, row // numbers * size)
        data = (np.arange(shape[0] * shape[1]) % 251).astype(np.uint8).reshape(shape)
        writer.add_tensor(f"tensor.{name.lower()}", data, raw_dtype=type_of(name))
    writer.add_tensor("tensor.deep", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
