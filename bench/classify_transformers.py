#!/usr/bin/env python3
"""Compares `stowage finetune --objective classify` with transformers and PEFT.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers peft safetensors tokenizers
    /tmp/venv/bin/python bench/classify_transformers.py bazel-bin/tools/stowage

Makes texts of the novel in examples/data that a narrator or a speaker says, trains each tiny
encoder of tests/goldens/encoders by both programs, and prints: the largest difference of the
losses of three AdamW steps from transformers in double, and what transformers and PEFT make of
the models and adapters that stowage has saved, beside its own validation loss and accuracy. Then
trains a BERT of 4 layers from random weights on all such paragraphs, with a vocabulary of the
novel. Ends with 1 where programs differ, or where the accuracy does not rise by a tenth.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import peft
import tokenizers
import torch
import transformers as hf

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENCODERS = ROOT / "tests/goldens/encoders"
SEQ, BATCH, STEPS, RATE = 14, 8, 3, 1e-3


def novel(path, most):
    """Paragraphs of the novel: label "speech" where one begins with a quote, else "narration"."""
    text = (ROOT / "examples/data/pride_and_prejudice.txt").read_text(encoding="utf-8")
    rows = []
    for paragraph in text.split("\n\n"):
        words = " ".join(paragraph.split())
        is_speech = words[:1] in "\"\u201c"
        words = words.strip("\"\u201c\u201d_")
        if len(words) > 40:
            rows.append((words[:300], "speech" if is_speech else "narration"))
    with open(path, "w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("text", "label"), *rows[:most]])
    return rows[:most]


def run(stowage, *words, seq=SEQ, batch=BATCH):
    done = subprocess.run([stowage, "finetune", "--objective", "classify", "--device", "cpu",
                           "--seq", str(seq), "--batch", str(batch), "--json", *map(str, words)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["loss"] for line in lines if "loss" in line], lines[-1]


def learns_novel(stowage, folder):
    """Whether a small BERT learns which paragraphs begin with speech."""
    rows = novel(folder / "all.csv", None)
    source = folder / "small"
    torch.manual_seed(1)
    hf.BertModel(hf.BertConfig(vocab_size=4000, hidden_size=128, num_hidden_layers=4,
                               num_attention_heads=4, intermediate_size=512,
                               max_position_embeddings=64)).save_pretrained(source)
    tokenizer = tokenizers.BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator([text for text, _ in rows], vocab_size=4000)
    tokenizer.post_processor = tokenizers.processors.BertProcessing(
        ("[SEP]", tokenizer.token_to_id("[SEP]")), ("[CLS]", tokenizer.token_to_id("[CLS]")))
    tokenizer.save(str(source / "tokenizer.json"))
    _, done = run(stowage, "--weights", source, "--data", folder / "all.csv", "--full", "--lr",
                  5e-4, "--epochs", 4, "--held-out-batches", 100, seq=64, batch=32)
    most = max(sum(label == each for _, label in rows[9::10]) for each in ("speech", "narration"))
    print(f"a BERT of 4 layers, {len(rows)} paragraphs: validation loss "
          f"{done['base_validation_loss']:.4f} -> {done['validation_loss']:.4f}, accuracy "
          f"{done['accuracy']:.3f}, macro F1 {done['f1_macro']:.3f}; the commoner label is "
          f"{most / len(rows[9::10]):.3f}")
    return done["accuracy"] > most / len(rows[9::10]) + 0.1


def inputs(tokenizer, rows, labels):
    texts = tokenizer([text for text, _ in rows], truncation=True, max_length=SEQ, padding=True,
                      return_tensors="pt")
    if "token_type_ids" in texts and "roberta" in str(tokenizer.name_or_path):
        texts.pop("token_type_ids")
    return dict(texts, labels=torch.tensor([labels.index(label) for _, label in rows]))


def judge(model, tokenizer, rows, labels):
    with torch.no_grad():
        batch = inputs(tokenizer, rows, labels)
        result = model.eval()(**batch)
    right = (result.logits.argmax(-1) == batch["labels"]).double().mean()
    return result.loss.item(), right.item()


def main():
    stowage = sys.argv[1]
    labels, good = ["narration", "speech"], True

    def check(what, difference, most):
        nonlocal good
        good = good and difference < most
        print(f"{what}: {difference:.2e}{'' if difference < most else '  TOO LARGE'}")

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        rows = novel(folder / "rows.csv", 200)
        held_out = rows[9::10]
        few = rows[:BATCH + 1]  # a batch, and one that is held out
        with open(folder / "few.csv", "w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([("text", "label"), *few])
        for name in "bert-base", "roberta-base":
            source = folder / name
            source.mkdir()
            for file in [*(ENCODERS / name).iterdir(),
                         *(ENCODERS / name.removesuffix("-base")).glob("tokenizer*")]:
                (source / file.name).write_bytes(file.read_bytes())
            none = ["--hidden-dropout", 0, "--attention-dropout", 0, "--classifier-dropout", 0]
            tokenizer = hf.PreTrainedTokenizerFast.from_pretrained(source)
            for kind in ["--full"], ["--lora-rank", 4]:
                what = f"{name} {kind[0]}"
                saved, adapter = folder / f"{name}{kind[0]}", folder / f"{name}-adapter"
                more = [] if kind == ["--full"] else ["--save-adapter", adapter]
                _, done = run(stowage, "--weights", source, "--data", folder / "rows.csv", "--lr",
                              0.005, "--steps", 40, "--save-merged", saved, *kind, *more)
                model = hf.AutoModelForSequenceClassification.from_pretrained(saved)
                assert model.config.id2label == dict(enumerate(labels)), model.config.id2label
                loss, right = judge(model, tokenizer, held_out, labels)
                print(f"{what}: validation loss {done['base_validation_loss']:.4f} -> "
                      f"{done['validation_loss']:.4f}, accuracy {done['accuracy']:.3f}")
                check(f"{what}: loss of the saved model by transformers",
                      abs(loss - done["validation_loss"]), 1e-5)
                check(f"{what}: its accuracy", abs(right - done["accuracy"]), 1e-9)
                if more:
                    base = hf.AutoModelForSequenceClassification.from_pretrained(
                        source, num_labels=2, dtype=torch.float32)
                    loss, _ = judge(peft.PeftModel.from_pretrained(base, adapter), tokenizer,
                                    held_out, labels)
                    check(f"{what}: loss of the adapter by PEFT",
                          abs(loss - done["validation_loss"]), 1e-5)
            # Steps from a model with a head, all weights, the whole data in each batch.
            start = folder / f"{name}--full"
            losses, _ = run(stowage, "--weights", start, "--data", folder / "few.csv", "--full",
                            "--lr", RATE, "--schedule", "constant", "--warmup", 0,
                            "--weight-decay", 0, "--steps", STEPS, *none)
            model = hf.AutoModelForSequenceClassification.from_pretrained(
                start, dtype=torch.float64).eval()
            optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0)
            batch = inputs(tokenizer, few[:BATCH], labels)
            theirs = []
            for _ in range(STEPS):
                loss = model(**batch).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                theirs.append(loss.item())
            check(f"{name}: losses of {STEPS} steps beside transformers in double",
                  max(abs(a - b) for a, b in zip(losses, theirs)), 1e-5)
        good = learns_novel(stowage, folder) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
