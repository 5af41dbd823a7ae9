#!/usr/bin/env python3
"""Writes what tests/nn/families_test.cc reads: tiny models of families of decoders with
random weights, as Hugging Face's transformers saves them and as GGUF by ggml's own package,
with their logits and the losses of a few steps.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers peft safetensors gguf numpy
    /tmp/venv/bin/python tests/goldens/make_family_goldens.py [NAME]...

Only the named models are written again, if any are. Everything is computed in double, of
GGUF files by transformers' model of the dequantised weights. Token i is (7 i + 3) mod 64,
the target behind it token i + 1. Rows of families/NAME.csv, and of NAME.gguf.csv, are

    logits,TOKENS,POSITION,...   of a text of so many tokens, behind one of them
    losses,...                   of AdamW without decay at a rate of 0.01, all weights trained
    adapted,...                  likewise of adapters beside attention, at a rate of 0.02: of
                                 models with experts. Element i of lora_A begins as
                                 ((5 i + 3) mod 11 - 5) / 50, lora_B as zeros.
"""

import copy
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
import peft
import torch
import transformers as hf

HERE = pathlib.Path(__file__).resolve().parent / "families"
TOKENS = [(7 * i + 3) % 64 for i in range(13)]
ROWS = ((12, 0), (12, 5), (12, 11), (6, 5))
STEPS, RATE = 3, 0.01
RANK, ALPHA, LORA_RATE = 2, 3, 0.02
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


def mixtral():
    model = hf.MixtralForCausalLM(hf.MixtralConfig(
        **sizes(intermediate_size=48), num_local_experts=4, num_experts_per_tok=2,
        sliding_window=None, rope_parameters=dict(rope_type="default", rope_theta=500.0)))
    return model, "llama", mixtral_keys


def mixtral_keys(writer, config):
    llama_keys(writer, config)
    writer.add_expert_count(4)
    writer.add_expert_used_count(2)


def qwen2moe(**changes):
    model = hf.Qwen2MoeForCausalLM(hf.Qwen2MoeConfig(
        **sizes(), num_experts=5, num_experts_per_tok=3, moe_intermediate_size=32,
        shared_expert_intermediate_size=64, **changes,
        rope_parameters=dict(rope_type="default", rope_theta=500.0)))
    return model, "qwen2moe", qwen2moe_keys


def qwen2moe_keys(writer, config):
    writer.add_rope_freq_base(500.0)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


def qwen2moe_some():
    """Qwen2-MoE with experts in one layer of three, normalized, from a folder alone."""
    model, _, _ = qwen2moe(decoder_sparse_step=2, norm_topk_prob=True)
    model.config.num_hidden_layers = 4
    model.config.layer_types = ["full_attention"] * 4
    model.config.mlp_only_layers = [3]
    return type(model)(model.config), None, None


def qwen3moe():
    model = hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
        **sizes(), num_experts=4, num_experts_per_tok=3, moe_intermediate_size=32,
        norm_topk_prob=True, head_dim=16,
        rope_parameters=dict(rope_type="default", rope_theta=500.0)))
    return model, "qwen3moe", qwen3moe_keys


def qwen3moe_keys(writer, config):
    writer.add_rope_freq_base(500.0)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def olmoe():
    model = hf.OlmoeForCausalLM(hf.OlmoeConfig(
        **sizes(), num_experts=6, num_experts_per_tok=3, norm_topk_prob=False,
        rope_parameters=dict(rope_type="default", rope_theta=500.0)))
    return model, "olmoe", olmoe_keys


def olmoe_keys(writer, config):
    writer.add_rope_freq_base(500.0)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)


MODELS = [phi3, gemma2, gemma3, smollm3, olmo2, granite, gptneox, gptneox_serial,
          mixtral, qwen2moe, qwen2moe_some, qwen3moe, olmoe]

# --- What is written of each ------------------------------------------------------------


def fill(model, seed):
    """Weights large enough that nothing in the model can be left out unseen, rounded
    to f16, in which they are stored."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = torch.randn(p.shape, generator=random)
            values *= 0.25 if p.dim() >= 2 else 0.1
            is_norm = "norm" in name and name.endswith("weight") and "Gemma" not in type(model).__name__
            p.copy_((values + (1 if is_norm else 0)).half().float())
    return model.eval()


class IdleExpert(Exception):
    """An expert meets no token. Where probabilities are normalized, the gradient of its row of
    the router is of rounding errors alone, which AdamW makes as large as any other."""


def check_routers(model):
    if not getattr(model.config, "norm_topk_prob", True):
        return
    for name, p in model.named_parameters():
        if name.endswith("gate.weight") and p.requires_grad and p.grad.abs().amax(-1).min() < 1e-5:
            raise IdleExpert(name)


def adapted_losses(model):
    model = copy.deepcopy(model)
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_A" in name:
                p.copy_(((5 * torch.arange(p.numel()) + 3) % 11 - 5).reshape(p.shape) / 50)
    return losses_of(model, LORA_RATE)


def losses_of(model, rate):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.0)
    losses = []
    for _ in range(STEPS + 1):
        logits = model(torch.tensor([TOKENS[:-1]])).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(TOKENS[1:]))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        check_routers(model)
        optimizer.step()
    return losses


def rows(model):
    model = copy.deepcopy(model).double()
    model.set_experts_implementation("eager")  # others do not compute in double
    with torch.no_grad():
        for count, position in ROWS:
            logits = model(torch.tensor([TOKENS[:count]])).logits[0, position]
            yield "logits", count, position, *logits.tolist()
    if hasattr(model.config, "num_experts_per_tok"):
        yield "adapted", *adapted_losses(model)
    yield "losses", *losses_of(model, RATE)


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
    if arch in ("granite", "smollm3", "llama") and heads is not None:
        return x.reshape(heads, 2, -1, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    if arch == "gptneox" and ".query_key_value." in name:
        heads = config.num_attention_heads
        return x.reshape(heads, 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return x + 1 if arch.startswith("gemma") and name.endswith("norm.weight") else x


def from_file(x, name, arch, config):
    """The other way."""
    heads = {"q_proj": config.num_attention_heads,
             "k_proj": getattr(config, "num_key_value_heads", None)}.get(name.split(".")[-2])
    if arch in ("granite", "smollm3", "llama") and heads is not None:
        return x.reshape(heads, -1, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    if arch == "gptneox" and ".query_key_value." in name:
        heads = config.num_attention_heads
        return x.reshape(3, heads, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    return x - 1 if arch.startswith("gemma") and name.endswith("norm.weight") else x


def add_experts(writer, name, x):
    """The matrices of all experts, in one tensor; gates and the other factors are apart.
    Returns the weights that are in the file."""
    layer, is_down = name.split(".")[2], name.endswith("down_proj")
    parts = {"down": x} if is_down else dict(zip(("gate", "up"), np.split(x, 2, axis=1)))
    read = []
    for part, (called, matrices) in enumerate(parts.items()):
        usual = TYPES[(2 * is_down + part) % 3] if matrices.shape[-1] % 32 == 0 else "F16"
        kind = gguf.GGMLQuantizationType[usual]
        data = gguf.quants.quantize(np.ascontiguousarray(matrices), kind)
        writer.add_tensor(f"blk.{layer}.ffn_{called}_exps.weight", data, raw_dtype=kind)
        read.append(gguf.quants.dequantize(data, kind).astype(np.float32))
    return torch.from_numpy(np.concatenate(read, axis=1))


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
        if ".experts." in ours:
            weights[ours] = add_experts(writer, ours, tensor.float().numpy())
            continue
        if ours == "lm_head.weight" and config.tie_word_embeddings:
            continue
        x = np.ascontiguousarray(to_file(tensor.float().numpy(), ours, arch, config))
        called = names.get_name(ours.replace(".mlp.gate.", ".block_sparse_moe.gate.")
                                if arch == "llama" else ours, try_suffixes=(".weight", ".bias"))
        usual = TYPES[i % len(TYPES)] if x.shape[-1] % 32 == 0 else "F16"
        usual = "F32" if "ffn_gate_inp" in called else usual
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


def write(name, model, arch, keys, seed):
    fill(model, seed)
    save(model, name)
    write_rows(name, model)
    if arch:
        write_rows(f"{name}.gguf", save_gguf(model, name, arch, keys))


def main():
    HERE.mkdir(exist_ok=True)
    for seed, make in enumerate(MODELS):
        name = make.__name__
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        for attempt in range(100):
            try:
                write(name, *make(), seed=100 + seed + 1000 * attempt)
                break
            except IdleExpert:
                continue


if __name__ == "__main__":
    main()
