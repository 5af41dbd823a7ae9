#!/usr/bin/env python3
"""Writes tied_embedding.csv: how far PyTorch's bf16 gradient of a tied embedding is from f64's.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_tied_embedding_goldens.py \
        > tests/goldens/tied_embedding.csv

A table of 64 rows of 48 numbers is looked up by 256 tokens, goes through a matrix and a tanh,
and gives the logits, too, as GPT-2's does. Params are numbers of bf16, by formulas that
tests/support/tied_embedding.cc has as well. The rows: the norm of the table's gradient in f64,
by which both know that they compute the same, and the norm of what the gradient in bf16 differs
by, as a part of that. PyTorch 2.15.0 on a CPU made them.
"""

import torch

ROWS, WIDTH, TOKENS, DRAWS = 64, 48, 256, 16


def leaves(case):
    k = torch.arange(ROWS * WIDTH, dtype=torch.float64)
    table = torch.sin(0.7 * k + case).reshape(ROWS, WIDTH)
    k = torch.arange(WIDTH * WIDTH, dtype=torch.float64)
    matrix = (0.2 * torch.cos(1.3 * k + case)).reshape(WIDTH, WIDTH)
    i = torch.arange(TOKENS)
    tokens, targets = (i * i + case) % ROWS, (i * i * i + 5 * i + case) % ROWS
    rounded = [x.float().bfloat16() for x in (table, matrix)]
    return *rounded, tokens, targets


def gradient(table, matrix, tokens, targets):
    table = table.clone().requires_grad_()
    h = torch.tanh(torch.nn.functional.embedding(tokens, table) @ matrix)
    torch.nn.functional.cross_entropy(h @ table.T, targets).backward()
    return table.grad.double()


def main():
    print("case,what,index,value")
    for case in range(DRAWS):
        table, matrix, tokens, targets = leaves(case)
        exact = gradient(table.double(), matrix.double(), tokens, targets)
        rough = gradient(table, matrix, tokens, targets)
        norm = exact.norm().item()
        print(f"tied embedding,gradient@{case},norm,{norm!r}")
        print(f"tied embedding,error@{case},part,{(rough - exact).norm().item() / norm!r}")


if __name__ == "__main__":
    main()
