#!/usr/bin/env python3
"""DoRA and PiSSA by PEFT beside the tiny models of make_pretrained_goldens.py: the adapters
of DoRA that are trained, PiSSA's as PEFT converts them for the original base, and losses,
params and logits of three steps of AdamW, in double precision.

    python3 tests/goldens/make_adapter_goldens.py    # writes tests/goldens/adapters/
"""
import pathlib
import shutil
import tempfile

import peft
import torch

from make_peft_goldens import TARGETS, TOKENS, base, save
import make_peft_goldens

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "adapters"
STEPS, RATE, RANK = 3, 0.01, 4
# What the run is called: model, what the adapter is beside its rank.
CASES = {
    "dora-llama": ("llama.gguf", {"use_dora": True, "lora_alpha": 6}),
    "dora-gpt2": ("gpt2", {"use_dora": True, "lora_alpha": 3, "use_rslora": True}),
    "pissa-llama": ("llama", {"init_lora_weights": "pissa", "lora_alpha": 6}),
    "pissa-gpt2": ("gpt2", {"init_lora_weights": "pissa", "lora_alpha": 3,
                            "use_rslora": True}),
}


def adapted(name, options):
    return peft.get_peft_model(base(name), peft.LoraConfig(
        r=RANK, lora_dropout=0.0, target_modules=TARGETS.get(name, TARGETS["llama.gguf"]),
        task_type="CAUSAL_LM", fan_in_fan_out=name == "gpt2", **options))


def randomize(model, seed):
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=random) * 0.1
            if "magnitude" in key:
                p.mul_(1 + noise)
            elif "lora_" in key:
                p.copy_(noise)


def logits(model, tokens):
    return model(tokens).logits[0, -1].tolist()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    make_peft_goldens.OUT = OUT
    tokens = torch.tensor([TOKENS[:-1]])
    targets = torch.tensor([TOKENS[1:]])
    with open(OUT / "training.csv", "w", encoding="ascii") as out:
        def write(case, what, numbers):
            out.write(f"{case},{what},{','.join(f'{v:.9g}' for v in numbers)}\n")

        for seed, (case, (name, options)) in enumerate(CASES.items()):
            model = adapted(name, options)
            is_dora = options.get("use_dora", False)
            with tempfile.TemporaryDirectory() as start:
                if is_dora:
                    randomize(model, seed)
                    save(model, case)
                else:
                    model.save_pretrained(start)
                model = model.double()
                trained = {k: p for k, p in model.named_parameters() if p.requires_grad}
                optimizer = torch.optim.AdamW(trained.values(), lr=RATE, weight_decay=0.0)
                write(case, "logits before", logits(model, tokens))
                losses = []
                for _ in range(STEPS):
                    loss = torch.nn.functional.cross_entropy(
                        model(tokens).logits[0], targets[0])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                write(case, "losses", losses)
                if is_dora:
                    for key, p in trained.items():
                        short = key.removeprefix("base_model.model.").removeprefix(
                            "transformer.").replace(".default", "")
                        short = short.replace("magnitude_vector.weight", "magnitude_vector")
                        write(case, short, p.detach().flatten().tolist())
                else:
                    convert(model.float(), case, start)
                    model = model.double()
            write(case, "logits after", logits(model.merge_and_unload(), tokens))


def convert(model, case, start):
    """Saves it as LoRA of twice the rank beside the original base."""
    whole = model.save_pretrained
    model.save_pretrained = lambda folder: whole(
        folder, path_initial_model_for_weight_conversion=start)
    save(model, case)


if __name__ == "__main__":
    main()
