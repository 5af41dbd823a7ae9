#!/usr/bin/env python3
"""Times the training step of gpt-nano in PyTorch on the CPU.

The model, the data, the optimizer and the schedule are those of

    stowage train --model gpt-nano --data examples/data/pride_and_prejudice.txt

so that step time, peak memory and the loss curve can be set beside its report.
Needs PyTorch and nothing else:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python bench/pytorch_gpt_nano.py --threads 2 [--compile]

Peak memory is the process's largest resident set; what importing PyTorch alone
takes is printed beside it. Times are medians after a warm-up.
"""

import argparse
import json
import math
import pathlib
import resource
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 96  # newline and the printable ASCII characters
POSITIONS = 256  # rows of the position embedding
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Block(nn.Module):
    """A pre-norm transformer block as in GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.c_fc = nn.Linear(width, 4 * width)
        self.mlp_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        h = F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_proj(h)


class Gpt(nn.Module):
    """GPT-2's decoder, the output projection tied to the token embedding."""

    def __init__(self, layers, heads, width):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Embedding(POSITIONS, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for name, param in self.named_parameters():
            if param.dim() == 2:
                scale = 0.02
                if name.endswith("proj.weight"):
                    scale /= math.sqrt(2 * layers)
                nn.init.normal_(param, std=scale)
            elif name.endswith("bias"):
                nn.init.zeros_(param)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def load_tokens(path):
    """Newline is 0, printable ASCII follows, anything else is '?'."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    codes = [
        0 if c == "\n" else ord(c) - 31 if " " <= c <= "~" else ord("?") - 31
        for c in text
    ]
    return torch.tensor(codes)


def learning_rate(step, args):
    """Linear warm-up, then a cosine down to a tenth. `step` counts from 1."""
    if step <= args.warmup:
        return args.lr * step / args.warmup
    done = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))


def validation_loss(model, tokens, seq, batch):
    """Over the whole held-out text, in windows side by side."""
    count = (len(tokens) - 1) // seq
    x = tokens[: count * seq].view(count, seq)
    y = tokens[1 : count * seq + 1].view(count, seq)
    with torch.no_grad():
        total = sum(
            model(x[i : i + batch], y[i : i + batch]).item()
            * len(x[i : i + batch])
            for i in range(0, count, batch)
        )
    return total / count


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data", default=ROOT / "examples/data/pride_and_prejudice.txt"
    )
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=100)
    parser.add_argument("--beta2", type=float, default=0.99)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--eval-every", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    import_rss = peak_rss_bytes()
    tokens = load_tokens(args.data)
    held_out = len(tokens) // 10
    train, held = tokens[: len(tokens) - held_out], tokens[-held_out:]
    model = Gpt(args.layers, args.heads, args.width)
    optimizer = torch.optim.AdamW(
        model.parameters(), betas=(0.9, args.beta2), weight_decay=args.decay
    )
    step_model = torch.compile(model) if args.compile else model

    seconds = []
    began = time.perf_counter()
    for step in range(1, args.steps + 1):
        starts = torch.randint(len(train) - args.seq, (args.batch,))
        x = torch.stack([train[s : s + args.seq] for s in starts])
        y = torch.stack([train[s + 1 : s + args.seq + 1] for s in starts])
        step_began = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)
        loss = step_model(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - step_began)
        if args.eval_every and step % args.eval_every == 0:
            held_loss = validation_loss(model, held, args.seq, 64)
            print(
                f"step {step} loss {loss.item():.4f} held-out {held_loss:.4f} "
                f"after {time.perf_counter() - began:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    training_rss = peak_rss_bytes()
    steady = seconds[min(10, len(seconds) // 2) :]
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "compiled": args.compile,
                "threads": args.threads,
                "params": sum(p.numel() for p in model.parameters()),
                "batch": args.batch,
                "seq": args.seq,
                "steps": args.steps,
                "median_step_seconds": statistics.median(steady),
                "fastest_step_seconds": min(steady),
                "steps_seconds": sum(seconds),
                "peak_rss_bytes": training_rss,
                "import_rss_bytes": import_rss,
                "validation_loss": validation_loss(model, held, args.seq, 64),
            }
        )
    )


if __name__ == "__main__":
    main()
