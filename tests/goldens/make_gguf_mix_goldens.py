#!/usr/bin/env python3
"""Writes gguf_mixes.csv, which tests/nn/gguf_form_test.cc compares with: the types that
llama.cpp's quantizer gives the tensors of models of several shapes.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install gguf numpy diskcache jinja2
    pip download --no-deps --no-binary :all: llama-cpp-python && tar xf llama_cpp_python-*.tar.gz
    cmake -S llama_cpp_python-*/vendor/llama.cpp -B build && cmake --build build --target llama
    LLAMA_CPP_LIB_PATH=build/bin PYTHONPATH=$(echo llama_cpp_python-*/) \\
        /tmp/venv/bin/python tests/goldens/make_gguf_mix_goldens.py

Rows are architecture,layers,width,hidden,heads,kv_heads,tied,mix,tensors: *=TYPE, the type of
most matrices, and NAME=TYPE of each other one, with spaces between.
"""

import collections
import ctypes
import pathlib
import tempfile

import gguf
import llama_cpp
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MIXES = {"f16": 1, "bf16": 32, "q8_0": 7, "q4_0": 2, "q4_1": 3, "q5_0": 8, "q5_1": 9,
         "q4_k_s": 14, "q4_k_m": 15, "q5_k_s": 16, "q5_k_m": 17, "q6_k": 18}
VOCABULARY = 8
# Architecture, layers, width, hidden, heads, kv_heads, whether the head is the embedding.
SHAPES = [("llama", 9, 256, 512, 4, 2, False), ("llama", 8, 256, 288, 4, 2, True),
          ("llama", 5, 64, 256, 4, 4, False), ("qwen2", 17, 256, 256, 4, 2, True),
          ("llama", 80, 256, 256, 4, 1, False), ("llama", 80, 256, 256, 4, 4, False),
          ("qwen2", 80, 256, 256, 4, 4, False), ("gpt2", 8, 256, 1024, 4, 4, True),
          ("llama", 4, 48, 80, 4, 2, False)]


def matrices(arch, layers, width, hidden, kv_width, tied):
    """Names and shapes, (out, in)."""
    yield "token_embd.weight", (VOCABULARY, width)
    if not tied:
        yield "output.weight", (VOCABULARY, width)
    if arch == "gpt2":
        yield "position_embd.weight", (16, width)
    for i in range(layers):
        if arch == "gpt2":
            yield f"blk.{i}.attn_qkv.weight", (3 * width, width)
        else:
            yield f"blk.{i}.attn_q.weight", (width, width)
            yield f"blk.{i}.attn_k.weight", (kv_width, width)
            yield f"blk.{i}.attn_v.weight", (kv_width, width)
            yield f"blk.{i}.ffn_gate.weight", (hidden, width)
        yield f"blk.{i}.attn_output.weight", (width, width)
        yield f"blk.{i}.ffn_up.weight", (hidden, width)
        yield f"blk.{i}.ffn_down.weight", (width, hidden)


def write(path, arch, layers, width, hidden, heads, kv_heads, tied):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(layers)
    writer.add_context_length(16)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    writer.add_file_type(0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([chr(97 + i) for i in range(VOCABULARY)])
    writer.add_token_types([1] * VOCABULARY)
    writer.add_token_merges(["a b"])
    rng = np.random.default_rng(1)
    kv_width = width // heads * kv_heads
    for name, shape in matrices(arch, layers, width, hidden, kv_width, tied):
        writer.add_tensor(name, rng.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize(source, target, file_type):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = file_type
    params.nthread = 1
    done = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(params))
    assert done == 0, file_type
    return {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(target).tensors}


def main():
    with tempfile.TemporaryDirectory() as folder, \
            open(HERE / "gguf_mixes.csv", "w", encoding="ascii") as out:
        out.write("architecture,layers,width,hidden,heads,kv_heads,tied,mix,tensors\n")
        source, target = pathlib.Path(folder) / "f32.gguf", pathlib.Path(folder) / "mix.gguf"
        for shape in SHAPES:
            write(source, *shape)
            for mix, file_type in MIXES.items():
                types = quantize(source, target, file_type)
                usual, _ = collections.Counter(types.values()).most_common(1)[0]
                others = [f"{name}={kind}" for name, kind in types.items() if kind != usual]
                row = [*shape[:6], int(shape[6]), mix, " ".join([f"*={usual}", *others])]
                out.write(",".join(map(str, row)) + "\n")


if __name__ == "__main__":
    main()
