#!/usr/bin/env python3
"""Writes what tests/nn/pretrained_test.cc reads: tiny language models with random
weights as Hugging Face's transformers saves them, the same quantised as GGUF by ggml's
own package, and their logits.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers safetensors gguf numpy
    /tmp/venv/bin/python tests/goldens/make_pretrained_goldens.py

Logits are computed in double, for 12 tokens, where token i is (7 i + 3) mod 64; of GGUF
files, by transformers' model of the dequantised weights. Rows of
pretrained/logits.csv are model,position,logits..., of three positions.
"""

import copy
import json
import pathlib
import shutil

import gguf
import numpy as np
import torch
import transformers as hf

HERE = pathlib.Path(__file__).resolve().parent / "pretrained"
SIZES = dict(
    vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=4.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=4.0,
            beta_slow=0.25, original_max_position_embeddings=16)
MODELS = {
    "llama": hf.LlamaForCausalLM(hf.LlamaConfig(
        **SIZES, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
        rope_parameters=LLAMA3)),
    "mistral": hf.MistralForCausalLM(hf.MistralConfig(
        **SIZES, sliding_window=4, head_dim=16,
        rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=10000.0))),
    "qwen2": hf.Qwen2ForCausalLM(hf.Qwen2Config(
        **SIZES, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "qwen3": hf.Qwen3ForCausalLM(hf.Qwen3Config(
        **SIZES, tie_word_embeddings=False, head_dim=16,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
    "gpt2": hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32)),
    "yarn": hf.Qwen3ForCausalLM(hf.Qwen3Config(
        **SIZES, tie_word_embeddings=False, head_dim=16, rope_parameters=YARN)),
}
TOKENS = [(7 * i + 3) % 64 for i in range(12)]
POSITIONS = (0, 5, 11)


def fill(model, seed):
    """Weights large enough that nothing in the model can be left out unseen, rounded
    to f16, in which they are stored."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = torch.randn(p.shape, generator=random)
            norm = "norm" in name or ".ln_" in name
            if p.dim() == 2:
                values *= 0.25
            else:
                values *= 0.1
                if norm and name.endswith("weight"):
                    values += 1
            p.copy_(values.half().float())
    return model.eval()


def logits(model):
    with torch.no_grad():
        out = copy.deepcopy(model).double()(torch.tensor([TOKENS])).logits[0]
    return [(t, out[t].tolist()) for t in POSITIONS]


def save(model, name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    shards = {"max_shard_size": "20KB"} if name == "llama" else {}
    # A copy: half() would round rope's frequencies, too.
    copy.deepcopy(model).half().save_pretrained(folder, **shards)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for path in folder.iterdir():
        path.chmod(0o644)


def permuted(x, heads):
    """Rows as llama.cpp's conversion writes q and k of the architecture llama."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(
        1, 2).reshape(x.shape)


def unpermuted(x, heads):
    return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(
        1, 2).reshape(x.shape)


def save_gguf(model, name):
    """The model's file, with matrices of several types, and the model of the weights
    that are in it."""
    config = model.config
    arch = "qwen3" if name == "yarn" else name
    head = getattr(config, "head_dim", None) or 8
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if name == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(YARN["factor"])
        writer.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(YARN["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(YARN["beta_slow"])
    if arch == "llama":
        writer.add_rope_dimension_count(head)
        writer.add_vocab_size(config.vocab_size)
        rope = model.model.rotary_emb
        base = 1.0 / 500000.0 ** (np.arange(0, head, 2) / head)
        factors = (base / rope.inv_freq.double().numpy()).astype(np.float32)
        writer.add_tensor("rope_freqs.weight", factors)
    names = gguf.get_tensor_name_map(
        {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], config.num_hidden_layers)
    types = ["Q8_0", "Q4_1", "F16", "Q5_0", "BF16", "Q4_0", "Q5_1"]
    weights = {}
    for i, (ours, tensor) in enumerate(model.state_dict().items()):
        if ours == "lm_head.weight" and config.tie_word_embeddings:
            continue
        heads = {"q_proj": config.num_attention_heads,
                 "k_proj": config.num_key_value_heads}.get(ours.split(".")[-2])
        turns = arch == "llama" and heads is not None
        x = tensor.float().numpy()
        x = permuted(x, heads) if turns else x
        called = names.get_name(ours, try_suffixes=(".weight", ".bias"))
        kind = gguf.GGMLQuantizationType[types[i % len(types)] if x.ndim == 2 else "F32"]
        data = gguf.quants.quantize(x, kind)
        writer.add_tensor(called, data, raw_dtype=kind)
        y = gguf.quants.dequantize(data, kind).astype(np.float32)
        weights[ours] = torch.from_numpy(np.ascontiguousarray(
            unpermuted(y, heads) if turns else y))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model


# Types that gguf.quants does not write, where their scales of f16 are, and a scale with
# which weights are about as large as those of the other models.
BLOCKS = {"Q2_K": ([80, 82], 0.01), "Q3_K": ([108], 0.003), "IQ4_XS": ([0], 0.0002),
          "TQ1_0": ([52], 0.3), "TQ2_0": ([64], 0.3), "IQ4_NL": ([0], 0.003),
          "MXFP4": ([], 0)}


def random_blocks(kind, shape, rng):
    numbers, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    data = rng.integers(0, 256, (shape[0], shape[1] // numbers, size), dtype=np.uint8)
    places, scale = BLOCKS[kind]
    for at in places:
        scales = (scale * (0.5 + rng.random((*data.shape[:2], 1)))).astype(np.float16)
        data[..., at:at + 2] = scales.view(np.uint8)
    if kind == "MXFP4":
        data[..., 0] = rng.integers(122, 126, data.shape[:2])
    return data.reshape(shape[0], -1)


def save_blocks():
    """blocks.gguf, a Llama of one layer with random blocks of those types, and
    transformers' model of the numbers that gguf.quants makes of them."""
    config = hf.LlamaConfig(
        vocab_size=64, hidden_size=256, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, rms_norm_eps=1e-5,
        max_position_embeddings=32, tie_word_embeddings=False)
    model = hf.LlamaForCausalLM(config).eval()
    writer = gguf.GGUFWriter(HERE / "blocks.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(32)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(32)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(8)
    writer.add_value_length(8)
    writer.add_rope_dimension_count(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(64)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    wide = ["Q2_K", "Q3_K", "IQ4_XS", "TQ1_0", "TQ2_0"]
    small = ["IQ4_NL", "MXFP4"]
    rng = np.random.default_rng(11)
    weights = {}
    for ours, tensor in model.state_dict().items():
        if tensor.dim() == 1:
            kind = "F32"
            data = numbers = (1 + 0.1 * rng.standard_normal(tensor.shape)).astype(np.float32)
        else:
            types = wide if tensor.shape[1] == 256 else small
            types.append(kind := types.pop(0))
            data = random_blocks(kind, tensor.shape, rng)
            numbers = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])
        heads = {"q_proj": 4, "k_proj": 2}.get(ours.split(".")[-2])
        writer.add_tensor(names.get_name(ours, try_suffixes=(".weight", ".bias")), data,
                          raw_dtype=gguf.GGMLQuantizationType[kind])
        numbers = unpermuted(numbers, heads) if heads else numbers
        weights[ours] = torch.from_numpy(np.ascontiguousarray(numbers))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(weights)
    return model


def main():
    HERE.mkdir(exist_ok=True)
    rows = []
    for seed, (name, model) in enumerate(MODELS.items()):
        fill(model, seed)
        save(model, name)
        rows += [(name, *row) for row in logits(model)]
        if name in ("llama", "qwen2", "qwen3", "yarn"):
            rows += [(f"{name}.gguf", *row) for row in logits(save_gguf(model, name))]
    rows += [("blocks.gguf", *row) for row in logits(save_blocks())]
    for path in HERE.glob("*/config.json"):
        config = json.loads(path.read_text())
        config.pop("transformers_version", None)
        path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    with open(HERE / "logits.csv", "w", encoding="ascii") as out:
        for name, position, numbers in rows:
            out.write(f"{name},{position},{','.join(f'{v:.9g}' for v in numbers)}\n")


if __name__ == "__main__":
    main()
