#!/usr/bin/env python3
"""Memory of a classification step of bert-base: Stowage's plan beside PyTorch's peak.

    /tmp/venv/bin/pip install torch transformers safetensors tokenizers
    /tmp/venv/bin/python bench/classify_memory.py bazel-bin/tools/stowage

bert-base has 110 million params, here random ones; all are trained by AdamW in f32, batch 32 of
128 tokens. Stowage plans with the dropouts of the config, and with --attention-dropout 0; the
seconds are those of the whole command with --dry-run: reading files, planning, and where a step
takes less than 20 s, up to 20 of them. PyTorch's step
runs on fake tensors on a CPU, and torch.distributed's MemTracker gives its peak: params, gradients,
optimizer states and activations, as tensors take them, without the allocator's fragmentation.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

import tokenizers
import torch
import transformers as hf
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

BATCH, SEQ = 32, 128


def write_model(folder):
    torch.manual_seed(0)
    hf.BertForSequenceClassification(hf.BertConfig()).save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "word"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(
        {word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "tokenizer.json"))


def ours(stowage, folder, *more):
    start = time.perf_counter()
    done = subprocess.run(
        [stowage, "finetune", "--objective", "classify", "--weights", folder, "--data",
         folder / "rows.csv", "--full", "--batch", str(BATCH), "--seq", str(SEQ), "--device", "cpu",
         "--no-plan-cache", "--dry-run", "--json", *more],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    plan = json.loads(done.stdout.splitlines()[-1])
    return plan, time.perf_counter() - start


def theirs(attention, dropout):
    with FakeTensorMode():
        config = hf.BertConfig(attention_probs_dropout_prob=dropout)
        config._attn_implementation = attention
        model = hf.BertForSequenceClassification(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            for step in range(2):
                if step:
                    tracker.reset_mod_stats()
                ids = torch.ones(BATCH, SEQ, dtype=torch.long)
                model(input_ids=ids, attention_mask=ids,
                      labels=torch.zeros(BATCH, dtype=torch.long)).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    return max(parts["Total"] for parts in tracker.get_tracker_snapshot("peak").values())


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_model(folder)
        (folder / "rows.csv").write_text("text,label\n" + "".join(
            f"word word,{i % 2}\n" for i in range(400)))
        for what, more in ("config's dropouts", []), ("attention 0", ["--attention-dropout", "0"]):
            plan, seconds = ours(sys.argv[1], folder, *more)
            print(f"stowage, {what}: arena {plan['arena_bytes'] / 1e9:.3f} GB, smallest budget "
                  f"{plan['minimum_budget_bytes'] / 1e9:.3f} GB; the command took {seconds:.1f} s, "
                  f"a step takes {plan['predicted_step_seconds']:.1f} s "
                  f"(by {plan['predicted_by']})")
    for what, attention, dropout in (("eager, config's dropouts", "eager", 0.1),
                                     ("sdpa, attention 0", "sdpa", 0.0)):
        print(f"PyTorch, {what}: peak {theirs(attention, dropout) / 1e9:.3f} GB")


if __name__ == "__main__":
    main()
