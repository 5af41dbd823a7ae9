#!/usr/bin/env python3
"""Compares GGUF files of `stowage finetune` with llama.cpp's results from them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install gguf numpy torch transformers \\
        safetensors diskcache jinja2
    pip download --no-deps --no-binary :all: llama-cpp-python && tar xf llama_cpp_python-*.tar.gz
    cmake -S llama_cpp_python-*/vendor/llama.cpp -B build && cmake --build build --target llama
    bazel build //tools:stowage
    LLAMA_CPP_LIB_PATH=build/bin PYTHONPATH=$(echo llama_cpp_python-*/) \\
        /tmp/venv/bin/python bench/gguf_llama_cpp.py bazel-bin/tools/stowage

For each tiny model of tests/goldens/pretrained and families, adapters take five steps. Then come the
largest differences of logits between llama.cpp on the merged file in f32 and transformers on
the merged safetensors, in double; and between the adapter's file beside the base's and the
merged file, both in llama.cpp.
"""

import ctypes
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np
import torch
import transformers
from safetensors.torch import load_file

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "tests/goldens"
MODELS = [GOLDENS / "pretrained" / name for name in (
    "llama", "llama.gguf", "mistral", "qwen2", "qwen2.gguf", "qwen3", "qwen3.gguf", "yarn",
    "yarn.gguf", "gpt2")]
MODELS += [GOLDENS / "families" / f"{name}{suffix}" for name in (
    "phi3", "gemma2", "gemma3", "smollm3", "olmo2", "granite", "gptneox")
    for suffix in ("", ".gguf")]
# llama.cpp has no window for them.
WINDOWS = {"mistral": 4, "phi3": 7}


@llama_cpp.llama_log_callback
def quiet(level, text, data):
    del level, text, data


def tokenizer():
    letters = [chr(c) for c in [*range(97, 123), *range(65, 91)]]
    tokens = letters + ["\u0120", ".", "\u010a", "th", "he"]
    return {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)},
                      "merges": ["t h", "h e"]}}


def llama_logits(path, tokens, yarn, adapter=None):
    model = llama_cpp.llama_model_load_from_file(
        str(path).encode(), llama_cpp.llama_model_default_params())
    assert model, path
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = 32
    params.n_threads = params.n_threads_batch = 1
    params.flash_attn_type = 0
    params.type_k = params.type_v = 0  # f32
    if yarn:  # whose keys llama.cpp does not read for this architecture
        params.yarn_beta_fast, params.yarn_beta_slow = 4.0, 0.25
    context = llama_cpp.llama_init_from_model(model, params)
    if adapter:
        lora = llama_cpp.llama_adapter_lora_init(model, str(adapter).encode())
        assert lora, adapter
        adapters = (llama_cpp.llama_adapter_lora_p_ctypes * 1)(lora)
        scales = (ctypes.c_float * 1)(1.0)
        assert llama_cpp.llama_set_adapters_lora(context, adapters, 1, scales) == 0
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, i, 1
        batch.seq_id[i][0], batch.logits[i] = 0, 1
    assert llama_cpp.llama_decode(context, batch) == 0
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    logits = [np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i), (size,)).copy()
              for i in range(len(tokens))]
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return np.array(logits)


def transformers_logits(folder, weights, tokens):
    config = transformers.AutoConfig.from_pretrained(folder)
    if folder.name == "gptneox":  # which llama.cpp bends so
        config.hidden_act = "gelu_new"
    if folder.name == "phi3":  # whose contexts are long ones in llama.cpp
        rope = config.rope_parameters
        rope["attention_factor"] = (1 + np.log(4) / np.log(8)) ** 0.5
        rope["original_max_position_embeddings"] = 4
        config.original_max_position_embeddings = 4
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", dtype=torch.float32)
    tensors = load_file(weights)
    if "embed_out.weight" in tensors:  # as transformers' own loading renames it
        tensors["lm_head.weight"] = tensors.pop("embed_out.weight")
    lacking, unknown = model.load_state_dict(tensors, strict=False)
    assert not unknown and set(lacking) <= {"lm_head.weight"}, (lacking, unknown)
    model.tie_weights()
    with torch.no_grad():
        return model.double().eval()(torch.tensor([tokens])).logits[0].numpy()


def main():
    stowage = sys.argv[1]
    transformers.logging.set_verbosity_error()
    llama_cpp.llama_log_set(quiet, None)
    llama_cpp.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
        (folder / "story.txt").write_text("The ship sails at noon. The cook reads.\n" * 60)

        def tune(path, rate, *options):
            subprocess.run(
                [stowage, "finetune", "--weights", path, "--tokenizer",
                 folder / "tokenizer.json", "--data", folder / "story.txt", "--seq", "16",
                 "--batch", "2", "--steps", "5", "--lr", rate, "--sample", "0", "--json",
                 *options], check=True, capture_output=True)

        print(f"{'model':12} merged  adapter  of logits up to")
        for number, path in enumerate(MODELS):
            name, family = path.name, path.name.split(".")[0]
            theirs_at = path.parent / family
            if path.is_dir():  # llama.cpp looks for tokens of models that are called phi3
                path = shutil.copytree(path, folder / f"tiny {number}")
            merged, adapter, base, whole = (
                folder / file for file in ("merged.gguf", "adapter.gguf", "base.gguf",
                                           "merged.safetensors"))
            as_f32 = ["--merged-type", "f32"]
            tune(path, "0.02", "--save-merged", merged, *as_f32, "--save-adapter", adapter)
            tune(path, "0.02", "--save-merged", whole)
            tune(path, "1e-30", "--save-merged", base, *as_f32)  # which leaves it as it is
            tokens = [(7 * i + 3) % 64 for i in range(WINDOWS.get(family, 12))]
            yarn = name.startswith("yarn")
            ours = llama_logits(merged, tokens, yarn)
            theirs = transformers_logits(theirs_at, whole, tokens)
            beside = llama_logits(base, tokens, yarn, adapter)
            print(f"{name:12} {np.abs(ours - theirs).max():.0e}   "
                  f"{np.abs(beside - ours).max():.0e}    {np.abs(theirs).max():.1f}")


if __name__ == "__main__":
    main()
