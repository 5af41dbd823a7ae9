#!/usr/bin/env python3
"""Writes what tests/nn/families_test.cc reads: tiny models of families of decoders with
random weights, as Hugging Face's transformers saves them and as GGUF by ggml's own package,
with their logits and the losses of a few steps.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers safetensors gguf numpy
    /tmp/venv/bin/python tests/goldens/make_family_goldens.py [NAME]...

Only the named models are written again, if any are. Everything is computed in double, of
GGUF files by transformers' model of the dequantised weights. Token i is (7 i + 3) mod 64,
the target behind it token i + 1. Rows of families/NAME.csv, and of NAME.gguf.csv, are

    logits,TOKENS,POSITION,...   of a text of so many tokens, behind one of them
    losses,...                   of AdamW without decay at a rate of 0.01, all weights trained
"""

import copy
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
import torch
import transformers as hf

HERE = pathlib.Path(__file__).resolve().parent / "families"
TOKENS = [(7 * i + 3) % 64 for i in range(13)]
ROWS = ((12, 0), (12, 5), (12, 11), (6, 5))
STEPS, RATE = 3, 0.01
SIZES = dict(
    vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
    pad_token_id=None, bos_token_id=None, eos_token_id=None)
TYPES = ["Q8_0", "F16", "Q5_0", "BF16"]


def sizes(**changes):
    return {**SIZES, **changes}


# --- The families: a model, and what a GGUF file says of it -----------------------------


def phi3():
    model = hf.Phi3ForCausalLM(hf.Phi3Config(
        **sizes(), sliding_window=7, original_max_position_embeddings=8,
        rope_parameters=dict(
            rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5,
            short_factor=[1.0, 1.5], long_factor=[1.25, 4.0])))
    return model, "phi3", phi3_keys


def phi3_keys(writer, config):
    rope = config.rope_parameters
    writer.add_rope_dimension_count(4)
    writer.add_rope_scaling_orig_ctx_len(8)
    writer.add_rope_scaling_attn_factors(
        float(np.sqrt(1 + np.log(32 / 8) / np.log(8))))
    writer.add_sliding_window(config.sliding_window)
    for kind in ("long", "short"):
        writer.add_tensor(f"rope_factors_{kind}.weight",
                          np.array(rope[f"{kind}_factor"], dtype=np.float32))


def gemma2():
    model = hf.Gemma2ForCausalLM(hf.Gemma2Config(
        **sizes(), head_dim=8, query_pre_attn_scalar=8, sliding_window=4,
        attn_logit_softcapping=1.5, final_logit_softcapping=5.0))
    return model, "gemma2", gemma2_keys


def gemma2_keys(writer, config):
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_sliding_window(config.sliding_window)


def gemma3():
    layers = 7
    model = hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(
        **sizes(num_hidden_layers=layers, num_attention_heads=2, num_key_value_heads=1),
        head_dim=8, query_pre_attn_scalar=8, sliding_window=4, rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=100.0),
            full_attention=dict(rope_type="linear", factor=2.0, rope_theta=5000.0))))
    return model, "gemma3", gemma3_keys


def gemma3_keys(writer, config):
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(5000.0)
    writer.add_rope_freq_base_swa(100.0)
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(2.0)
    writer.add_sliding_window(config.sliding_window)


def smollm3():
    model = hf.SmolLM3ForCausalLM(hf.SmolLM3Config(
        **sizes(num_hidden_layers=4), attention_bias=False, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=100.0)))
    return model, "smollm3", llama_keys


def llama_keys(writer, config):
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def olmo2():
    model = hf.Olmo2ForCausalLM(hf.Olmo2Config(
        **sizes(), rope_parameters=dict(rope_type="default", rope_theta=500.0)))
    return model, "olmo2", olmo2_keys


def olmo2_keys(writer, config):
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])


def granite():
    model = hf.GraniteForCausalLM(hf.GraniteConfig(
        **sizes(), embedding_multiplier=3.0, attention_multiplier=0.25,
        residual_multiplier=0.75, logits_scaling=2.5, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="default", rope_theta=500.0)))
    return model, "granite", granite_keys


def granite_keys(writer, config):
    llama_keys(writer, config)
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)


def gptneox():
    arguments = sizes()
    del arguments["num_key_value_heads"]
    model = hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(
        **arguments, rope_parameters=dict(
            rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5)))
    return model, "gptneox", gptneox_keys


def gptneox_keys(writer, config):
    writer.add_rope_dimension_count(4)
    writer.add_rope_freq_base(500.0)
    writer.add_parallel_residual(config.use_parallel_residual)
    writer.add_layer_norm_eps(config.layer_norm_eps)


def gptneox_serial():
    """GPT-NeoX without the parallel residual, from a folder alone."""
    model, _, _ = gptneox()
    model.config.use_parallel_residual = False
    return type(model)(model.config), None, None


MODELS = [phi3, gemma2, gemma3, smollm3, olmo2, granite, gptneox, gptneox_serial]

# --- What is written of each ------------------------------------------------------------


def fill(model, seed):
    """Weights large enough that nothing in the model can be left out unseen, rounded
    to f16, in which they are stored."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = torch.randn(p.shape, generator=random)
            values *= 0.25 if p.dim() == 2 else 0.1
            is_norm = "norm" in name and name.endswith("weight") and "Gemma" not in type(model).__name__
            p.copy_((values + (1 if is_norm else 0)).half().float())
    return model.eval()


def rows(model):
    model = copy.deepcopy(model).double()
    with torch.no_grad():
        for count, position in ROWS:
            logits = model(torch.tensor([TOKENS[:count]])).logits[0, position]
            yield "logits", count, position, *logits.tolist()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    losses = []
    for _ in range(STEPS + 1):
        logits = model(torch.tensor([TOKENS[:-1]])).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(TOKENS[1:]))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    yield "losses", *losses


def save(model, name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    # A copy: half() would round rope's frequencies, too.
    copy.deepcopy(model).half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for path in folder.iterdir():
        path.chmod(0o644)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.pop("transformers_version", None)
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def to_file(x, name, arch, config):
    """A tensor as llama.cpp's conversion writes it."""
    heads = {"q_proj": config.num_attention_heads,
             "k_proj": getattr(config, "num_key_value_heads", None)}.get(name.split(".")[-2])
    if arch in ("granite", "smollm3") and heads is not None:
        return x.reshape(heads, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    if arch == "gptneox" and ".query_key_value." in name:
        heads = config.num_attention_heads
        return x.reshape(heads, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return x + 1 if arch.startswith("gemma") and name.endswith("norm.weight") else x


def from_file(x, name, arch, config):
    """The other way."""
    heads = {"q_proj": config.num_attention_heads,
             "k_proj": getattr(config, "num_key_value_heads", None)}.get(name.split(".")[-2])
    if arch in ("granite", "smollm3") and heads is not None:
        return x.reshape(heads, -1, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    if arch == "gptneox" and ".query_key_value." in name:
        heads = config.num_attention_heads
        return x.reshape(3, heads, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return x - 1 if arch.startswith("gemma") and name.endswith("norm.weight") else x


def save_gguf(model, name, arch, keys):
    """The model's file, with matrices of several types, and the model of the weights
    that are in it."""
    config = model.config
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if arch != "gptneox":
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    keys(writer, config)
    names = gguf.get_tensor_name_map(
        {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], config.num_hidden_layers)
    weights = {}
    for i, (ours, tensor) in enumerate(model.state_dict().items()):
        if ours == "lm_head.weight" and config.tie_word_embeddings:
            continue
        x = np.ascontiguousarray(to_file(tensor.float().numpy(), ours, arch, config))
        called = names.get_name(ours, try_suffixes=(".weight", ".bias"))
        usual = TYPES[i % len(TYPES)] if x.shape[-1] % 32 == 0 else "F16"
        kind = gguf.GGMLQuantizationType[usual if x.ndim == 2 else "F32"]
        data = gguf.quants.quantize(x, kind)
        writer.add_tensor(called, data, raw_dtype=kind)
        y = gguf.quants.dequantize(data, kind).astype(np.float32)
        weights[ours] = torch.from_numpy(
            np.ascontiguousarray(from_file(y, ours, arch, config)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model


def write_rows(name, model):
    with open(HERE / f"{name}.csv", "w", encoding="ascii") as out:
        for row in rows(model):
            fields = (f"{v:.9g}" if isinstance(v, float) else str(v) for v in row)
            out.write(",".join(fields) + "\n")


def main():
    HERE.mkdir(exist_ok=True)
    for seed, make in enumerate(MODELS):
        name = make.__name__
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        model, arch, keys = make()
        fill(model, 100 + seed)
        save(model, name)
        write_rows(name, model)
        if arch:
            write_rows(f"{name}.gguf", save_gguf(model, name, arch, keys))


if __name__ == "__main__":
    main()
