#!/usr/bin/env python3
"""Writes what tests/nn/pytorch_weights_test.cc compares with.

Builds gpt-nano as a PyTorch module of the usual layers (Linear keeps its weights as
(out, in), names begin with "transformer.", the head is a tensor of its own), with
the params of make_goldens.py in f32, saves it by safetensors, and trains it for
five steps.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch safetensors numpy
    /tmp/venv/bin/python tests/goldens/make_weights_goldens.py

The file has 3.4 MB, all of which but its header follows a formula, so that only the
header is kept here: gpt_nano_torch.header. The test makes the file from it anew and
compares its digest. Rows of gpt_nano_torch.csv are kind,index,value:
    bytes,0,v       of the whole file
    fnv1a64,0,v     its digest, FNV-1a of 64 bits, as 16 hexadecimal digits
    loss,STEP,v     loss of step 1..5, before its update
"""

import pathlib
import struct
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import make_goldens as goldens

HERE = pathlib.Path(__file__).resolve().parent
SIZES = goldens.GptNano


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_attn = nn.Linear(c, 3 * c)
        self.c_proj = nn.Linear(c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, SIZES.heads, c // SIZES.heads).transpose(1, 2)
            for part in self.c_attn(x).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_fc = nn.Linear(c, 4 * c)
        self.c_proj = nn.Linear(4 * c, c)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(c), Attention(c)
        self.ln_2, self.mlp = nn.LayerNorm(c), Mlp(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        c = SIZES.width
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(SIZES.vocabulary, c),
                "wpe": nn.Embedding(SIZES.max_seq, c),
                "h": nn.ModuleList(Block(c) for _ in range(SIZES.layers)),
                "ln_f": nn.LayerNorm(c),
            }
        )
        self.lm_head = nn.Linear(c, SIZES.vocabulary, bias=False)
        self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, tokens):
        t = self.transformer
        x = t["wte"](tokens) + t["wpe"].weight[: tokens.shape[1]]
        for block in t["h"]:
            x = block(x)
        return self.lm_head(t["ln_f"](x))


def load_formula(model):
    """The params of make_goldens.py, which keeps weights as (in, out)."""
    values = goldens.GptNano().params
    with torch.no_grad():
        for name, p in model.named_parameters():
            ours = name.removeprefix("transformer.")
            embedding = ours.startswith(("wte", "wpe"))
            value = values[ours.removesuffix(".weight") if embedding else ours]
            if p.dim() == 2 and not embedding:
                value = value.t()
            assert p.shape == value.shape, name
            p.copy_(value)


def fnv1a(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & goldens.MASK
    return h


def main():
    model = Gpt()
    load_formula(model)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.safetensors"
        tensors = {n: p.contiguous().clone() for n, p in model.state_dict().items()}
        save_file(tensors, path, metadata={"format": "pt"})
        data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    (HERE / "gpt_nano_torch.header").write_bytes(data[: 8 + length])
    rows = [("bytes", 0, len(data)), ("fnv1a64", 0, f"{fnv1a(data):016x}")]

    optimizer = goldens.adamw(model.parameters())
    shape = (SIZES.batch, SIZES.seq)
    for step in range(1, goldens.STEPS + 1):
        tokens = goldens.integers(f"tokens:{step}", SIZES.vocabulary, *shape)
        targets = goldens.integers(f"targets:{step}", SIZES.vocabulary, *shape)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        rows.append(("loss", step, loss.item()))
    with open(HERE / "gpt_nano_torch.csv", "w", encoding="ascii") as out:
        out.write("kind,index,value\n")
        out.writelines(f"{kind},{index},{value}\n" for kind, index, value in rows)


if __name__ == "__main__":
    main()
