#!/usr/bin/env python3
"""Writes compact_optimizers.csv, for tests/cpu/compact_optimizers_test.cc.

What 100 steps of AdamW and of momentum make of 600 weights whose states have fewer bits
than f32, as they are after 1, 10 and 100. AdamW is the paper's (Loshchilov & Hutter
2019), in double precision; the states between steps are

- 8-bit, dynamic: by the tables of bitsandbytes' create_dynamic_map, blocks of 256;
- 8-bit, companded: by the formulas of FlashOptim (arXiv 2602.23349, section 3), blocks
  of 256 with f64 scales;
- bf16, rounded up where 16 random bits and those that are cut off make 2^16; the bits
  are those of Philox4x32-10, written down from its paper (Salmon et al. 2011).

Of both 8-bit codes, a second moment that is not 0 has a code that is not 0. A weight is
f64, or a bf16 with 16 or 8 bits more.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch bitsandbytes
    /tmp/venv/bin/python tests/goldens/make_compact_optimizers_goldens.py
"""

import pathlib

import numpy
import torch
from bitsandbytes.functional import create_dynamic_map

from make_conv_goldens import rows

SIZE = 600
BLOCK = 256
STEPS = 100
SEED, ID = 12345678901, 7
AT = numpy.arange(SIZE)


def weights():
    return numpy.sin(AT + 1.0)


def gradient(step):
    """Of sizes from 1e-3 to 1, and some of 0."""
    size = 10.0 ** -(AT % 4)
    return numpy.where(AT % 11 == 5, 0, size * numpy.sin(0.37 * AT + 1.3 * step))


def rate(step):
    return 2.0**-5 if step <= 50 else 2.0**-6


# --- Bits ---------------------------------------------------------------------


def bits_of(x):
    return x.astype(numpy.float32).view(numpy.uint32).astype(numpy.int64)


def float_of(bits):
    return bits.astype(numpy.uint32).view(numpy.float32).astype(numpy.float64)


def nearest_bf16(x):
    """Of two the even one, as gradients are rounded."""
    bits = bits_of(x)
    return float_of((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16)


def philox(counter, key):
    mask = 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            b >> 32 ^ counter[1] ^ key[0],
            b & mask,
            a >> 32 ^ counter[3] ^ key[1],
            a & mask,
        ]
        key = [key[0] + 0x9E3779B9 & mask, key[1] + 0xBB67AE85 & mask]
    return counter


def random_words(step):
    key = [SEED & 0xFFFFFFFF, SEED >> 32 ^ (ID * 0x9E3779B1 & 0xFFFFFFFF)]
    words = []
    for quad in range((SIZE + 3) // 4):
        words += philox([quad, 0, step, 1 << 30], key)
    return numpy.array(words[:SIZE], dtype=numpy.int64)


# --- What is kept of a number -------------------------------------------------


class Whole:
    def __init__(self, x):
        self.x = x

    def get(self):
        return self.x

    def put(self, x, step):
        self.x = x

    def visible(self):
        return self.x


class Split:
    """A bf16, the nearest one, and the rest of the float's bits, or the upper ones."""

    def __init__(self, x, rest_bits):
        self.unit = 1 << 16 - rest_bits
        self.put(x, 0)

    def get(self):
        return float_of(self.bits)

    def put(self, x, step):
        self.bits = (bits_of(x) + self.unit // 2) // self.unit * self.unit

    def visible(self):
        return float_of(self.bits + 0x8000 >> 16 << 16)


class Bf16:
    def __init__(self, shift):
        self.x = numpy.zeros(SIZE)
        self.shift = shift  # of the random bits

    def get(self):
        return self.x

    def put(self, x, step):
        random = random_words(step) >> self.shift & 0xFFFF
        self.x = float_of(bits_of(x) + random >> 16 << 16)


class EightBit:
    def __init__(self, signed):
        self.signed = signed
        self.codes = [numpy.zeros(len(block)) for block in self.blocks(AT)]
        self.scales = [0.0] * len(self.codes)

    @staticmethod
    def blocks(x):
        return [x[i : i + BLOCK] for i in range(0, SIZE, BLOCK)]

    def get(self):
        pairs = zip(self.scales, self.codes)
        return numpy.concatenate([s * self.decode(c) for s, c in pairs])

    def put(self, x, step):
        self.scales, self.codes = [], []
        for block in self.blocks(x):
            scale = numpy.abs(block).max()
            self.scales.append(scale)
            self.codes.append(self.encode(block / scale))


class Dynamic(EightBit):
    def __init__(self, signed):
        table = create_dynamic_map(signed=signed).numpy().astype(numpy.float64)
        self.table = table
        super().__init__(signed)
        zero = numpy.abs(table).argmin()
        self.codes = [numpy.full(len(c), zero) for c in self.codes]

    def decode(self, codes):
        return self.table[codes]

    def encode(self, x):
        codes = numpy.abs(x[:, None] - self.table[None, :]).argmin(axis=1)
        if not self.signed:
            codes = numpy.where((codes == 0) & (x > 0), 1, codes)
        return codes


class Companded(EightBit):
    def decode(self, codes):
        if not self.signed:
            return (codes / 255) ** 2
        return codes / 127 / (2 - numpy.abs(codes / 127))

    def encode(self, x):
        if not self.signed:
            codes = numpy.round(255 * numpy.sqrt(x))
            return numpy.where((codes == 0) & (x > 0), 1, codes)
        return numpy.round(127 * 2 * x / (1 + numpy.abs(x)))


# --- The optimizers -----------------------------------------------------------


def adamw(w, m, v, step, g):
    beta1, beta2, eps, decay = 0.9, 0.99, 1e-8, 0.1
    m_now = beta1 * m.get() + (1 - beta1) * g
    v_now = beta2 * v.get() + (1 - beta2) * g**2
    m_hat = m_now / (1 - beta1**step)
    v_hat = v_now / (1 - beta2**step)
    lr = rate(step)
    now = w.get() * (1 - lr * decay) - lr * m_hat / (numpy.sqrt(v_hat) + eps)
    w.put(now, step)
    m.put(m_now, step)
    v.put(v_now, step)


def momentum(w, velocity, step, g):
    now = 0.9 * velocity.get() + g + 0.1 * w.get()
    w.put(w.get() - rate(step) * now, step)
    velocity.put(now, step)


def run(w, update):
    for step in range(1, STEPS + 1):
        g = gradient(step)
        if isinstance(w, Split):
            g = nearest_bf16(g)
        update(step, g)
        if step in (1, 10, 100):
            yield step, w.visible()


def main():
    lines = ["case,what,index,value"]
    moments = {
        "full": (lambda signed: Whole(numpy.zeros(SIZE)), True),
        "bf16": (lambda signed: Bf16(0 if signed else 16), False),
        "dynamic": (Dynamic, False),
        "companded": (Companded, False),
    }
    kept = {
        "whole": lambda: Whole(weights()),
        "long": lambda: Split(nearest_bf16(weights()), 16),
        "short": lambda: Split(nearest_bf16(weights()), 8),
    }
    for of_moments, (make, only_split) in moments.items():
        for of_weights, make_weights in kept.items():
            if only_split and of_weights == "whole":
                continue  # adamw_update, of which PyTorch has goldens
            w, m, v = make_weights(), make(True), make(False)
            name = f"adamw {of_moments} {of_weights}"
            for step, x in run(w, lambda t, g: adamw(w, m, v, t, g)):
                lines += rows(name, f"w@{step}", torch.from_numpy(x))
    for of_weights in ("whole", "long", "short"):
        w, velocity = kept[of_weights](), Bf16(0)
        name = f"momentum bf16 {of_weights}"
        for step, x in run(w, lambda t, g: momentum(w, velocity, t, g)):
            lines += rows(name, f"w@{step}", torch.from_numpy(x))
    path = pathlib.Path(__file__).resolve().parent / "compact_optimizers.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
