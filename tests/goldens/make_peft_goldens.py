#!/usr/bin/env python3
"""Writes what tests/train/fine_tuning_test.cc compares with: low-rank adapters beside
the tiny models of make_pretrained_goldens.py, as Hugging Face's PEFT trains and keeps
them.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers peft safetensors gguf numpy
    /tmp/venv/bin/python tests/goldens/make_peft_goldens.py

Of each model: peft/<name>/ is the adapter that training begins with, and
peft/training.csv has, a line each, the losses of five steps of AdamW in double, the
logits of the last of 12 tokens before and after them, and the adapter's weights after
them, by name. Token i of the inputs is (7 i + 3) mod 64, that of the targets the next.
"""

import json
import pathlib
import shutil

import gguf
import numpy as np
import peft
import torch
import transformers as hf

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "peft"
TARGETS = {
    "llama.gguf": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                   "down_proj"],
    "qwen2.gguf": ["q_proj", "v_proj"],
    "gpt2": ["c_attn", "c_proj", "c_fc"],
}
TOKENS = [(7 * i + 3) % 64 for i in range(13)]
STEPS, RATE = 5, 0.01


def unpermuted(x, heads):
    """Rows of q and k as transformers has them, of those in a file of llama.cpp's."""
    return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(
        1, 2).reshape(x.shape)


def base(name):
    """The model with the weights of the file, dequantised."""
    folder = HERE / "pretrained" / name.removesuffix(".gguf")
    model = hf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if not name.endswith(".gguf"):
        return model
    config = model.config
    arch = folder.name
    names = gguf.get_tensor_name_map(
        {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], config.num_hidden_layers)
    tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
               for t in gguf.GGUFReader(HERE / "pretrained" / name).tensors}
    weights = {}
    for ours in model.state_dict():
        if ours == "lm_head.weight" and config.tie_word_embeddings:
            continue
        x = tensors[names.get_name(ours, try_suffixes=(".weight", ".bias"))]
        heads = {"q_proj": config.num_attention_heads,
                 "k_proj": config.num_key_value_heads}.get(ours.split(".")[-2])
        if arch == "llama" and heads is not None:
            x = unpermuted(x, heads)
        weights[ours] = torch.from_numpy(np.ascontiguousarray(x))
    model.load_state_dict(weights, strict=False)
    model.tie_weights()
    return model


def adapted(name, seed):
    model = peft.get_peft_model(base(name), peft.LoraConfig(
        r=4, lora_alpha=6, lora_dropout=0.0, target_modules=TARGETS[name],
        task_type="CAUSAL_LM", fan_in_fan_out=name == "gpt2"))
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if "lora_" in key:
                p.copy_((torch.randn(p.shape, generator=random) * 0.1).half().float())
    return model


def save(model, name):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = name
    config.pop("peft_version", None)
    config["target_modules"] = sorted(config["target_modules"])
    path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def main():
    OUT.mkdir(exist_ok=True)
    tokens = torch.tensor([TOKENS[:-1]])
    targets = torch.tensor([TOKENS[1:]])
    with open(OUT / "training.csv", "w", encoding="ascii") as out:
        def write(name, what, numbers):
            out.write(f"{name},{what},{','.join(f'{v:.9g}' for v in numbers)}\n")

        for seed, name in enumerate(TARGETS):
            model = adapted(name, seed)
            save(model, name)
            model = model.double()
            trained = {k: p for k, p in model.named_parameters() if p.requires_grad}
            optimizer = torch.optim.AdamW(trained.values(), lr=RATE, weight_decay=0.0)
            losses = []
            write(name, "logits before", model(tokens).logits[0, -1].tolist())
            for _ in range(STEPS):
                loss = torch.nn.functional.cross_entropy(
                    model(tokens).logits[0], targets[0])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            write(name, "losses", losses)
            write(name, "logits after", model(tokens).logits[0, -1].tolist())
            for key, p in trained.items():
                short = key.removeprefix("base_model.model.").removeprefix(
                    "transformer.").replace(".default", "")
                write(name, short, p.detach().flatten().tolist())


if __name__ == "__main__":
    main()
