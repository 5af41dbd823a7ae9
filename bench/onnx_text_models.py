#!/usr/bin/env python3
"""Language models of transformers by torch's ONNX exporters, beside the same modules through
stowage.from_torch: the arena of a step, how far losses are from torch's, and what the import has
found.

    pip install torch transformers onnx onnxscript
    bench/onnx_text_models.py                 # two layers of width 64, 4 x 512
    bench/onnx_text_models.py gpt2-124m       # 124M params, 4 x 1024: the plan alone

A row of Markdown for each model, way of attention and exporter: the arena in bytes with AdamW by
the file and by the module, and the worst of three losses of SGD beside torch's in f64. The modules
are exported in eval mode, with random weights that all differ, since exporters make one tensor of
equal ones.
"""

import contextlib
import copy
import logging
import os
import sys
import tempfile
import warnings

import torch
import transformers
from torch import nn
from torch.nn import functional as F

import stowage

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

BATCH, LENGTH, WORDS = 4, 512, 1000
SMALL = dict(vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
MODELS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config",
             dict(vocab_size=WORDS, n_embd=64, n_layer=2, n_head=4, use_cache=False)),
    "llama": ("LlamaForCausalLM", "LlamaConfig",
              dict(**SMALL, intermediate_size=128, num_key_value_heads=2, use_cache=False)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config",
              dict(**SMALL, intermediate_size=128, num_key_value_heads=2, head_dim=16,
                   use_cache=False)),
    "bert": ("BertForMaskedLM", "BertConfig", dict(**SMALL, intermediate_size=128)),
    "roberta": ("RobertaForMaskedLM", "RobertaConfig",
                dict(**SMALL, intermediate_size=128, max_position_embeddings=514)),
}
EXPORTERS = {"dynamo": dict(dynamo=True, verbose=False), "script": dict(dynamo=False)}


class Logits(nn.Module):
    """A model that gives its logits alone."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, ids):
        return self.net(ids).logits


def made(name, attention, **more):
    kind, config, options = MODELS[name]
    torch.manual_seed(0)
    net = Logits(getattr(transformers, kind)(getattr(transformers, config)(
        **{**options, **more}, attn_implementation=attention))).eval()
    with torch.no_grad():
        for param in net.parameters():
            param.add_(torch.randn_like(param) * 1e-3)
    return net


@contextlib.contextmanager
def silence():
    """Exporters print what they do."""
    with open(os.devnull, "w", encoding="utf-8") as nothing:
        kept = os.dup(1), os.dup(2)
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
        try:
            yield
        finally:
            for stream, old in zip((1, 2), kept):
                os.dup2(old, stream)
                os.close(old)


def exported(net, ids, path, exporter):
    with silence():
        torch.onnx.export(net, (ids,), path, input_names=["ids"], output_names=["logits"],
                          **EXPORTERS[exporter])
    return path


def worst_loss(net, ids, path):
    labels = torch.randint(0, WORDS, ids.shape)
    theirs = copy.deepcopy(net).double()
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    worst = 0.0
    with stowage.Trainer(path, optimizer="sgd", lr=0.1, device="cpu") as trainer:
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(theirs(ids).reshape(-1, WORDS), labels.reshape(-1))
            loss.backward()
            optimizer.step()
            worst = max(worst, abs(trainer.step(ids, labels) - loss.item()) / loss.item())
    return worst


def arena(model):
    return stowage.plan(model, optimizer="adamw", device="cpu").arena_bytes


def small(folder):
    print("| model | attention | exporter | arena of the file | of the module | losses |")
    print("|---|---|---|---|---|---|")
    for name in MODELS:
        for attention in ("sdpa", "eager"):
            net = made(name, attention)
            ids = torch.randint(2, WORDS, (BATCH, LENGTH))
            module = arena(stowage.from_torch(net, ids))
            for exporter in EXPORTERS:
                row = f"| {name} | {attention} | {exporter} |"
                try:
                    path = exported(net, ids, os.path.join(folder, "net.onnx"), exporter)
                except Exception as error:  # of many kinds, by what torch cannot export
                    print(f"{row} {type(error).__name__} of torch's | {module:,} | |", flush=True)
                    continue
                print(f"{row} {arena(path):,} | {module:,} | {worst_loss(net, ids, path):.0e} |",
                      flush=True)


def large(folder):
    net = made("gpt2", "sdpa", vocab_size=50257, n_embd=768, n_layer=12, n_head=12)
    ids = torch.randint(0, 50257, (4, 1024))
    path = exported(net, ids, os.path.join(folder, "gpt2.onnx"), "dynamo")
    own = stowage.plan("gpt2-124m", batch=4, seq=1024, optimizer="adamw", device="cpu")
    file = stowage.plan(path, optimizer="adamw", device="cpu")
    print(f"gpt2-124m {own.arena_bytes:,}; the file {file.arena_bytes:,}")
    for share in (0.6, 0.45):
        costs = []
        for model, more in (("gpt2-124m", dict(batch=4, seq=1024)), (path, {})):
            try:
                plan = stowage.plan(model, budget=int(own.arena_bytes * share), optimizer="adamw",
                                    optimizations={"recompute": "auto"}, device="cpu", **more)
                costs.append(f"{plan.extra_percent:.2f} % more operations")
            except stowage.BudgetTooSmall:
                costs.append("refused")
        print(f"at {share:.0%} of it: gpt2-124m {costs[0]}; the file {costs[1]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        (large if sys.argv[1:] == ["gpt2-124m"] else small)(work)
