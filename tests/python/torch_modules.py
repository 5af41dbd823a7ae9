"""Modules of torch of every kind, for torch_modules_test.py: by a name, how one is made and what
it is called with. Each gives rows of four classes, or a dict with "logits"."""

import torch
from torch import nn
from torch.nn import functional as F

ROWS, STEPS = torch.randn(8, 6), torch.randn(8, 5, 6)
INDICES, IMAGES = torch.randint(0, 10, (8, 5)), torch.randn(4, 3, 16, 16)


class Net(nn.Module):
    """Parts by name, and what is made of them."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args):
        return self.function(self, *args)


def rows(function, **more):
    return Net(function, a=nn.Linear(6, 6), b=nn.Linear(6, 4), **more)


def images(*parts):
    return nn.Sequential(nn.Conv2d(3, 8, 3), *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.LazyLinear(4))


def without_grad(net, x):
    with torch.no_grad():
        return torch.tanh(net.a(x))


def assigned(net, x):
    y = net.a(x).clone()
    y[:, 0] = 1.0
    y[:, 1:3] += x[:, 1:3]
    return net.b(y.relu_())


def with_buffer():
    net = rows(lambda n, x: n.b(n.a(x) * n.scale + torch.arange(6.0)))
    net.register_buffer("scale", torch.randn(6))
    return net


def tied():
    net = Net(lambda n, x: n.head(n.table(x).mean(1)), table=nn.Embedding(4, 6),
              head=nn.Linear(6, 4, bias=False))
    net.head.weight = net.table.weight
    return net


def frozen_norm():
    net = images(nn.BatchNorm2d(8), nn.ReLU())
    net[1].eval()
    return net


def recurrent(kind, **options):
    out = 5 * (2 if options.get("bidirectional") else 1)
    return Net(lambda n, x: n.b(n.a(x)[0][:, -1]), a=kind(6, 5, batch_first=True, **options),
               b=nn.Linear(out, 4))


def written_gelu(net, x):
    h = net.a(x)
    return net.b(0.5 * h * (1 + torch.tanh(0.7978845608028654 * (h + 0.044715 * h**3))))


def written_rms_norm(net, x):
    h = net.a(x)
    return net.b(net.gain * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)))


ACTIVATIONS = {name: getattr(nn, name) for name in (
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
    "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink")}

TAKE_ROWS = {
    **{name: lambda kind=kind: nn.Sequential(nn.Linear(6, 6), kind(), nn.LazyLinear(4))
       for name, kind in ACTIVATIONS.items()},
    "softmax": lambda: nn.Sequential(nn.Linear(6, 6), nn.Softmax(-1), nn.Linear(6, 4)),
    "log_softmax": lambda: nn.Sequential(nn.Linear(6, 6), nn.LogSoftmax(0), nn.Linear(6, 4)),
    "threshold": lambda: nn.Sequential(nn.Linear(6, 6), nn.Threshold(0.1, 0.2), nn.Linear(6, 4)),
    "gelu by hand": lambda: rows(written_gelu),
    "rms norm by hand": lambda: rows(written_rms_norm, gain=nn.Parameter(torch.rand(6))),
    "norms": lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.RMSNorm(6),
                                   nn.BatchNorm1d(6), nn.Linear(6, 4)),
    "cumulative batch norm": lambda: nn.Sequential(nn.Linear(6, 6),
                                                   nn.BatchNorm1d(6, momentum=None),
                                                   nn.Linear(6, 4)),
    "detach": lambda: rows(lambda n, x: n.b(n.a(x) * n.a(x).detach())),
    "no_grad": lambda: rows(lambda n, x: n.b(n.a(x) + without_grad(n, x))),
    "straight through": lambda: rows(lambda n, x: n.b(n.a(x) + (torch.round(n.a(x))
                                                               - n.a(x)).detach())),
    "assignments": lambda: rows(assigned),
    "buffer": with_buffer,
    "norm of zeros": lambda: rows(lambda n, x: n.b(F.normalize(n.a(x) * 0, dim=-1) + n.a(x))),
    "cosine": lambda: rows(lambda n, x: n.b(n.a(x) * F.cosine_similarity(n.a(x), x)[:, None])),
    "weight norm": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
                                         nn.Linear(6, 4)),
    "spectral norm": lambda: nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), nn.Linear(6, 4)),
    "std": lambda: rows(lambda n, x: n.b(n.a(x) / (n.a(x).std(-1, keepdim=True) + 1))),
    "var over rows": lambda: rows(lambda n, x: n.b((n.a(x) - n.a(x).mean(0))
                                                  / torch.sqrt(n.a(x).var(0) + 1e-3))),
    "clamp": lambda: rows(lambda n, x: n.b(n.a(x).clamp(-0.5, 0.5) + n.a(x).clamp(min=0))),
    "bounds": lambda: rows(lambda n, x: n.b(n.a(x) * n.w.clamp(0, 1) + n.w.clamp(min=0)
                                            + torch.clamp(n.w, n.low, n.low + 1)),
                           w=nn.Parameter(torch.tensor([0.0, 1, 0.5, -1, 2, 0])),
                           low=nn.Parameter(torch.zeros(6))),
    "roots of zero": lambda: rows(lambda n, x: n.b(n.a(x) + n.w.std() + n.w.norm() + n.w**0),
                                  w=nn.Parameter(torch.zeros(6))),
    "floor division": lambda: rows(lambda n, x: n.b(n.a(x) * torch.div(
        torch.ones_like(x), 0.1, rounding_mode="floor") / 10
        + torch.div(x, -0.7, rounding_mode="floor") + torch.div(x, 0.3, rounding_mode="trunc"))),
    "powers": lambda: rows(lambda n, x: n.b(n.a(x)**3 + n.a(x).exp()**0.5 + n.a(x).square())),
    "where": lambda: rows(lambda n, x: n.b(torch.where(n.a(x) > 0, n.a(x), -x).abs().sqrt())),
    "logsumexp": lambda: rows(lambda n, x: n.b(n.a(x)) + n.b(x).logsumexp(1, keepdim=True)),
    "product": lambda: Net(lambda n, x: n.b(n.a(x).prod(-1, keepdim=True)), a=nn.Linear(6, 6),
                           b=nn.Linear(1, 4)),
    "distances": lambda: Net(lambda n, x: n.b(torch.cdist(n.a(x), n.c)), a=nn.Linear(6, 6),
                             b=nn.Linear(5, 4), c=nn.Parameter(torch.randn(5, 6))),
    "bilinear": lambda: Net(lambda n, x: n.a(x, x), a=nn.Bilinear(6, 6, 4)),
    "outputs by key": lambda: Net(lambda n, x: {"hidden": x * 2, "logits": n.a(x)},
                                  a=nn.Linear(6, 4)),
}
TAKE_STEPS = {
    "lstm": lambda: recurrent(nn.LSTM, num_layers=2, bidirectional=True),
    "gru": lambda: recurrent(nn.GRU),
    "rnn": lambda: recurrent(nn.RNN),
    "attention": lambda: rows(lambda n, x: n.b(n.c(x, x, x)[0].mean(1)),
                              c=nn.MultiheadAttention(6, 2, batch_first=True)),
    "encoder": lambda: Net(lambda n, x: n.b(n.a(x)[:, 0]), b=nn.Linear(6, 4),
                           a=nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True)),
    "causal encoder": lambda: Net(
        lambda n, x: n.b(n.a(x, src_mask=nn.Transformer.generate_square_subsequent_mask(5),
                             is_causal=True)[:, -1]), b=nn.Linear(6, 4),
        a=nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True, norm_first=True)),
    "transformer": lambda: Net(lambda n, x: n.b(n.a(x, x)[:, 0]), b=nn.Linear(6, 4),
                               a=nn.Transformer(6, 2, 1, 1, 12, 0.0, batch_first=True)),
    "einsum": lambda: rows(lambda n, x: n.b(torch.einsum("btd,de->be", x, n.a.weight))),
    "max": lambda: rows(lambda n, x: n.b(n.a(x).max(1)[0] + n.a(x).relu().amax(1))),
    "topk": lambda: rows(lambda n, x: n.b(n.a(x).topk(3, dim=1)[0].mean(1))),
    "gather": lambda: rows(lambda n, x: n.b(torch.gather(n.a(x), 1, x.argsort(1))[:, 0])),
    "cumsum": lambda: rows(lambda n, x: n.b(n.a(x).cumsum(1)[:, -2])),
    "roll and flip": lambda: rows(lambda n, x: n.b(n.a(x).roll(2, 1).flip(1)[:, 1])),
    "index": lambda: rows(lambda n, x: n.b(n.a(x)[:, [0, 2, -1]].mean(1))),
}
TAKE_INDICES = {
    "integers": lambda: Net(lambda n, x: n.b(n.a(((torch.square(x + 100003) + F.relu(x + 2**25 + 1)
                                                   + (x + 2**25 + 1).floor()) % 10)).mean(1)),
                            a=nn.Embedding(10, 6), b=nn.Linear(6, 4)),
    "padding": lambda: Net(lambda n, x: n.b(n.a(x).mean(1)), a=nn.Embedding(10, 6, padding_idx=0),
                           b=nn.Linear(6, 4)),
    "bags": lambda: nn.Sequential(nn.EmbeddingBag(10, 6), nn.Linear(6, 4)),
    "tied": lambda: Net(lambda n, x: n.net(x % 4), net=tied()),
}
TAKE_IMAGES = {
    "batch norm": lambda: images(nn.BatchNorm2d(8), nn.ReLU()),
    "frozen batch norm": frozen_norm,
    "group norm": lambda: images(nn.GroupNorm(2, 8)),
    "instance norm": lambda: images(nn.InstanceNorm2d(8, affine=True)),
    "response norm": lambda: images(nn.LocalResponseNorm(3)),
    "max pool": lambda: images(nn.MaxPool2d(3, 2, 1)),
    "mean pool": lambda: images(nn.AvgPool2d(2, ceil_mode=True)),
    "power pool": lambda: images(nn.LPPool2d(2, 2)),
    "adaptive pools": lambda: images(nn.AdaptiveAvgPool2d(5)),
    "equal maxima": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1),
                                          nn.Flatten(), nn.Linear(8, 4)),
    "adaptive max pool": lambda: images(nn.AdaptiveMaxPool2d(7)),
    "depthwise": lambda: images(nn.Conv2d(8, 8, 3, padding="same", groups=8, dilation=2)),
    "transposed": lambda: images(nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1,
                                                      output_padding=1)),
    "upsample": lambda: images(nn.Upsample(scale_factor=2),
                                 nn.Upsample(scale_factor=2, mode="bilinear")),
    "upsample to corners": lambda: images(nn.Upsample(scale_factor=2, mode="bilinear",
                                                        align_corners=True)),
    "pads": lambda: images(nn.ReflectionPad2d(2), nn.ReplicationPad2d(1), nn.ZeroPad2d(1),
                             nn.CircularPad2d(1)),
    "pixel shuffles": lambda: images(nn.PixelShuffle(2), nn.PixelUnshuffle(2)),
    "unfold": lambda: nn.Sequential(nn.Unfold(2), nn.Flatten(), nn.LazyLinear(4)),
}

MODULES = {name: (make, x) for table, x in ((TAKE_ROWS, ROWS), (TAKE_STEPS, STEPS),
                                           (TAKE_INDICES, INDICES), (TAKE_IMAGES, IMAGES))
           for name, make in table.items()}
