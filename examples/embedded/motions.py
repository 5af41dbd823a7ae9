"""A classifier of motions, whose last layer a board trains: python3 motions.py MOTIONS.csv FOLDER

On the desktop, all layers learn to tell standing, walking and running apart, from the first half
of examples/data/motions.csv. FOLDER gets step.c and step.h, a step that trains the last layer of
four classes with the other layers constant, and motions.h, all motions. motions.c learns badminton
from them, on the board.
"""

import pathlib
import sys

import numpy as np

import stowage
from stowage import ops

SENSORS, READINGS, CLASSES = 6, 100, 4
SCALE = 1 / 16  # of the numbers in the file
BATCH = 8


def logits(g, batch):
    """Three convolutions over time, their mean over time, and a layer of the classes."""
    x = g.input("x", "f32", (batch, READINGS, SENSORS))
    x = ops.permute(x, order=[0, 2, 1])
    for layer, (channels, filters) in enumerate([(SENSORS, 16), (16, 32), (32, 32)]):
        w = g.param(f"features.{layer}.weight", "f32", (filters, channels, 5), init="normal",
                    scale=(2 / (5 * channels))**0.5)
        b = g.param(f"features.{layer}.bias", "f32", (filters, 1))
        x = ops.relu(ops.add(ops.conv(x, w, stride=2, padding=2), b))
    w = g.param("head.weight", "f32", (32, CLASSES), init="normal", scale=0.1)
    b = g.param("head.bias", "f32", (CLASSES,))
    return ops.add(ops.matmul(ops.reduce_mean(x, axes=[2]), w), b)


def train(g, batch):
    scores = logits(g, batch)
    losses, _ = ops.cross_entropy(scores, g.input("y", "i32", (batch,)))
    g.output("loss", ops.reduce_mean(losses))


def classify(g, batch):
    g.output("prediction", ops.arg_max(logits(g, batch)))


def write_motions(rows, path):
    with open(path, "w", encoding="utf-8") as header:
        print("#include <stdint.h>\n", file=header)
        print(f"enum {{ MOTIONS = {len(rows)}, READINGS = {rows.shape[1] - 1}, BATCH = {BATCH} }};",
              file=header)
        print("static const int8_t motions[MOTIONS][1 + READINGS] = {", file=header)
        for row in rows:
            print("    {", ", ".join(map(str, row)), "},", sep="", file=header)
        print("};", file=header)


def main():
    rows = np.loadtxt(sys.argv[1], dtype=np.int32, delimiter=",")
    folder = pathlib.Path(sys.argv[2])
    y = rows[:, 0]
    x = (SCALE * rows[:, 1:].reshape(-1, READINGS, SENSORS)).astype(np.float32)
    first = np.arange(len(rows)) < len(rows) // 2  # the others validate

    known = first & (y < 3)
    with stowage.Trainer(train, BATCH, evaluate=classify, optimizer="adamw", lr=3e-3,
                         device="cpu", seed=1) as trainer:
        trainer.fit((x[known], y[known]), steps=200)
        right = trainer.evaluate(x[~first])["prediction"] == y[~first]
        print("desktop:", right.sum(), "of", (~first).sum(), "motions")
        weights = trainer.state_dict()

    plan = stowage.plan(train, BATCH, evaluate=classify, optimizer="sgd", momentum=0.9,
                        freeze=["features.*"], budget="64KB", device="c")
    step = plan.to_c(folder / "step.c", weights=weights)
    print(f"board: arena {step.arena_bytes} bytes, weights in flash {step.flash_bytes} bytes")
    write_motions(rows, folder / "motions.h")


if __name__ == "__main__":
    main()
