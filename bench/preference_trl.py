#!/usr/bin/env python3
"""Preference fine-tuning beside Hugging Face's TRL: losses and the peak of the process.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers peft trl datasets gguf
    bazel build //tools:stowage
    /tmp/venv/bin/python bench/preference_trl.py bazel-bin/tools/stowage MODEL.gguf

MODEL.gguf is of Llama's kind, as SmolLM2-135M-Instruct.Q4_1.gguf. Both take ten steps of SGD
on the same four pairs of the novel's sentences (one more is held out), from the same LoRA
adapter of rank 8, in f32 on two threads; TRL trains the dequantised weights. Stowage's arena
has a budget. Each objective and program is a process of its own, in turn; its peak is the
kernel's (VmHWM), that of TRL with its imports.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
OBJECTIVES = ["dpo", "ipo", "orpo", "simpo", "kto"]
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
STEPS, BATCH, RATE, BUDGET = 10, 4, 0.05, "300MB"


def make_data(folder):
    text = (ROOT / "examples/data/pride_and_prejudice.txt").read_text()
    sentences = [re.sub(r"\s+", " ", s) for s in re.split(r"(?<=[.!?])\s+", text)]
    long = [s for s in sentences if 300 < len(s) < 500 and s.isascii()]
    pairs = [{"prompt": s[:100].rsplit(" ", 1)[0], "chosen": s[len(s[:100].rsplit(" ", 1)[0]):],
              "rejected": " " + t[:200]} for s, t in zip(long[:5], long[5:10])]
    judged = [{"prompt": p["prompt"], "completion": p["chosen" if i % 2 else "rejected"],
               "label": i % 2 == 1} for i, p in enumerate(pairs)]
    for name, lines in (("pairs", pairs), ("judged", judged)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))


def dequantize(weights, folder):
    """Writes the model and its tokenizer as a folder of Hugging Face's, in f32."""
    import torch
    import transformers as hf
    of = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    model = hf.AutoModelForCausalLM.from_pretrained(**of, dtype=torch.float32)
    del model.config.quantization_config
    plain = hf.AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(folder / "f32")
    hf.AutoTokenizer.from_pretrained(**of).save_pretrained(folder / "f32")


def load(folder):
    import torch
    import transformers as hf
    model = hf.AutoModelForCausalLM.from_pretrained(folder / "f32", dtype=torch.float32)
    return model, hf.AutoTokenizer.from_pretrained(folder / "f32")


def lora():
    import peft
    return peft.LoraConfig(r=8, lora_alpha=16, target_modules=TARGETS, lora_dropout=0.0,
                           task_type="CAUSAL_LM")


def make_adapter(folder):
    import peft
    import torch
    torch.manual_seed(1)
    model = peft.get_peft_model(load(folder)[0], lora())
    for name, param in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(param, std=0.01)
    model.save_pretrained(str(folder / "adapter"))


def train_with_trl(objective, folder):
    os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", CUDA_VISIBLE_DEVICES="")
    import datasets
    import peft
    import safetensors.torch
    import torch
    import trl
    from trl.experimental.cpo import CPOConfig, CPOTrainer
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer
    torch.set_num_threads(2)
    trainer, config, more = {
        "dpo": (trl.DPOTrainer, trl.DPOConfig, {"loss_type": ["sigmoid"], "beta": 0.1}),
        "ipo": (trl.DPOTrainer, trl.DPOConfig, {"loss_type": ["ipo"], "beta": 0.1}),
        "orpo": (ORPOTrainer, ORPOConfig, {"beta": 0.1}),
        "simpo": (CPOTrainer, CPOConfig, {"loss_type": "simpo", "beta": 2.0, "simpo_gamma": 0.5,
                                          "cpo_alpha": 0.0}),
        "kto": (trl.KTOTrainer, trl.KTOConfig, {"beta": 0.1}),
    }[objective]
    losses = []

    class Recorded(trainer):
        def compute_loss(self, *args, **kwargs):
            out = super().compute_loss(*args, **kwargs)
            losses.append((out[0] if isinstance(out, tuple) else out).item())
            return out

        def _get_train_sampler(self, *args, **kwargs):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    data = folder / ("judged.jsonl" if objective == "kto" else "pairs.jsonl")
    rows = [json.loads(line) for line in data.read_text().splitlines()][:BATCH]
    model, tokenizer = load(folder)
    tokenizer.bos_token = None  # which ORPOTrainer would put before texts, unlike the others
    run = Recorded(
        model=model, processing_class=tokenizer, peft_config=lora(),
        train_dataset=datasets.Dataset.from_list(rows),
        args=config(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=BATCH,
                    max_steps=STEPS, learning_rate=RATE, lr_scheduler_type="constant",
                    optim="sgd", weight_decay=0.0, max_grad_norm=0.0, bf16=False,
                    gradient_checkpointing=False, report_to="none", save_strategy="no",
                    use_cpu=True, disable_dropout=True, **more))
    peft.set_peft_model_state_dict(run.model, safetensors.torch.load_file(
        folder / "adapter/adapter_model.safetensors"))
    run.train()
    return losses, f"trl {trl.__version__}, torch {torch.__version__}"


def train_with_stowage(stowage, objective, weights, folder):
    """Losses, and the peak of the process in bytes."""
    data = folder / ("judged.jsonl" if objective == "kto" else "pairs.jsonl")
    words = [stowage, "finetune", "--weights", weights, "--data", data, "--objective", objective,
             "--adapter", folder / "adapter", "--optimizer", "sgd", "--lr", str(RATE),
             "--schedule", "constant", "--batch", str(BATCH), "--seq", "160", "--steps",
             str(STEPS), "--sample", "0", "--device", "cpu", "--threads", "2", "--budget", BUDGET,
             "--json"]
    run = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return [line["loss"] for line in lines if "loss" in line], lines[-1]["peak_rss_bytes"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stowage", type=pathlib.Path)
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("--objectives", nargs="*", choices=OBJECTIVES, default=OBJECTIVES)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--trl", choices=OBJECTIVES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    weights = args.weights.resolve()
    if args.trl:
        losses, versions = train_with_trl(args.trl, args.folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"losses": losses, "peak": peak, "versions": versions}))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder)
        dequantize(weights, folder)
        make_adapter(folder)
        print("| objective | largest difference of ten losses | first, last | process, MB | "
              "TRL, MB | ratio |\n|---|---|---|---|---|---|")
        for objective in args.objectives:
            other = subprocess.run(
                [sys.executable, __file__, args.stowage, weights, "--folder", folder, "--trl",
                 objective], stdout=subprocess.PIPE, text=True, check=True)
            theirs = json.loads(other.stdout.splitlines()[-1])
            losses, peak = train_with_stowage(args.stowage, objective, weights, folder)
            most = max(abs(a - b) for a, b in zip(losses, theirs["losses"], strict=True))
            print(f"| {objective} | {most:.1e} | {losses[0]:.6f}, {losses[-1]:.6f} | "
                  f"{peak / 1e6:.0f} | {theirs['peak'] / 1e6:.0f} | "
                  f"{peak / theirs['peak']:.2f} |", flush=True)
        print(theirs["versions"])


if __name__ == "__main__":
    main()
