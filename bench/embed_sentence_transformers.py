#!/usr/bin/env python3
"""Compares `stowage finetune --objective embed` with sentence-transformers.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install sentence-transformers
    /tmp/venv/bin/python bench/embed_sentence_transformers.py bazel-bin/tools/stowage [--large]

Pairs are adjacent sentences of the novel in examples/data. Each tiny model of
tests/goldens/embeddings is trained and saved by stowage, with all weights and with adapters, and
the saved folder is loaded by sentence-transformers, which evaluates the validation set: the
largest differences of loss, recall at 1 and mean reciprocal rank are printed. Ends with 1 where
they differ.

With --large, trains an encoder of MiniLM's size (6 layers, width 384, a vocabulary of 30,522)
from random weights: prints the arenas of batches of 32 and 1,024, and takes two steps of the
latter with a budget that is the arena of the former and the gradients.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import sentence_transformers as st
import tokenizers
import torch
import transformers as hf
from sentence_transformers import models

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests/goldens/embeddings"
SCALE = 20


def write_pairs(path, most):
    text = (ROOT / "examples/data/pride_and_prejudice.txt").read_text(encoding="utf-8")
    sentences = [" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s", text)]
    sentences = [s for s in sentences if 20 < len(s) < 120][:2 * most]
    pairs = [dict(anchor=a, positive=b) for a, b in zip(sentences[::2], sentences[1::2])]
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return pairs


def run(stowage, *words):
    done = subprocess.run([stowage, "finetune", "--objective", "embed", "--device", "cpu",
                           "--json", *map(str, words)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def evaluate(folder, pairs, batch):
    """Loss, recall at 1 and mean reciprocal rank of every tenth pair by sentence-transformers."""
    model = st.SentenceTransformer(str(folder), device="cpu")
    similarity = st.util.dot_score if model.similarity_fn_name == "dot" else st.util.cos_sim
    pairs = pairs[9::10]
    queries = model.encode_query([p["anchor"] for p in pairs], convert_to_tensor=True)
    documents = model.encode_document([p["positive"] for p in pairs], convert_to_tensor=True)
    scores = similarity(queries.double(), documents.double())
    ranks = (scores >= scores.diagonal()[:, None]).sum(1).double()
    losses = []
    for first in range(0, len(pairs), batch):
        group = scores[first:first + batch, first:first + batch]
        losses.append(torch.nn.functional.cross_entropy(
            SCALE * group, torch.arange(len(group)), reduction="sum").item())
    return [sum(losses) / len(pairs), (ranks == 1).double().mean().item(),
            (1 / ranks).mean().item()]


def saved_models(stowage, folder):
    """Whether saved folders are the same in sentence-transformers."""
    pairs = write_pairs(folder / "few.jsonl", 300)
    same = True
    for name in "bert", "roberta", "qwen3":
        for kind in ["--full"], ["--lora-rank", "4"]:
            out = folder / f"{name}{kind[0]}"
            done = run(stowage, "--weights", MODELS / name, "--data", folder / "few.jsonl",
                       "--seq", 14, "--batch", 16, "--steps", 30, "--lr", "1e-4", *kind,
                       "--save-merged", out)[-1]
            theirs = evaluate(out, pairs, 16)
            ours = [done["validation_loss"], done["accuracy"], done["mrr"]]
            differences = [abs(a - b) for a, b in zip(ours, theirs)]
            print(f"{name:8} {kind[0]:12} loss {ours[0]:.6f}, differences of loss "
                  f"{differences[0]:.1e}, recall {differences[1]:.1e}, reciprocal rank "
                  f"{differences[2]:.1e}", flush=True)
            same &= differences[0] < 1e-5 * max(1, ours[0]) and max(differences[1:]) < 1e-9
    return same


def mini_lm(folder):
    """A folder of sentence-transformers of MiniLM's size, with random weights."""
    parts, text = folder / "parts", str(ROOT / "examples/data/pride_and_prejudice.txt")
    torch.manual_seed(1)
    hf.BertModel(hf.BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0)).save_pretrained(parts)
    tokenizer = tokenizers.BertWordPieceTokenizer()
    tokenizer.train([text], vocab_size=30522, min_frequency=1, show_progress=False)
    hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer._tokenizer, pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]").save_pretrained(parts)
    model = st.SentenceTransformer(modules=[
        models.Transformer(str(parts)), models.Pooling(384), models.Normalize()], device="cpu")
    model.save_pretrained(str(folder / "mini"), create_model_card=False)
    return folder / "mini"


def large_batch(stowage, folder):
    model = mini_lm(folder)
    write_pairs(folder / "all.jsonl", 10000)
    common = ["--weights", model, "--data", folder / "all.jsonl", "--seq", 32, "--full",
              "--steps", 2, "--held-out-batches", 1, "--threads", 2]
    small = run(stowage, *common, "--batch", 32, "--dry-run")[-1]["arena_bytes"]
    whole = run(stowage, *common, "--batch", 1024, "--dry-run", "--fit", "none")[-1]
    budget = small + 4 * sum(p.numel() for p in st.SentenceTransformer(
        str(model), device="cpu").parameters())
    steps = run(stowage, *common, "--batch", 1024, "--budget", budget)
    done = steps[-1]
    print(f"batch 32: {small / 1e6:.0f} MB; batch 1024: {whole['arena_bytes'] / 1e6:.0f} MB; "
          f"with a budget of {budget / 1e6:.0f} MB: {done['arena_bytes'] / 1e6:.0f} MB, "
          f"peak of the process {done['peak_rss_bytes'] / 1e6:.0f} MB; losses "
          + ", ".join(f"{line['loss']:.4f}" for line in steps if "loss" in line))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("stowage")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if options.large:
            large_batch(options.stowage, pathlib.Path(place))
        elif not saved_models(options.stowage, pathlib.Path(place)):
            sys.exit(1)
