"""The built-in models in PyTorch, for the benchmarks beside it.

    net = make("resnet18", classes=10)     # a module: inputs -> mean loss
    loss = net(x, y)

Written as a user of PyTorch would write them, in eager operations; weights begin as
PyTorch's layers begin, so losses are not those of Stowage's models to the digit
(tests/goldens/ compares those).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Classifier(nn.Module):
    """Logits, and the mean cross-entropy of an image or a pixel."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, y):
        return F.cross_entropy(self.body(x), y)


class Together(nn.Module):
    """x + f(x), where f keeps the shape; else the shortcut's x."""

    def __init__(self, body, shortcut=None, last=None):
        super().__init__()
        self.body, self.shortcut, self.last = body, shortcut, last

    def forward(self, x):
        y = self.body(x) + (x if self.shortcut is None else self.shortcut(x))
        return y if self.last is None else self.last(y)


def conv(i, o, kernel, stride=1, groups=1, bend=None):
    """A convolution, its batch norm, and what bends it."""
    layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False)]
    layers += [nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([bend] if bend else []))


def cnn_small(channels, size, classes):
    layers, width = [], channels
    for out in (16, 32):
        for _ in range(2):
            layers += [conv(width, out, 3, bend=nn.ReLU(inplace=True))]
            width = out
        layers += [nn.MaxPool2d(2)]
    features = width * (size // 4) ** 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, classes))


def resnet(counts, bottleneck):
    def make(channels, size, classes):
        layers = [conv(channels, 64, 7, 2, bend=nn.ReLU(inplace=True)), nn.MaxPool2d(3, 2, 1)]
        width = 64
        for stage, count in enumerate(counts):
            inner = 64 << stage
            out = inner * (4 if bottleneck else 1)
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                if bottleneck:
                    body = [conv(width, inner, 1, bend=nn.ReLU(inplace=True))]
                    body += [conv(inner, inner, 3, stride, bend=nn.ReLU(inplace=True))]
                    body += [conv(inner, out, 1)]
                else:
                    body = [conv(width, inner, 3, stride, bend=nn.ReLU(inplace=True))]
                    body += [conv(inner, inner, 3)]
                same = stride == 1 and width == out
                shortcut = None if same else conv(width, out, 1, stride)
                layers += [Together(nn.Sequential(*body), shortcut, nn.ReLU(inplace=True))]
                width = out
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)]
        return nn.Sequential(*layers)

    return make


def vgg19(channels, size, classes):
    layers, width = [], channels
    for count, out in ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512)):
        for _ in range(count):
            layers += [nn.Conv2d(width, out, 3, 1, 1), nn.ReLU(inplace=True)]
            width = out
        layers += [nn.MaxPool2d(2)]
    layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten()]
    for i, o in ((25088, 4096), (4096, 4096)):
        layers += [nn.Linear(i, o), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Linear(4096, classes))


def mobilenet_v2(channels, size, classes):
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2))
    stages += ((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    bend = lambda: nn.ReLU6(inplace=True)
    layers, width = [conv(channels, 32, 3, 2, bend=bend())], 32
    for expansion, out, count, first_stride in stages:
        for block in range(count):
            stride = first_stride if block == 0 else 1
            inner = width * expansion
            body = [conv(width, inner, 1, bend=bend())] if expansion > 1 else []
            body += [conv(inner, inner, 3, stride, inner, bend())]
            body = nn.Sequential(*body, conv(inner, out, 1))
            layers += [Together(body) if stride == 1 and width == out else body]
            width = out
    layers += [conv(width, 1280, 1, bend=bend()), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(1280, classes))


class UNet(nn.Module):
    def __init__(self, channels, size, classes):
        super().__init__()
        widths = [64 << i for i in range(5)]
        stage = lambda i, o: nn.Sequential(
            conv(i, o, 3, bend=nn.ReLU(inplace=True)),
            conv(o, o, 3, bend=nn.ReLU(inplace=True)),
        )
        pairs = list(zip([channels, *widths], widths))
        self.down = nn.ModuleList(stage(i, o) for i, o in pairs[:-1])
        self.bottom = stage(*pairs[-1])
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * o, o, 2, 2) for o in widths[:-1]
        )
        self.back = nn.ModuleList(stage(2 * o, o) for o in widths[:-1])
        self.head = nn.Conv2d(64, classes, 1)

    def forward(self, x):
        skips = []
        for stage in self.down:
            skips.append(stage(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.bottom(x)
        for up, back, skip in reversed(list(zip(self.up, self.back, skips))):
            x = back(torch.cat((skip, up(x)), 1))
        return self.head(x)


class ViTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm_1(x)).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm_2(x))


class ViTTiny(nn.Module):
    def __init__(self, channels, size, classes, patch=8, width=192, heads=3, layers=12):
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        tokens = 1 + (size // patch) ** 2
        self.positions = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self.blocks = nn.Sequential(*(ViTBlock(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x)[:, 0]))


IMAGE_NETS = {
    "cnn-small": cnn_small,
    "resnet18": resnet((2, 2, 2, 2), False),
    "resnet50": resnet((3, 4, 6, 3), True),
    "vgg19": vgg19,
    "mobilenet-v2": mobilenet_v2,
    "vit-tiny": ViTTiny,
    "unet": UNet,
}


def make(net, channels, size, classes):
    """A net for images of that size, by its name among the built-in models."""
    return Classifier(IMAGE_NETS[net](channels, size, classes))


class TextLstm(nn.Module):
    def __init__(self, vocabulary=96, width=64, hidden=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens, targets):
        logits = self.head(self.lstm(self.embedding(tokens))[0])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        linear = lambda i, o: nn.Linear(i, o, bias=False)
        self.heads, self.kv_heads = heads, kv_heads
        kept = width * kv_heads // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q, self.k, self.v = linear(width, width), *(
            linear(width, kept) for _ in range(2)
        )
        self.o, self.down = linear(width, width), linear(hidden, width)
        self.gate, self.up = linear(width, hidden), linear(width, hidden)

    def rotate(self, x):
        """Rotary positions, in halves, as Hugging Face's."""
        half = x.shape[-1] // 2
        rates = 10000 ** (-torch.arange(half, device=x.device) / half)
        angles = torch.arange(x.shape[-2], device=x.device)[:, None] * rates
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x):
        b, t, c = x.shape
        h = self.norm_1(x)
        cut = lambda y, n: y.view(b, t, n, c // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            self.rotate(cut(self.q(h), self.heads)),
            self.rotate(cut(self.k(h), self.kv_heads)),
            cut(self.v(h), self.kv_heads),
            is_causal=True,
            enable_gqa=True,
        )
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        h = self.norm_2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocabulary=96, layers=4, width=128, heads=4, kv_heads=2, hidden=352):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(
            *(LlamaBlock(width, heads, kv_heads, hidden) for _ in range(layers))
        )
        self.norm = nn.RMSNorm(width, 1e-5)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, targets):
        logits = self.head(self.norm(self.blocks(self.embedding(tokens))))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_text(net):
    """A net over tokens, by its name among the built-in models."""
    if net == "gpt2-124m":
        from pytorch_gpt2 import Gpt2

        return Gpt2(50257)
    if net == "gpt-nano":
        from pytorch_gpt_nano import Gpt

        return Gpt(4, 4, 128)
    return {"lstm-char": TextLstm, "llama-nano": Llama}[net]()
