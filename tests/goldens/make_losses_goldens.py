#!/usr/bin/env python3
"""Writes losses.csv, which tests/nn/losses_test.cc compares with.

Each row is case,what,index,value: `loss` is the loss that PyTorch computes in double
precision, `grad` an element of its gradient with respect to x. Operands follow the
formula of make_goldens.py, which the test computes too: x and y are (4, 3), numbers
in [-2, 2), of which the first of x is 0; t, of the same shape, is in [0, 1); sides
are signs.

    /tmp/venv/bin/python tests/goldens/make_losses_goldens.py
"""

import pathlib

import torch
import torch.nn.functional as F

from make_goldens import bits, uniform

ROWS, WIDTH = 4, 3
HERE = pathlib.Path(__file__).resolve().parent


def tensor(name, count=ROWS * WIDTH):
    return torch.tensor([2 * uniform(name, i) for i in range(count)],
                        dtype=torch.float64)


def main():
    y = tensor("y").reshape(ROWS, WIDTH)
    t = ((tensor("t") / 2 + 1) / 2).reshape(ROWS, WIDTH)
    zero_some = t.clone()
    zero_some[1, 1] = 0
    sides = torch.sign(tensor("sides")).reshape(ROWS, WIDTH)
    row_sides = torch.sign(tensor("row_sides", ROWS))
    labels = torch.tensor([bits("labels", i) % WIDTH for i in range(ROWS)])
    some = labels.clone()
    some[1] = -100
    weights = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)
    cases = {
        "l1": lambda x: F.l1_loss(x, y),
        "l1_sum": lambda x: F.l1_loss(x, y, reduction="sum"),
        "mse": lambda x: F.mse_loss(x, y),
        "mse_sum": lambda x: F.mse_loss(x, y, reduction="sum"),
        "huber": lambda x: F.huber_loss(x, y, delta=0.75),
        "huber_sum": lambda x: F.huber_loss(x, y, reduction="sum"),
        "smooth_l1": lambda x: F.smooth_l1_loss(x, y, beta=0.75),
        "smooth_l1_sum": lambda x: F.smooth_l1_loss(x, y, reduction="sum"),
        "bce": lambda x: F.binary_cross_entropy_with_logits(x, t),
        "bce_sum": lambda x: F.binary_cross_entropy_with_logits(
            x, t, reduction="sum"),
        "bce_weighted": lambda x: F.binary_cross_entropy_with_logits(
            x, t, pos_weight=torch.tensor(3.0, dtype=torch.float64)),
        "bce_large": lambda x: F.binary_cross_entropy_with_logits(50 * x, t),
        "kl": lambda x: F.kl_div(F.log_softmax(x, -1), zero_some),
        "kl_sum": lambda x: F.kl_div(F.log_softmax(x, -1), t, reduction="sum"),
        "cosine": lambda x: F.cosine_similarity(x, y).sum(),
        "cosine_embedding": lambda x: F.cosine_embedding_loss(x, y, row_sides),
        "cosine_embedding_margin": lambda x: F.cosine_embedding_loss(
            x, y, row_sides, margin=-0.5, reduction="sum"),
        "hinge": lambda x: torch.clamp(1 - x * sides, min=0).mean(),
        "hinge_sum": lambda x: torch.clamp(1 - x * sides, min=0).sum(),
        "nll": lambda x: F.nll_loss(F.log_softmax(x, -1), labels),
        "nll_weighted": lambda x: F.nll_loss(F.log_softmax(x, -1), some,
                                             weight=weights),
        "nll_sum": lambda x: F.nll_loss(F.log_softmax(x, -1), some,
                                        weight=weights, reduction="sum"),
        "classes": lambda x: F.cross_entropy(x, labels),
        "classes_ignored": lambda x: F.cross_entropy(x, some),
        "classes_smoothed": lambda x: F.cross_entropy(
            x, labels, label_smoothing=0.1),
        "classes_all": lambda x: F.cross_entropy(
            x, some, weight=weights, label_smoothing=0.1),
        "classes_all_sum": lambda x: F.cross_entropy(
            x, some, weight=weights, label_smoothing=0.1, reduction="sum"),
    }
    with open(HERE / "losses.csv", "w", encoding="utf-8") as out:
        out.write("case,what,index,value\n")
        for name, case in cases.items():
            x = tensor("x")
            x[0] = 0
            x = x.reshape(ROWS, WIDTH).requires_grad_()
            loss = case(x)
            loss.backward()
            out.write(f"{name},loss,0,{loss.item():.17g}\n")
            for i, value in enumerate(x.grad.flatten().tolist()):
                out.write(f"{name},grad,{i},{value:.17g}\n")


if __name__ == "__main__":
    main()
