#!/usr/bin/env python3
"""Writes what tests/tools/preference_test.cc compares with: preference.json, the losses of
five steps of SGD by DPO, IPO, ORPO, SimPO and KTO, of all weights of one tiny model and of
an adapter beside the quantised weights of another, in double.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers peft safetensors gguf numpy
    /tmp/venv/bin/python tests/goldens/make_preference_goldens.py

"held_out" is the loss of the adapter as it is at first, over examples 5 to 7.

Formulas and means are those of TRL 1.16's DPOTrainer, ORPOTrainer, CPOTrainer and
KTOTrainer: the reference is the model without an adapter, before its first step; ORPO's
further loss is over prompt and answer; KTO compares each prompt with the answer of the
example before it, the first with the last's. All examples but the last are one batch.
"""

import json
import pathlib

import peft
import torch
import torch.nn.functional as F
import transformers as hf

import make_peft_goldens

HERE = pathlib.Path(__file__).resolve().parent
STEPS, RATE, GAMMA = 5, 0.1, 0.5
BETAS = {"dpo": 0.1, "ipo": 0.1, "orpo": 0.1, "simpo": 2.0, "kto": 0.1}
# The tokens of the test's tokenizer: letters, a space, a full stop, "th" and "he".
ALPHABET = [chr(c) for c in [*range(97, 123), *range(65, 91)]] + [" ", ".", "\n", "th", "he"]
SAILORS = ["cook", "mate", "ship", "boy", "crew", "sail", "wind", "sea", "man", "dog", "cat"]


def encode(text):
    ids = []
    while text:
        piece = next(p for p in ("th", "he", text[0]) if text.startswith(p))
        ids.append(ALPHABET.index(piece))
        text = text[len(piece):]
    return ids


def log_probs(model, prompt, answer, end):
    """Of every token behind the first; and how many of them are the answer's."""
    answered = encode(answer) + ([] if end is None else [end])
    tokens = encode(prompt) + answered
    logits = model(torch.tensor([tokens[:-1]])).logits[0].log_softmax(-1)
    of_tokens = logits.gather(-1, torch.tensor(tokens[1:])[:, None])[:, 0]
    return of_tokens, len(answered)


def of_answer(model, prompt, answer, end, mean):
    of_tokens, count = log_probs(model, prompt, answer, end)
    return of_tokens[-count:].mean() if mean else of_tokens[-count:].sum()


def odds(p):
    return p - torch.log1p(-torch.exp(p))


def pair_loss(objective, model, reference, pairs, end):
    beta, mean = BETAS[objective], objective != "dpo"
    losses, nll = [], []
    for pair in pairs:
        p = {k: of_answer(model, pair["prompt"], pair[k], end, mean)
             for k in ("chosen", "rejected")}
        q = {k: reference(pair["prompt"], pair[k], mean) for k in ("chosen", "rejected")}
        h = p["chosen"] - q["chosen"] - p["rejected"] + q["rejected"]
        if objective == "dpo":
            losses.append(-F.logsigmoid(beta * h))
        elif objective == "ipo":
            losses.append((h - 1 / (2 * beta)) ** 2)
        elif objective == "orpo":
            losses.append(-beta * F.logsigmoid(odds(p["chosen"]) - odds(p["rejected"])))
            nll.append(log_probs(model, pair["prompt"], pair["chosen"], end)[0])
        else:
            losses.append(-F.logsigmoid(beta * (p["chosen"] - p["rejected"]) - GAMMA))
    loss = torch.stack(losses).mean()
    return loss - torch.cat(nll).mean() if nll else loss


def judged_loss(model, reference, examples, end):
    above, crossed = [], []
    for i, example in enumerate(examples):
        for answer, differences in ((example["completion"], above),
                                    (examples[i - 1]["completion"], crossed)):
            p = of_answer(model, example["prompt"], answer, end, False)
            differences.append(p - reference(example["prompt"], answer, False))
    k = torch.stack(crossed).mean().clamp(min=0).detach()
    signs = torch.tensor([1.0 if e["label"] else -1.0 for e in examples])
    return torch.sigmoid(-BETAS["kto"] * signs * (torch.stack(above) - k)).mean()


def losses(objective, model, examples, end, steps=STEPS):
    """Of an adapter where the model has one; the reference is that without it."""
    has_adapter = isinstance(model, peft.PeftModel)
    known = {}

    def reference(prompt, answer, mean):
        return known[prompt, answer, mean] if objective in ("dpo", "ipo", "kto") else 0

    if objective in ("dpo", "ipo", "kto"):
        answers = [(e["prompt"], a) for i, e in enumerate(examples)
                   for a in ((e["completion"], examples[i - 1]["completion"])
                             if objective == "kto" else (e["chosen"], e["rejected"]))]
        with torch.no_grad():
            for prompt, answer in answers:
                mean = objective == "ipo"
                if has_adapter:
                    with model.disable_adapter():
                        known[prompt, answer, mean] = of_answer(model, prompt, answer, end, mean)
                else:
                    known[prompt, answer, mean] = of_answer(model, prompt, answer, end, mean)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=RATE)
    told = []
    for _ in range(steps):
        loss = (judged_loss(model, reference, examples, end) if objective == "kto"
                else pair_loss(objective, model, reference, examples, end))
        optimizer.zero_grad()
        loss.backward()
        told.append(loss.item())
        if steps > 1:
            optimizer.step()
    return told


def main():
    torch.set_default_dtype(torch.float64)
    pairs = [{"prompt": f"The {a} ", "chosen": f"sails.{'' if i % 2 else ' So it is'}",
              "rejected": f"{b} no{'w' * (i % 3)}."}
             for i, (a, b) in enumerate(zip(SAILORS, SAILORS[1:] + SAILORS[:1]))]
    judged = [{"prompt": f"A {a} ", "completion": f"{b} reads.{' He' * (i % 2)}",
               "label": i % 3 != 0}
              for i, (a, b) in enumerate(zip(SAILORS, SAILORS[2:] + SAILORS[:2]))]
    golden = {"pairs": pairs, "judged": judged, "rate": RATE}
    for objective in BETAS:
        examples = (judged if objective == "kto" else pairs)[:-1]
        whole = hf.AutoModelForCausalLM.from_pretrained(
            HERE / "pretrained/llama", dtype=torch.float64).train()
        base = make_peft_goldens.base("qwen2.gguf").double()
        adapter = peft.PeftModel.from_pretrained(
            base, HERE / "peft/qwen2.gguf", is_trainable=True).double()
        golden[objective] = {
            "llama": losses(objective, whole, examples, whole.config.eos_token_id),
            "held_out": losses(objective, adapter, examples[5:8], base.config.eos_token_id, 1)[0],
            "qwen2.gguf": losses(objective, adapter, examples, base.config.eos_token_id)}
        print(objective, golden[objective])
    (HERE / "preference.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
