#!/usr/bin/env python3
"""Writes the golden numbers that tests/nn/pytorch_parity_test.cc compares with.

Builds the mlp, a tiny GPT, gpt-nano, a tiny Llama, recurrent and convolutional nets at
small sizes in PyTorch in double precision, trains each for five steps, and writes losses,
gradients and final params as CSV files beside this script. Params and data follow a
formula (see `uniforms`) that the test computes too, so the goldens hold results only.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch
    /tmp/venv/bin/python tests/goldens/make_goldens.py

Rows are kind,name,index,value:
    loss,,STEP,v            loss of step 1..5, before its update
    grad_norm,,STEP,v       global norm of the gradients, in clipped runs
    grad_sum,PARAM,0,v      of the gradient at the first step: the sum,
    grad_norm2,PARAM,0,v    the Euclidean norm,
    grad,PARAM,INDEX,v      and some elements, indexed in row-major order
    after_sum,PARAM,0,v     likewise of the param after five steps
    after_norm2,PARAM,0,v
    after,PARAM,INDEX,v
"""

import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

STEPS = 5
MASK = (1 << 64) - 1
HERE = pathlib.Path(__file__).resolve().parent


def fnv(name):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def bits(name, index):
    """64 bits: FNV-1a of the name, then SplitMix64 of the hash plus index."""
    z = (fnv(name) + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniforms(name, count):
    """Numbers in [-1, 1) of bits(name, 0), ..., exact in double precision."""
    h = np.uint64(fnv(name))
    z = h + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0


def param(name, *shape):
    """Norm gains near one, other vectors small, matrices less so."""
    values = uniforms(name, math.prod(shape))
    if name.endswith(".weight") and len(shape) == 1:
        values = 1 + 0.125 * values
    elif len(shape) == 1:
        values = 0.0625 * values
    else:
        values = 0.25 * values
    return torch.from_numpy(values).reshape(shape).requires_grad_()


def integers(name, bound, *shape):
    count = math.prod(shape)
    values = [bits(name, i) % bound for i in range(count)]
    return torch.tensor(values).reshape(shape)


class Mlp:
    """The model `mlp`; weights are (in, out)."""

    batch = 8

    def __init__(self):
        sizes = {"fc1": (64, 128), "fc2": (128, 128), "fc3": (128, 10)}
        self.params = {}
        for name, (rows, columns) in sizes.items():
            for p, shape in ((".weight", (rows, columns)), (".bias", (columns,))):
                self.params[name + p] = param(name + p, *shape)

    def loss(self, step):
        p = self.params
        x = integers(f"x:{step}", 17, self.batch, 64).double() / 16
        y = integers(f"y:{step}", 10, self.batch)
        h = F.relu(x @ p["fc1.weight"] + p["fc1.bias"])
        h = F.relu(h @ p["fc2.weight"] + p["fc2.bias"])
        return F.cross_entropy(h @ p["fc3.weight"] + p["fc3.bias"], y)


class GptTiny:
    """The GPT of nn/gpt.h; its position embedding is longer than the windows."""

    layers, heads, width, vocabulary, max_seq = 2, 4, 32, 40, 24
    batch, seq = 3, 16

    def __init__(self):
        c = self.width
        shapes = {"wte": (self.vocabulary, c), "wpe": (self.max_seq, c)}
        for i in range(self.layers):
            shapes |= {
                f"h.{i}.ln_1.weight": (c,),
                f"h.{i}.ln_1.bias": (c,),
                f"h.{i}.attn.c_attn.weight": (c, 3 * c),
                f"h.{i}.attn.c_attn.bias": (3 * c,),
                f"h.{i}.attn.c_proj.weight": (c, c),
                f"h.{i}.attn.c_proj.bias": (c,),
                f"h.{i}.ln_2.weight": (c,),
                f"h.{i}.ln_2.bias": (c,),
                f"h.{i}.mlp.c_fc.weight": (c, 4 * c),
                f"h.{i}.mlp.c_fc.bias": (4 * c,),
                f"h.{i}.mlp.c_proj.weight": (4 * c, c),
                f"h.{i}.mlp.c_proj.bias": (c,),
            }
        shapes |= {"ln_f.weight": (c,), "ln_f.bias": (c,)}
        self.params = {n: param(n, *shape) for n, shape in shapes.items()}

    def linear(self, x, name):
        return x @ self.params[name + ".weight"] + self.params[name + ".bias"]

    def norm(self, x, name):
        return F.layer_norm(
            x,
            (self.width,),
            self.params[name + ".weight"],
            self.params[name + ".bias"],
            eps=1e-5,
        )

    def attention(self, x, name):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.linear(x, name + ".c_attn").split(c, dim=2)
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(c // self.heads)
        later = torch.ones(t, t, dtype=torch.bool).triu(diagonal=1)
        scores = scores.masked_fill(later, -math.inf)
        y = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, t, c)
        return self.linear(y, name + ".c_proj")

    def loss(self, step):
        shape = (self.batch, self.seq)
        tokens = integers(f"tokens:{step}", self.vocabulary, *shape)
        targets = integers(f"targets:{step}", self.vocabulary, *shape)
        x = self.params["wte"][tokens] + self.params["wpe"][: self.seq]
        for i in range(self.layers):
            x = x + self.attention(self.norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
            h = self.linear(self.norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
            h = F.gelu(h, approximate="tanh")
            x = x + self.linear(h, f"h.{i}.mlp.c_proj")
        logits = self.norm(x, "ln_f") @ self.params["wte"].t()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class GptNano(GptTiny):
    """The model of that name, at its default sizes."""

    layers, heads, width, vocabulary, max_seq = 4, 4, 128, 96, 256
    batch, seq = 8, 64


class LlamaTiny:
    """The Llama of nn/llama.h, by Hugging Face's names; its linear weights are
    (in, out), its head is (vocabulary, width)."""

    layers, heads, kv_heads, width, hidden, vocabulary = 2, 4, 2, 32, 88, 40
    batch, seq = 3, 16
    base, eps = 10000.0, 1e-5

    def __init__(self):
        c = self.width
        keys = c // self.heads * self.kv_heads
        shapes = {"model.embed_tokens.weight": (self.vocabulary, c)}
        for i in range(self.layers):
            at = f"model.layers.{i}"
            shapes |= {
                f"{at}.input_layernorm.weight": (c,),
                f"{at}.self_attn.q_proj.weight": (c, c),
                f"{at}.self_attn.k_proj.weight": (c, keys),
                f"{at}.self_attn.v_proj.weight": (c, keys),
                f"{at}.self_attn.o_proj.weight": (c, c),
                f"{at}.post_attention_layernorm.weight": (c,),
                f"{at}.mlp.gate_proj.weight": (c, self.hidden),
                f"{at}.mlp.up_proj.weight": (c, self.hidden),
                f"{at}.mlp.down_proj.weight": (self.hidden, c),
            }
        shapes |= {
            "model.norm.weight": (c,),
            "lm_head.weight": (self.vocabulary, c),
        }
        self.params = {n: param(n, *shape) for n, shape in shapes.items()}

    def linear(self, x, name):
        return x @ self.params[name + ".weight"]

    def norm(self, x, name):
        rms = x.pow(2).mean(-1, keepdim=True).add(self.eps).sqrt()
        return x / rms * self.params[name + ".weight"]

    def turn(self, x):
        """x (B, H, T, D): each head times cos and, its halves swapped, times sin."""
        depth = x.shape[3]
        pairs = torch.arange(0, depth, 2).double() / depth
        angles = torch.outer(torch.arange(x.shape[2]).double(), self.base**-pairs)
        angles = torch.cat((angles, angles), dim=1)
        a, b = x[..., : depth // 2], x[..., depth // 2 :]
        return x * angles.cos() + torch.cat((-b, a), dim=3) * angles.sin()

    def attention(self, x, name):
        b, t, c = x.shape
        depth = c // self.heads
        q, k, v = (
            self.linear(x, f"{name}.{part}_proj").view(b, t, -1, depth).transpose(1, 2)
            for part in "qkv"
        )
        q, k = self.turn(q), self.turn(k)
        shared = self.heads // self.kv_heads
        k, v = (part.repeat_interleave(shared, dim=1) for part in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(depth)
        later = torch.ones(t, t, dtype=torch.bool).triu(diagonal=1)
        scores = scores.masked_fill(later, -math.inf)
        y = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, t, c)
        return self.linear(y, name + ".o_proj")

    def loss(self, step):
        shape = (self.batch, self.seq)
        tokens = integers(f"tokens:{step}", self.vocabulary, *shape)
        targets = integers(f"targets:{step}", self.vocabulary, *shape)
        x = self.params["model.embed_tokens.weight"][tokens]
        for i in range(self.layers):
            at = f"model.layers.{i}"
            h = self.norm(x, at + ".input_layernorm")
            x = x + self.attention(h, at + ".self_attn")
            h = self.norm(x, at + ".post_attention_layernorm")
            gate = F.silu(self.linear(h, at + ".mlp.gate_proj"))
            h = gate * self.linear(h, at + ".mlp.up_proj")
            x = x + self.linear(h, at + ".mlp.down_proj")
        logits = self.norm(x, "model.norm") @ self.params["lm_head.weight"].t()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Recurrent:
    """Two layers of PyTorch's own and a class for each step."""

    batch, seq, width, hidden, classes = 3, 6, 4, 8, 5

    def __init__(self, module):
        self.rnn = module(self.width, self.hidden, 2, batch_first=True).double()
        self.params = {}
        for name, p in self.rnn.named_parameters():
            p.data = param("rnn." + name, *p.shape).detach()
            self.params["rnn." + name] = p
        self.params["fc.weight"] = param("fc.weight", self.hidden, self.classes)
        self.params["fc.bias"] = param("fc.bias", self.classes)

    def loss(self, step):
        x = integers(f"x:{step}", 17, self.batch, self.seq, self.width).double() / 16
        y = integers(f"y:{step}", self.classes, self.batch, self.seq)
        h, _ = self.rnn(x)
        logits = h @ self.params["fc.weight"] + self.params["fc.bias"]
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class ImageNet:
    """What the convolutional models share: params and running statistics, named as
    torchvision names them, made when they are first asked for."""

    batch = 6
    channels, size, classes = 1, 12, 10

    def __init__(self):
        self.params, self.buffers = {}, {}
        with torch.no_grad():  # which makes the params, in order
            self.logits(torch.zeros(2, self.channels, self.size, self.size).double())
        for name, buffer in self.buffers.items():
            buffer.fill_(1 if name.endswith("var") else 0)

    def get(self, name, *shape):
        if name not in self.params:
            self.params[name] = param(name, *shape)
        return self.params[name]

    def conv(self, x, name, out, kernel, stride=1, padding=0):
        weight = self.get(name + ".weight", out, x.shape[1], kernel, kernel)
        return F.conv2d(x, weight, stride=stride, padding=padding)

    def norm(self, x, name):
        c = x.shape[1]
        weight = self.get(name + ".weight", c)
        bias = self.get(name + ".bias", c)
        for buffer in ("running_mean", "running_var"):
            self.buffers.setdefault(f"{name}.{buffer}", torch.zeros(c).double())
        return F.batch_norm(
            x,
            self.buffers[name + ".running_mean"],
            self.buffers[name + ".running_var"],
            weight,
            bias,
            training=True,
            momentum=0.1,
            eps=1e-5,
        )

    def biased_conv(self, x, name, out, kernel, padding=0):
        h = self.conv(x, name, out, kernel, padding=padding)
        return h + self.get(name + ".bias", out).view(-1, 1, 1)

    def linear(self, x, name, out):
        weight = self.get(name + ".weight", x.shape[1], out)
        return x @ weight + self.get(name + ".bias", out)

    def loss(self, step):
        shape = (self.batch, self.channels, self.size, self.size)
        x = integers(f"x:{step}", 17, *shape).double() / 16
        y = integers(f"y:{step}", self.classes, self.batch)
        return F.cross_entropy(self.logits(x), y)


class CnnSmall(ImageNet):
    """The model `cnn-small`."""

    def logits(self, x):
        for stage, width in ((1, 16), (2, 32)):
            for i in (1, 2):
                x = self.conv(x, f"conv{stage}_{i}", width, 3, padding=1)
                x = F.relu(self.norm(x, f"bn{stage}_{i}"))
            x = F.max_pool2d(x, 2)
        return self.linear(x.flatten(1), "fc", self.classes)


class ResNet(ImageNet):
    """The models `resnet18` and `resnet50`."""

    batch = 8
    channels, size, classes = 3, 40, 10
    blocks, bottleneck = (2, 2, 2, 2), False

    def block(self, x, name, width, stride):
        out = 4 * width if self.bottleneck else width
        convs = [(width, 3, stride), (width, 3, 1)]
        if self.bottleneck:
            convs = [(width, 1, 1), (width, 3, stride), (out, 1, 1)]
        h = x
        for i, (channels, kernel, step) in enumerate(convs, 1):
            h = F.relu(h) if i > 1 else h
            h = self.conv(h, f"{name}.conv{i}", channels, kernel, step, kernel // 2)
            h = self.norm(h, f"{name}.bn{i}")
        if stride != 1 or x.shape[1] != out:
            x = self.conv(x, name + ".downsample.0", out, 1, stride)
            x = self.norm(x, name + ".downsample.1")
        return F.relu(h + x)

    def logits(self, x):
        x = F.relu(self.norm(self.conv(x, "conv1", 64, 7, 2, 3), "bn1"))
        x = F.max_pool2d(x, 3, 2, 1)
        for stage, count in enumerate(self.blocks):
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                name = f"layer{stage + 1}.{block}"
                x = self.block(x, name, 64 << stage, stride)
        return self.linear(x.mean((2, 3)), "fc", self.classes)


class ResNet50(ResNet):
    blocks, bottleneck = (3, 4, 6, 3), True


class Vgg(ImageNet):
    """torchvision's vgg at two stages; the last map is of 14 x 14."""

    batch = 2
    channels, size, classes = 3, 56, 5
    stages, hidden = ((4,), (4, 6)), 12

    def logits(self, x):
        layer = 0
        for stage in self.stages:
            for out in stage:
                x = F.relu(self.biased_conv(x, f"features.{layer}", out, 3, padding=1))
                layer += 2
            x = F.max_pool2d(x, 2)
            layer += 1
        x = F.adaptive_avg_pool2d(x, (7, 7)).flatten(1)
        for name in ("classifier.0", "classifier.3"):
            x = F.relu(self.linear(x, name, self.hidden))
        return self.linear(x, "classifier.6", self.classes)


class VggOfOne(Vgg):
    """The same of small images; the last map is a single position."""

    batch, size = 6, 4


class MobileNet(ImageNet):
    """torchvision's mobilenet_v2, with few and thin blocks."""

    batch = 6
    channels, size, classes = 3, 16, 5
    first, last = 8, 16
    stages = ((1, 4, 1, 1), (3, 6, 2, 2))

    def bent(self, x, name, out, kernel, stride=1, groups=1):
        weight = self.get(name + ".0.weight", out, x.shape[1] // groups, kernel, kernel)
        x = F.conv2d(x, weight, stride=stride, padding=kernel // 2, groups=groups)
        return F.relu6(self.norm(x, name + ".1"))

    def block(self, x, name, expansion, out, stride):
        wide, h, part = x.shape[1] * expansion, x, 0
        if expansion != 1:
            h = self.bent(h, f"{name}.conv.0", wide, 1)
            part = 1
        h = self.bent(h, f"{name}.conv.{part}", wide, 3, stride, wide)
        h = self.conv(h, f"{name}.conv.{part + 1}", out, 1)
        h = self.norm(h, f"{name}.conv.{part + 2}")
        return x + h if stride == 1 and x.shape[1] == out else h

    def logits(self, x):
        x = self.bent(x, "features.0", self.first, 3, 2)
        index = 1
        for expansion, out, blocks, stride in self.stages:
            for block in range(blocks):
                step = stride if block == 0 else 1
                x = self.block(x, f"features.{index}", expansion, out, step)
                index += 1
        x = self.bent(x, f"features.{index}", self.last, 1)
        return self.linear(x.mean((2, 3)), "classifier.1", self.classes)


class UNet(ImageNet):
    """The model `unet`, thin and of two halvings; a label for each pixel."""

    batch = 3
    channels, size, classes = 2, 8, 3
    width, depth = 4, 2

    def stage(self, x, name, out):
        for i in (1, 2):
            x = self.conv(x, f"{name}.conv{i}", out, 3, padding=1)
            x = F.relu(self.norm(x, f"{name}.bn{i}"))
        return x

    def up(self, x, name, out):
        weight = self.get(name + ".weight", x.shape[1], out, 2, 2)
        return F.conv_transpose2d(x, weight, self.get(name + ".bias", out), stride=2)

    def logits(self, x):
        skips = []
        for i in range(self.depth):
            x = self.stage(x, f"encoder.{i}", self.width << i)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.stage(x, "bottom", self.width << self.depth)
        for i in reversed(range(self.depth)):
            x = self.up(x, f"decoder.{i}.up", self.width << i)
            x = torch.cat((skips[i], x), 1)
            x = self.stage(x, f"decoder.{i}", self.width << i)
        return self.biased_conv(x, "head", self.classes, 1)

    def loss(self, step):
        sides = (self.size, self.size)
        x = integers(f"x:{step}", 17, self.batch, self.channels, *sides).double() / 16
        y = integers(f"y:{step}", self.classes, self.batch, *sides)
        return F.cross_entropy(self.logits(x), y)


class ViTThin(ImageNet):
    """The vision transformer of nn/image_nets.h."""

    channels, size, classes = 3, 12, 10
    patch, width, heads, layers = 4, 24, 3, 2

    def dense(self, x, name, out):
        weight = self.get(name + ".weight", x.shape[-1], out)
        return x @ weight + self.get(name + ".bias", out)

    def layer_norm(self, x, name):
        weight = self.get(name + ".weight", self.width)
        bias = self.get(name + ".bias", self.width)
        return F.layer_norm(x, (self.width,), weight, bias, eps=1e-6)

    def attention(self, x, name):
        b, t, c = x.shape
        parts = self.dense(x, name + ".in_proj", 3 * c).split(c, dim=2)
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in parts
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return self.dense(y.transpose(1, 2).reshape(b, t, c), name + ".out_proj", c)

    def logits(self, x):
        c = self.width
        weight = self.get("conv_proj.weight", c, self.channels, self.patch, self.patch)
        bias = self.get("conv_proj.bias", c)
        x = F.conv2d(x, weight, bias, stride=self.patch).flatten(2).transpose(1, 2)
        token = self.get("class_token", 1, 1, c).expand(x.shape[0], 1, c)
        x = torch.cat((token, x), dim=1)
        x = x + self.get("encoder.pos_embedding", 1, x.shape[1], c)
        for i in range(self.layers):
            name = f"encoder.layers.encoder_layer_{i}"
            h = self.layer_norm(x, name + ".ln_1")
            x = x + self.attention(h, name + ".self_attention")
            h = self.layer_norm(x, name + ".ln_2")
            h = F.gelu(self.dense(h, name + ".mlp.0", 4 * c))
            x = x + self.dense(h, name + ".mlp.3", c)
        x = self.layer_norm(x, "encoder.ln")[:, 0]
        return self.dense(x, "heads.head", self.classes)


def describe(kind, name, tensor):
    flat = tensor.detach().flatten()
    count = len(flat)
    yield f"{kind}_sum", name, 0, flat.sum().item()
    yield f"{kind}_norm2", name, 0, flat.norm().item()
    for index in sorted({0, count // 3, count // 2, count - 1}):
        yield kind, name, index, flat[index].item()


def run(model, make_optimizer, clip_norm=None):
    params = model.params
    optimizer = make_optimizer(params.values())
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = model.loss(step)
        loss.backward()
        yield "loss", "", step, loss.item()
        if step == 1:
            for name, p in params.items():
                yield from describe("grad", name, p.grad)
        if clip_norm is not None:
            norm = torch.nn.utils.clip_grad_norm_(params.values(), clip_norm)
            yield "grad_norm", "", step, norm.item()
        optimizer.step()
    for name, p in params.items():
        yield from describe("after", name, p)
    for name, b in getattr(model, "buffers", {}).items():
        yield from describe("after", name, b)


def write(name, rows):
    with open(HERE / f"{name}.csv", "w", encoding="ascii") as out:
        out.write("kind,name,index,value\n")
        for kind, param_name, index, value in rows:
            out.write(f"{kind},{param_name},{index},{value!r}\n")


# Learning rates are powers of two: an f32 input holds them exactly.
def sgd(params):
    return torch.optim.SGD(params, lr=2.0**-4, weight_decay=0.01)


def momentum(params):
    return torch.optim.SGD(params, lr=2.0**-6, momentum=0.9, weight_decay=0.01)


def small_momentum(params):
    return torch.optim.SGD(params, lr=2.0**-14, momentum=0.9, weight_decay=0.01)
def nesterov(params):
    return torch.optim.SGD(
        params, lr=2.0**-6, momentum=0.9, weight_decay=0.01, nesterov=True
    )


def rmsprop(params):
    return torch.optim.RMSprop(params, lr=2.0**-8, weight_decay=0.01)


def adagrad(params):
    return torch.optim.Adagrad(params, lr=2.0**-6, weight_decay=0.01)


def adam(params):
    return torch.optim.Adam(params, lr=2.0**-8, weight_decay=0.01)


def adamw(params):
    return torch.optim.AdamW(
        params, lr=2.0**-8, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1
    )


def main():
    write("mlp_sgd", run(Mlp(), sgd))
    write("mlp_momentum", run(Mlp(), momentum))
    write("mlp_nesterov", run(Mlp(), nesterov))
    write("mlp_rmsprop", run(Mlp(), rmsprop))
    write("mlp_adagrad", run(Mlp(), adagrad))
    write("mlp_adam", run(Mlp(), adam))
    write("mlp_adamw", run(Mlp(), adamw))
    write("gpt_tiny_adamw", run(GptTiny(), adamw))
    write("gpt_tiny_adamw_clip", run(GptTiny(), adamw, clip_norm=0.5))
    write("gpt_nano_adamw", run(GptNano(), adamw))
    write("llama_tiny_adamw", run(LlamaTiny(), adamw))
    write("llama_tiny_adamw_clip", run(LlamaTiny(), adamw, clip_norm=0.5))
    write("lstm_adam", run(Recurrent(torch.nn.LSTM), adam))
    write("gru_adam", run(Recurrent(torch.nn.GRU), adam))
    write("cnn_small_momentum", run(CnnSmall(), momentum))
    write("vgg_momentum", run(Vgg(), momentum))
    write("vgg_of_one_momentum", run(VggOfOne(), momentum))
    write("mobilenet_momentum", run(MobileNet(), momentum))
    write("unet_momentum", run(UNet(), momentum))
    write("vit_thin_adamw", run(ViTThin(), adamw))
    # Deep nets of random weights are chaotic: small steps keep f32 beside f64.
    write("resnet18_momentum", run(ResNet(), small_momentum))
    losses = [row for row in run(ResNet50(), small_momentum) if row[0] == "loss"]
    write("resnet50_momentum", losses)


if __name__ == "__main__":
    main()
