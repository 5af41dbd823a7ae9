"""What the tests of the package share: nets whose numbers NumPy knows, too."""

import unittest

import numpy as np

import stowage
from stowage import ops

BATCH, FEATURES, CLASSES = 8, 5, 3


def softmax_net(g, batch):
    """Logits x w + b, by which the loss is a cross-entropy."""
    x = g.input("x", "f32", (batch, FEATURES))
    y = g.input("y", "i32", (batch,))
    w = g.param("w", "f32", (FEATURES, CLASSES), init="normal", scale=0.5)
    b = g.param("b", "f32", (CLASSES,))
    logits = ops.add(ops.matmul(x, w), b)
    loss, _ = ops.cross_entropy(logits, y)
    g.output("loss", ops.reduce_mean(loss, axes=[0], keep=False)
             if loss.shape else loss)


def softmax_logits(g, batch):
    x = g.input("x", "f32", (batch, FEATURES))
    w = g.param("w", "f32", (FEATURES, CLASSES), init="normal", scale=0.5)
    b = g.param("b", "f32", (CLASSES,))
    g.output("logits", ops.add(ops.matmul(x, w), b))


class SoftmaxOfNumpy:
    """The same net and its SGD in float64, worked out by hand."""

    def __init__(self, w, b):
        self.w, self.b = w.astype(np.float64), b.astype(np.float64)

    def logits(self, x):
        return x @ self.w + self.b

    def step(self, x, y, lr):
        logits = self.logits(x)
        logits = logits - logits.max(1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(1, keepdims=True)
        rows = np.arange(len(y))
        loss = -np.log(p[rows, y]).mean()
        p[rows, y] -= 1
        p /= len(y)
        self.w -= lr * x.T.astype(np.float64) @ p
        self.b -= lr * p.sum(0)
        return loss


class Tensor:
    """As another library's: no buffer, but DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def batch(seed=0, examples=BATCH):
    random = np.random.default_rng(seed)
    return (random.standard_normal((examples, FEATURES)).astype(np.float32),
            random.integers(0, CLASSES, examples).astype(np.int32))


def trainer(**options):
    options = {"batch": BATCH, "optimizer": "sgd", "lr": 0.1, "device": "cpu",
               "threads": 1, "evaluate": softmax_logits, **options}
    return stowage.Trainer(softmax_net, **options)


class TestCase(unittest.TestCase):
    def raises(self, error, words, call, /, *args, **kwargs):
        """That the call raises `error` itself, with the words in its message."""
        with self.assertRaises(error) as caught:
            call(*args, **kwargs)
        self.assertIs(type(caught.exception), error)
        self.assertIn(words, str(caught.exception))


def main():
    unittest.main(verbosity=2)
