#!/usr/bin/env python3
"""Times the training step of GPT-2 124M in PyTorch on a GPU.

Batch, length and optimizer are those of the last row of tools/gpu_check.sh,
which runs this beside it; tokens are drawn by lot, as there. Needs PyTorch with
CUDA and nothing else:

    python3 bench/pytorch_gpt2.py --dtype autocast [--compile]

autocast keeps the weights in f32 and computes in bf16; bf16 keeps everything in
bf16, the optimizer's moments too, so it holds less than Stowage does, which keeps
f32 weights and moments. Times are medians of CUDA events after a warm-up. Memory
is what PyTorch's allocator held at most, beside what the context takes.
"""

import argparse
import contextlib
import json
import math
import statistics
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytorch_gpt_nano import Block

LAYERS, HEADS, WIDTH, POSITIONS = 12, 12, 768, 1024
ATTENTION = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


class Gpt2(nn.Module):
    """The 124 million variant, its output projection tied to the embedding."""

    def __init__(self, vocabulary):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, WIDTH)
        self.wpe = nn.Embedding(POSITIONS, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for name, param in self.named_parameters():
            if param.dim() == 2:
                scale = 0.02
                if name.endswith("proj.weight"):
                    scale /= math.sqrt(2 * LAYERS)
                nn.init.normal_(param, std=scale)
            elif name.endswith("bias"):
                nn.init.zeros_(param)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(args):
    """Runs the steps; returns what was measured."""
    device = torch.device("cuda")
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    free, total = torch.cuda.mem_get_info()
    model = Gpt2(args.vocabulary).to(device)
    autocast = contextlib.nullcontext()
    if args.dtype == "bf16":
        model = model.to(torch.bfloat16)
    else:
        autocast = torch.autocast("cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=1e-3,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        fused=True,
    )
    step_model = torch.compile(model) if args.compile else model
    batches = torch.randint(
        args.vocabulary, (8, 2, args.batch, args.seq), device=device
    )

    def step(k):
        tokens, targets = batches[k % len(batches)]
        with autocast:
            loss = step_model(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    first_loss = step(0).item()
    for k in range(1, args.warmup):
        step(k)
    torch.cuda.synchronize()
    marks = [
        torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)
    ]
    marks[0].record()
    for k in range(args.steps):
        loss = step(k)
        marks[k + 1].record()
    torch.cuda.synchronize()
    seconds = [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])]
    median = statistics.median(seconds)
    return {
        "params": sum(p.numel() for p in model.parameters()),
        "median_step_seconds": median,
        "fastest_step_seconds": min(seconds),
        "tokens_per_second": args.batch * args.seq / median,
        "max_memory_allocated_bytes": torch.cuda.max_memory_allocated(),
        "max_memory_reserved_bytes": torch.cuda.max_memory_reserved(),
        "device_bytes_taken_before": total - free,
        "first_loss": first_loss,
        "last_loss": loss.item(),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument(
        "--vocabulary",
        type=int,
        default=50257,
        help="rows of the embedding; 50304 suits tensor cores better",
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument(
        "--dtype", choices=["autocast", "bf16"], default="autocast"
    )
    parser.add_argument(
        "--attention",
        choices=["default", *ATTENTION],
        default="default",
        help="which of PyTorch's kernels computes attention",
    )
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("pytorch_gpt2: PyTorch finds no GPU", file=sys.stderr)
        sys.exit(3)

    result = {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "compiled": args.compile,
        "dtype": args.dtype,
        "attention": args.attention,
        "batch": args.batch,
        "seq": args.seq,
        "vocabulary": args.vocabulary,
        "steps": args.steps,
    }
    attention = contextlib.nullcontext()
    if args.attention != "default":
        attention = sdpa_kernel(ATTENTION[args.attention])
    try:
        with attention:
            result.update(train(args))
    except torch.cuda.OutOfMemoryError as error:
        print(f"pytorch_gpt2: {error}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
