"""torchvision's resnet18 as tests train it: its first weights and its batch, drawn by
NumPy, so that torch and Stowage begin at the same place on every machine."""

import lzma
import os
import zlib

import numpy as np

BATCH, SIDE, CLASSES = 32, 64, 10
LEARNING_RATE, STEPS = 2e-4, 5


def first_weights(shapes):
    """An array for each name of `shapes`, whatever their order: convolutions as He draws
    them, norms that do nothing."""
    weights = {}
    for name, shape in shapes.items():
        random = np.random.default_rng(zlib.crc32(name.encode()))
        if len(shape) == 4:
            spread = np.sqrt(2 / (shape[0] * shape[2] * shape[3]))
            drawn = random.standard_normal(shape) * spread
        elif name.startswith("fc."):
            drawn = random.uniform(-1, 1, shape) / np.sqrt(512)
        else:
            drawn = np.full(shape, name.endswith((".weight", "running_var")), float)
        weights[name] = drawn.astype(np.float32)
    return weights


def batch():
    random = np.random.default_rng(18)
    return (random.standard_normal((BATCH, 3, SIDE, SIDE)).astype(np.float32),
            random.integers(0, CLASSES, BATCH))


def exported(folder):
    """The module as torch exports it, its weights zero, which take no room in a file."""
    with lzma.open(os.path.join(folder, "resnet18.onnx.xz")) as file:
        return file.read()
