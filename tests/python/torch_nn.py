"""The public modules of torch.nn with the options of each, for torch_nn_test.py: by class the
settings in which it is trained, what it is called with, and the words by which it is refused where
it is.

A module stands behind a Linear, so that its gradient to its input matters. What it returns is
trained towards fixed numbers, and a number that it returns is the loss itself."""

import copy
import itertools

import torch
from torch import nn
from torch.nn import functional as F


class Trained(nn.Module):
    """A module behind a Linear over the last axis, and as its output the loss."""

    def __init__(self, part, call, inputs):
        super().__init__()
        self.part, self.call = part, call
        width = inputs[0].shape[-1]
        self.before = nn.Linear(width, width) if inputs[0].is_floating_point() else nn.Identity()
        for i, x in enumerate(copy.deepcopy(self).outputs(inputs)):
            self.register_buffer(f"target{i}", torch.randn(x.shape[-1:] if x.dim() > 1 else 1))
        losses = copy.deepcopy(self).losses(inputs)
        # So that none is far above 1.
        self.scales = [1 / max(1.0, abs(loss.item())) for loss in losses]

    def outputs(self, inputs):
        made = self.call(self.part, self.before(inputs[0]), *inputs[1:])
        return [x for x in torch.utils._pytree.tree_leaves(made)
                if isinstance(x, torch.Tensor) and x.is_floating_point()]

    def losses(self, inputs):
        return [(x - getattr(self, f"target{i}")).square().mean() if x.dim() else x
                for i, x in enumerate(self.outputs(inputs))]

    def forward(self, *inputs):
        return sum(loss * scale for loss, scale in zip(self.losses(inputs), self.scales))


class Net(nn.Module):
    """The sum of the losses of several, each with inputs of its own."""

    def __init__(self, cases):
        super().__init__()
        made = [case.trained() for case in cases]
        self.each = nn.ModuleList(net for net, _ in made)
        self.counts = [len(inputs) for _, inputs in made]
        self.inputs = tuple(x for _, inputs in made for x in inputs)

    def forward(self, *inputs):
        rest = iter(inputs)
        return sum(net(*itertools.islice(rest, count))
                   for net, count in zip(self.each, self.counts))


class Case:
    """One setting of a class: how a module is made and called, and `make`, what is done to it
    then. `refused`: words of the message by which it is refused. `draws`: its steps are random,
    and equal torch's in their mean."""

    def __init__(self, kind, x, *args, more=(), call=None, refused="", draws=False, make=None,
                 **options):
        self.kind, self.args, self.options = kind, args, options
        self.shapes, self.make = (x, *more), make
        self.call = call or (lambda part, *inputs: part(*inputs))
        self.refused, self.draws = refused, draws

    def __str__(self):
        def said(value):
            return f"<{tuple(value.shape)}>" if isinstance(value, torch.Tensor) else repr(value)
        given = [said(each) for each in self.args]
        given += [f"{name}={said(value)}" for name, value in self.options.items()]
        return f"{self.kind}({', '.join(given)})"

    def trained(self):
        """A net, and the inputs of its steps."""
        torch.manual_seed(0)
        inputs = tuple(x if isinstance(x, torch.Tensor) else torch.randn(x) for x in self.shapes)
        # Each module its own tensors.
        args, options = copy.deepcopy((self.args, self.options))
        part = getattr(nn, self.kind)(*args, **options)
        if self.make:
            self.make(part)
        return Trained(part, self.call, inputs), inputs


CASES = []


def case(kinds, x, *args, **options):
    """Of one class, or of several whose names stand in a line."""
    CASES.extend(Case(kind, x, *args, **options) for kind in kinds.split())


def on(function):
    """Calls a module with a function of what the Linear makes."""
    return lambda part, h, *rest: part(function(h), *rest)


def far(part, h):
    """With what the Linear makes far from zero, where e^x is infinite."""
    return part(150 * h) / 150 + 0.1 * h


def twice(part, h, *rest):
    """With a second operand that depends on the Linear, too."""
    return part(h, h.roll(1, 0) * 0.5 + 0.2, *rest)


ROWS, IMAGES, VOLUMES = (4, 6), (2, 4, 6, 7), (2, 4, 4, 5, 6)
# By dimensions what an op over 1, 2 or 3 axes is called with.
SPATIAL = {1: (3, 4, 9), 2: IMAGES, 3: VOLUMES}
EVEN = {1: (3, 4, 8), 2: (2, 4, 6, 4), 3: (2, 4, 4, 2, 6)}
POINTS = torch.Generator().manual_seed(1)


def numbers(*shape, low=0.0, high=1.0):
    return torch.rand(shape, generator=POINTS) * (high - low) + low


def classes(count, *shape):
    return torch.randint(0, count, shape, generator=POINTS)


# --- Linear layers, and those that move elements ---

case("Linear", ROWS, 6, 4)
case("Linear", (4, 3, 6), 6, 4, bias=False)
case("Bilinear", ROWS, 6, 6, 3, call=twice)
case("Bilinear", ROWS, 6, 6, 3, bias=False, call=twice)
case("Identity", ROWS)
case("Sequential", ROWS, nn.Linear(6, 5), nn.Tanh())
case("Flatten", IMAGES)
case("Flatten", IMAGES, start_dim=2, end_dim=3)
case("Flatten", IMAGES, 1, -2)
case("Unflatten", ROWS, 1, (2, 3))
case("Unflatten", ROWS, -1, (2, -1))
case("PixelShuffle", (2, 8, 3, 4), 2)
case("PixelUnshuffle", (2, 3, 4, 6), 2)
case("ChannelShuffle", IMAGES, 2)
case("Unfold", IMAGES, 2)
case("Unfold", IMAGES, (2, 3), dilation=2, padding=1, stride=(1, 2))
case("Fold", (2, 8, 30), (6, 7), 2)
case("Fold", (2, 12, 15), (6, 7), (2, 3), dilation=2, padding=1, stride=(2, 1))

# --- Activations ---

PLAIN = ("ReLU ReLU6 SiLU Sigmoid Tanh Tanhshrink Mish SELU Hardswish Hardsigmoid LogSigmoid "
         "Softsign ELU CELU GELU Hardshrink Softshrink Hardtanh LeakyReLU Softplus PReLU")
case(PLAIN, ROWS)
case(PLAIN, ROWS, call=far)
case("ELU CELU", ROWS, alpha=1.7)
case("ELU CELU", ROWS, alpha=-0.7)
case("GELU", ROWS, approximate="tanh")
case("GELU", ROWS, approximate="tanh", call=far)
case("Hardshrink Softshrink", ROWS, lambd=0.2)
case("Hardshrink", ROWS, lambd=-0.2)
case("Hardtanh", ROWS, min_val=-0.3, max_val=0.4)
case("LeakyReLU", ROWS, negative_slope=0.2)
case("LeakyReLU", ROWS, negative_slope=-0.2)
case("LeakyReLU", ROWS, negative_slope=1.5)
case("PReLU", ROWS, num_parameters=6, init=0.1)
case("PReLU", IMAGES, num_parameters=4)
case("PReLU", ROWS, init=-0.3)
case("RReLU", ROWS, lower=0.2, upper=0.2)
case("RReLU", ROWS, draws=True)
case("Softplus", ROWS, beta=3.0, threshold=1.0)
case("Softplus", ROWS, beta=-2.0)
case("Softplus", ROWS, beta=0.2, call=far)
case("Threshold", ROWS, 0.1, 0.2)
case("Threshold", ROWS, -0.1, -2.0)
case("GLU", ROWS)
case("GLU", IMAGES, dim=1)
case("Softmax Softmin LogSoftmax", ROWS, dim=1)
case("Softmax Softmin LogSoftmax", IMAGES, dim=1)
case("Softmax Softmin LogSoftmax", ROWS, dim=0, call=far)
case("Softmax Softmin LogSoftmax", ROWS)
case("Softmax2d", IMAGES)

# --- Convolutions ---

for n, x in SPATIAL.items():
    conv, transposed = f"Conv{n}d", f"ConvTranspose{n}d"
    case(conv, x, 4, 6, 3)
    case(conv, x, 4, 6, 3, stride=2, padding=1)
    case(conv, x, 4, 6, (3, 2, 1)[:n], stride=(2, 1, 2)[:n], padding=(2, 1, 0)[:n],
         dilation=(1, 2, 1)[:n])
    case(conv, x, 4, 6, 3, padding="same", dilation=2)
    case(conv, x, 4, 6, 4, padding="same")
    case(conv, x, 4, 6, 2, padding="valid", bias=False)
    case(conv, x, 4, 6, 3, groups=2, padding=2)
    case(conv, x, 4, 4, 3, groups=4)
    for mode in ("reflect", "replicate", "circular"):
        case(conv, x, 4, 3, 3, padding=(2, 1, 2)[:n], padding_mode=mode)
        case(conv, x, 4, 3, 4, padding="same", padding_mode=mode)
    case(transposed, x, 4, 3, 3)
    case(transposed, x, 4, 3, 3, stride=2, padding=1, output_padding=1)
    case(transposed, x, 4, 6, 2, groups=2, dilation=2, bias=False)
    case(transposed, x, 4, 3, (3, 2, 2)[:n], stride=(1, 2, 3)[:n], padding=(2, 0, 1)[:n],
         output_padding=(0, 1, 2)[:n])
    case(transposed, x, 4, 3, 2, stride=2, call=lambda part, h: part(
        h, output_size=[2 * size + 1 for size in h.shape[2:]]))

# --- Pools ---


def with_places(part, h):
    """With a second output, that depends on where the largest are."""
    y, places = part(h)
    return y, y * (0.1 * places)


for n, x in SPATIAL.items():
    most, mean = f"MaxPool{n}d", f"AvgPool{n}d"
    case(f"{most} {mean}", x, 2)
    case(f"{most} {mean}", x, 3, stride=2, padding=1)
    case(f"{most} {mean}", x, 3, stride=2, padding=1, ceil_mode=True)
    case(f"{most} {mean}", x, (3, 2, 3)[:n], stride=(1, 2, 2)[:n], padding=(1, 0, 1)[:n])
    case(f"{most} {mean}", x, 2, stride=3, ceil_mode=True)
    case(most, x, 2, stride=1, padding=1, dilation=2)
    case(most, x, 2, stride=1, dilation=(3, 2, 1)[:n], ceil_mode=True)
    # Of equals one has the gradient.
    case(most, x, 3, stride=2, call=on(F.relu))
    case(most, x, 2, return_indices=True, call=lambda part, h: part(h)[0])
    case(most, x, 3, stride=2, padding=1, return_indices=True, call=with_places)
    case(most, x, 2, dilation=2, stride=1, ceil_mode=True, return_indices=True, call=with_places)
    case(mean, x, 3, stride=2, padding=1, count_include_pad=False)
    case(mean, x, 3, stride=2, padding=1, count_include_pad=False, ceil_mode=True)
    if n > 1:
        case(mean, x, 2, divisor_override=3)
        case(mean, x, 3, padding=1, divisor_override=5, count_include_pad=False)
        case(mean, x, 3, stride=2, padding=1, divisor_override=5, ceil_mode=True)
    for norm in (1, 3, 2.5):
        case(f"LPPool{n}d", x, norm, 2, call=on(torch.exp))
    case(f"LPPool{n}d", x, 2, 3, stride=2, ceil_mode=True)
    case(f"LPPool{n}d", x, float("inf"), 2)
    adaptive = f"AdaptiveAvgPool{n}d AdaptiveMaxPool{n}d"
    case(adaptive, x, 1)
    case(adaptive, x, 2)
    case(adaptive, x, (3, 4, 4)[:n])
    case(adaptive, x, 8)
    if n > 1:
        case(adaptive, x, (None, 3, 2)[:n])
    case(f"AdaptiveMaxPool{n}d", x, 2, return_indices=True, call=lambda part, h: part(h)[0])
    case(f"AdaptiveMaxPool{n}d", x, (3, 4, 4)[:n], return_indices=True, call=with_places)
    pooled = getattr(F, f"max_pool{n}d")
    case(f"MaxUnpool{n}d", EVEN[n], 2, call=lambda part, h, pooled=pooled: part(
        *pooled(h, 2, return_indices=True)))
    case(f"MaxUnpool{n}d", x, 3, stride=2, padding=1, call=lambda part, h, pooled=pooled: part(
        *pooled(h, 3, 2, 1, return_indices=True), output_size=h.shape))
    case(f"MaxUnpool{n}d", x, 2, call=lambda part, h, pooled=pooled: part(
        *pooled(h, 2, return_indices=True), output_size=h.shape))
for n in (2, 3):
    fractional, x = f"FractionalMaxPool{n}d", (2, 3, 7, 5, 6)[:n + 2]
    samples = numbers(1, 3, n)
    case(fractional, x, 2, output_size=3, draws=True)
    case(fractional, x, 2, output_ratio=0.6, draws=True)
    case(fractional, (1, *x[1:]), 2, output_size=(4, 3, 3)[:n], _random_samples=samples)
    case(fractional, (1, *x[1:]), (3, 2, 2)[:n], output_size=3, return_indices=True,
         _random_samples=samples, call=with_places)

# --- Padding ---

SIDES = (2, 1, 1, 2, 0, 2)
for n, x in SPATIAL.items():
    pads = f"ReflectionPad{n}d ReplicationPad{n}d ZeroPad{n}d CircularPad{n}d"
    case(pads, x, 1)
    case(pads, x, SIDES[:2 * n])
    case(pads, x, (1, 3, 2, 0, 3, 1)[:2 * n])
    case(pads, x, (-1, 2, 1, -2, 0, -1)[:2 * n])
    case(f"ConstantPad{n}d", x, 1, 0.7)
    case(f"ConstantPad{n}d", x, SIDES[:2 * n], -1.5)
    case(f"ConstantPad{n}d", x, (-1, 2, 1, -2, 0, -1)[:2 * n], 2.0)

# --- Resizing ---

for n, x in SPATIAL.items():
    smooth = {1: "linear", 2: "bilinear", 3: "trilinear"}[n]
    for mode in ("nearest", "nearest-exact", smooth, *(["bicubic"] if n == 2 else [])):
        case("Upsample", x, scale_factor=2, mode=mode)
        case("Upsample", x, size=(7, 4, 9)[:n], mode=mode)
        case("Upsample", x, scale_factor=1.7, mode=mode)
        case("Upsample", x, scale_factor=0.6, mode=mode)
        case("Upsample", x, scale_factor=1.7, mode=mode, recompute_scale_factor=True)
        if "nearest" not in mode:
            case("Upsample", x, scale_factor=2, mode=mode, align_corners=True)
            case("Upsample", x, size=(7, 4, 9)[:n], mode=mode, align_corners=True)
            case("Upsample", x, scale_factor=1.7, mode=mode, align_corners=True)
            case("Upsample", x, size=1, mode=mode, align_corners=True)
case("UpsamplingNearest2d UpsamplingBilinear2d", IMAGES, scale_factor=2)
case("UpsamplingNearest2d UpsamplingBilinear2d", IMAGES, size=(9, 5))
case("UpsamplingNearest2d UpsamplingBilinear2d", IMAGES, scale_factor=1.7)

# --- Norms ---

TRACKING = "an instance norm that tracks running statistics is not supported"
for n, x in SPATIAL.items():
    batch, instance = f"BatchNorm{n}d", f"InstanceNorm{n}d"
    case(f"{batch} {instance}", x, 4)
    case(f"{batch} {instance}", x, 4, eps=0.1)
    case(batch, x, 4, momentum=0.4)
    case(batch, x, 4, momentum=None)
    case(batch, x, 4, momentum=0.0)
    case(batch, x, 4, affine=False)
    case(batch, x, 4, bias=False)
    case(batch, x, 4, track_running_stats=False)
    case(batch, x, 4, make=lambda part: part.eval())
    case(instance, x, 4, track_running_stats=True, make=lambda part: part.eval())
    case(instance, x, 4, affine=True)
    case(instance, x, 4, affine=True, bias=False)
    case(instance, x, 4, track_running_stats=True, refused=TRACKING)
    case(instance, x, 4, track_running_stats=True, momentum=0.4, affine=True, refused=TRACKING)
case("BatchNorm1d", ROWS, 6)
case("SyncBatchNorm", IMAGES, 4)
for options in ({"eps": 0.1}, {"momentum": 0.4}, {"affine": False}, {"bias": False},
                {"track_running_stats": False}):
    case("SyncBatchNorm", IMAGES, 4, **options)
case("GroupNorm", IMAGES, 2, 4)
case("GroupNorm", ROWS, 3, 6, eps=0.1)
case("GroupNorm", (4, 6, 3), 6, 6, affine=False)
case("GroupNorm", VOLUMES, 1, 4, bias=False)
case("LayerNorm", ROWS, 6)
case("LayerNorm", IMAGES, (4, 6, 7), eps=0.1)
case("LayerNorm", IMAGES, (6, 7), elementwise_affine=False)
case("LayerNorm", ROWS, 6, bias=False)
case("RMSNorm", ROWS, 6)
case("RMSNorm", IMAGES, (6, 7), eps=0.1)
case("RMSNorm", ROWS, 6, elementwise_affine=False)
for n, x in {**SPATIAL, 0: (4, 6, 3)}.items():
    case("LocalResponseNorm", x, 3)
    case("LocalResponseNorm", x, 2, alpha=0.5, beta=0.6, k=2.0)
case("LocalResponseNorm", IMAGES, 9, alpha=0.5)
case("CrossMapLRN2d", IMAGES, 3, alpha=0.5, beta=0.6, k=2, refused="CrossMapLRN2d has a backward")

# --- Dropouts ---

DROPOUTS = {"Dropout": ROWS, "AlphaDropout": ROWS, "FeatureAlphaDropout": IMAGES,
            "Dropout1d": SPATIAL[1], "Dropout2d": IMAGES, "Dropout3d": VOLUMES}
for kind, x in DROPOUTS.items():
    case(kind, x, p=0.0)
    case(kind, x, p=0.3, draws=True)
    case(kind, x, p=1.0, call=lambda part, h: part(h) + 0.1 * h)

# --- Tables ---

RENORMED = "embedding_renorm"
WORDS = torch.tensor([[1, 2, 2], [0, 5, 9], [2, 7, 0], [4, 4, 4]])
FLAT = torch.tensor([1, 2, 2, 0, 5, 9, 2, 7])
case("Embedding", WORDS, 10, 5)
case("Embedding", WORDS, 10, 5, padding_idx=2)
case("Embedding", WORDS, 10, 5, padding_idx=-1)
case("Embedding", WORDS, 10, 5, max_norm=1.0, refused=RENORMED)
case("Embedding", WORDS, 10, 5, max_norm=1.0, norm_type=1.0, refused=RENORMED)
case("Embedding", WORDS, 10, 5, scale_grad_by_freq=True)
case("Embedding", WORDS, 10, 5, scale_grad_by_freq=True, padding_idx=4)
case("Embedding", WORDS, 10, 5, sparse=True)
for mode in ("mean", "sum", "max"):
    several = "bags of several sizes" if mode == "max" else ""
    case("EmbeddingBag", WORDS, 10, 5, mode=mode)
    case("EmbeddingBag", WORDS, 10, 5, mode=mode, padding_idx=2)
    case("EmbeddingBag", WORDS, 10, 5, mode=mode, padding_idx=4)
    if mode != "max":
        case("EmbeddingBag", FLAT, 10, 5, mode=mode,
             call=lambda part, h: part(h, torch.arange(4) * 2))
    case("EmbeddingBag", FLAT, 10, 5, mode=mode, padding_idx=0, refused=several,
         more=(torch.tensor([0, 3, 3, 7]),))
    case("EmbeddingBag", FLAT, 10, 5, mode=mode, include_last_offset=True, refused=several,
         more=(torch.tensor([0, 3, 5, 8]),))
    case("EmbeddingBag", FLAT, 10, 5, mode=mode, refused=several,
         call=lambda part, h: part(h, torch.tensor([0, 3, 4, 8])))
    case("EmbeddingBag", FLAT, 10, 5, mode=mode, include_last_offset=True, refused=several,
         call=lambda part, h: part(h, torch.tensor([0, 3, 5, 8])))
case("EmbeddingBag", WORDS, 10, 5, mode="sum", more=((4, 3),), call=lambda part, h, weights: part(
    h, per_sample_weights=weights))
case("EmbeddingBag", WORDS, 10, 5, max_norm=1.0, refused=RENORMED)
case("EmbeddingBag", WORDS, 10, 5, max_norm=1.0, norm_type=1.0, refused=RENORMED)
case("EmbeddingBag", WORDS, 10, 5, scale_grad_by_freq=True)
case("EmbeddingBag", FLAT, 10, 5, scale_grad_by_freq=True, mode="sum", padding_idx=2,
     more=(torch.tensor([0, 3, 5, 6]), (8,)),
     call=lambda part, h, at, weights: part(h, at, per_sample_weights=weights))
case("EmbeddingBag", WORDS, 10, 5, sparse=True)

# --- Recurrent layers ---

for kind in ("RNN", "GRU", "LSTM"):
    x = (4, 3, 5)
    case(kind, x, 5, 4)
    case(kind, x, 5, 4, batch_first=True)
    case(kind, x, 5, 4, num_layers=2, bidirectional=True, batch_first=True)
    case(kind, x, 5, 4, bias=False, bidirectional=True)
    case(kind, x, 5, 4, num_layers=2, dropout=0.3, draws=True)
    states = [(2, 4, 4)] * (2 if kind == "LSTM" else 1)
    case(kind, x, 5, 4, batch_first=True, bidirectional=True, more=states,
         call=lambda part, h, *states: part(h, states if len(states) > 1 else states[0]))
case("RNN", (4, 3, 5), 5, 4, nonlinearity="relu")
case("RNN", (4, 3, 5), 5, 4, nonlinearity="relu", num_layers=2, batch_first=True)
case("LSTM", (4, 3, 5), 5, 4, proj_size=2)
case("LSTM", (4, 3, 5), 5, 4, proj_size=2, num_layers=2, bidirectional=True, batch_first=True)
case("RNNCell GRUCell LSTMCell", (4, 5), 5, 4)
case("RNNCell GRUCell LSTMCell", (4, 5), 5, 4, bias=False)
case("RNNCell", (4, 5), 5, 4, nonlinearity="relu", more=((4, 4),))
case("GRUCell", (4, 5), 5, 4, more=((4, 4),))
case("LSTMCell", (4, 5), 5, 4, more=((4, 4), (4, 4)), call=lambda part, h, *s: part(h, s))

# --- Attention ---

STEPS = (2, 4, 6)
CAUSAL = torch.ones(4, 4, dtype=torch.bool).triu(1)
PADDED = torch.tensor([[False, False, False, True], [False, False, True, True]])


def to_itself(part, h, *rest, **options):
    return part(h, h, h, *rest, **options)


def attention(**options):
    return lambda part, h, *rest: to_itself(part, h, *rest, **options)


case("MultiheadAttention", STEPS, 6, 2, call=to_itself)
case("MultiheadAttention", STEPS, 6, 2, batch_first=True, call=attention(need_weights=False))
case("MultiheadAttention", STEPS, 6, 2, batch_first=True,
     call=attention(average_attn_weights=False))
case("MultiheadAttention", STEPS, 6, 2, batch_first=True, bias=False, call=to_itself)
for needed in (False, True):
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True, add_bias_kv=True,
         call=attention(need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True, add_zero_attn=True,
         call=attention(need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True, add_bias_kv=True,
         add_zero_attn=True, more=(PADDED,),
         call=lambda part, h, mask, needed=needed: to_itself(
             part, h, mask, attn_mask=CAUSAL, need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True, kdim=3, vdim=5,
         call=lambda part, h, needed=needed: part(h, h[..., :3], h[..., 1:],
                                                  need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True, more=(PADDED,),
         call=lambda part, h, mask, needed=needed: to_itself(part, h, mask, need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True,
         call=attention(attn_mask=CAUSAL, need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True, more=((4, 4, 4),),
         call=lambda part, h, mask, needed=needed: to_itself(part, h, attn_mask=mask,
                                                             need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True,
         call=attention(attn_mask=CAUSAL, is_causal=True, need_weights=needed))
    case("MultiheadAttention", STEPS, 6, 2, batch_first=True, dropout=0.3, draws=True,
         call=attention(need_weights=needed))


def layer(kind, **options):
    return getattr(nn, kind)(6, 2, 8, 0.0, batch_first=True, **options)


LAYERS = "TransformerEncoderLayer TransformerDecoderLayer"


def with_memory(part, h, *rest, **options):
    """A decoder with what it attends to."""
    if "Decoder" in type(part).__name__ or type(part) is nn.Transformer:
        return part(h, h.flip(1) * 0.5, *rest, **options)
    return part(h, *rest, **options)


case(LAYERS, STEPS, 6, 2, 8, 0.0, call=with_memory)
case(LAYERS, STEPS, 6, 2, 8, 0.0, batch_first=True, call=with_memory)
case(LAYERS, STEPS, 6, 2, 8, 0.0, "gelu", batch_first=True, norm_first=True, call=with_memory)
case(LAYERS, STEPS, 6, 2, dim_feedforward=8, dropout=0.0, activation=torch.tanh,
     layer_norm_eps=0.1, batch_first=True, bias=False, call=with_memory)
case(LAYERS, STEPS, 6, 2, 8, 0.3, draws=True, batch_first=True, call=with_memory)
case("TransformerEncoderLayer", STEPS, 6, 2, 8, 0.0, batch_first=True, more=(PADDED,),
     call=lambda part, h, mask: part(h, src_mask=CAUSAL, src_key_padding_mask=mask))
case("TransformerDecoderLayer", STEPS, 6, 2, 8, 0.0, batch_first=True, more=(PADDED,),
     call=lambda part, h, mask: part(h, h.flip(1), tgt_mask=CAUSAL, tgt_is_causal=True,
                                     memory_key_padding_mask=mask))
case("TransformerEncoder", STEPS, layer("TransformerEncoderLayer"), 2, norm=nn.LayerNorm(6))
case("TransformerEncoder", STEPS, layer("TransformerEncoderLayer"), 1, more=(PADDED,),
     call=lambda part, h, mask: part(h, mask=CAUSAL, src_key_padding_mask=mask))
case("TransformerDecoder", STEPS, layer("TransformerDecoderLayer"), 2, norm=nn.LayerNorm(6),
     call=with_memory)
case("Transformer", STEPS, 6, 2, 1, 1, 8, 0.0, call=with_memory)
case("Transformer", STEPS, d_model=6, nhead=2, num_encoder_layers=1, num_decoder_layers=2,
     dim_feedforward=8, dropout=0.0, activation="gelu", layer_norm_eps=0.1, batch_first=True,
     norm_first=True, bias=False, call=with_memory)
case("Transformer", STEPS, 6, 2, 1, 1, 8, 0.0, batch_first=True,
     custom_encoder=nn.Linear(6, 6), custom_decoder=layer("TransformerDecoderLayer"),
     call=lambda part, h: part.decoder(h, part.encoder(h)))
case("Transformer", STEPS, 6, 2, 1, 1, 8, 0.0, batch_first=True, more=(PADDED,),
     call=lambda part, h, mask: part(h, h.flip(1), src_key_padding_mask=mask, tgt_mask=CAUSAL,
                                     tgt_is_causal=True))

# --- Losses ---

SIGNS = torch.tensor([1, -1, 1, -1])
LABELS = torch.tensor([0, 3, 5, 1])
MAPS = classes(4, 2, 6, 7)
WEIGHTS = numbers(6, low=0.5, high=2)
for reduction in ("none", "mean", "sum"):
    r = {"reduction": reduction}
    case("L1Loss MSELoss SmoothL1Loss HuberLoss", ROWS, more=(ROWS,), **r)
    case("L1Loss MSELoss SmoothL1Loss HuberLoss", ROWS, call=twice, **r)
    case("SmoothL1Loss", ROWS, more=(ROWS,), beta=0.3, **r)
    case("SmoothL1Loss", ROWS, more=(ROWS,), beta=0.0, **r)
    case("HuberLoss", ROWS, more=(ROWS,), delta=0.3, **r)
    case("CrossEntropyLoss", ROWS, more=(LABELS,), **r)
    case("CrossEntropyLoss", ROWS, more=(LABELS,), label_smoothing=0.2, **r)
    case("CrossEntropyLoss", ROWS, more=(LABELS,), weight=WEIGHTS, ignore_index=3, **r)
    case("CrossEntropyLoss", ROWS, more=(LABELS,), weight=WEIGHTS, ignore_index=3,
         label_smoothing=0.2, **r)
    case("CrossEntropyLoss", IMAGES, more=(MAPS,), weight=WEIGHTS[:4], ignore_index=1,
         label_smoothing=0.1, **r)
    case("CrossEntropyLoss", ROWS, more=(numbers(4, 6),), weight=WEIGHTS, label_smoothing=0.2, **r)
    case("CrossEntropyLoss", IMAGES, more=(numbers(2, 4, 6, 7),), **r)
    case("CrossEntropyLoss", ROWS, call=lambda part, h: part(h, h.roll(1, 0).softmax(1)), **r)
    case("NLLLoss", ROWS, more=(LABELS,), call=on(lambda h: h.log_softmax(1)), **r)
    case("NLLLoss", ROWS, more=(LABELS,), weight=WEIGHTS, ignore_index=3,
         call=on(lambda h: h.log_softmax(1)), **r)
    case("NLLLoss", IMAGES, more=(MAPS,), weight=WEIGHTS[:4], ignore_index=1, **r)
    case("PoissonNLLLoss", ROWS, more=(numbers(4, 6, high=4),), **r)
    case("PoissonNLLLoss", ROWS, more=(numbers(4, 6, high=4),), full=True, **r)
    case("PoissonNLLLoss", ROWS, more=(numbers(4, 6, high=4),), log_input=False, eps=0.1,
         call=on(lambda h: h.exp()), **r)
    variance = lambda part, h, y: part(h, y, h.roll(1, 0).square() + 0.5)  # noqa: E731
    case("GaussianNLLLoss", ROWS, more=(ROWS,), call=variance, **r)
    case("GaussianNLLLoss", ROWS, more=(ROWS,), full=True, call=variance, **r)
    case("GaussianNLLLoss", ROWS, more=(ROWS, numbers(4, 1)), eps=0.6, **r)
    case("KLDivLoss", ROWS, more=(numbers(4, 6),), call=on(lambda h: h.log_softmax(1)), **r)
    case("KLDivLoss", ROWS, more=(numbers(4, 6, low=-3, high=-1),), log_target=True,
         call=on(lambda h: h.log_softmax(1)), **r)
    case("KLDivLoss", ROWS, more=(numbers(4, 6).round(),), call=on(lambda h: h.log_softmax(1)), **r)
    case("BCELoss", ROWS, more=(numbers(4, 6),), call=on(torch.sigmoid), **r)
    case("BCELoss", ROWS, more=(numbers(4, 6).round(),), weight=WEIGHTS, call=on(torch.sigmoid),
         **r)
    case("BCEWithLogitsLoss", ROWS, more=(numbers(4, 6),), **r)
    case("BCEWithLogitsLoss", ROWS, more=(numbers(4, 6),), weight=WEIGHTS,
         pos_weight=WEIGHTS.flip(0), **r)
    case("BCEWithLogitsLoss", ROWS, more=(numbers(4, 6),), call=on(lambda h: 150 * h), **r)
    case("HingeEmbeddingLoss", ROWS, more=(classes(2, 4, 6) * 2 - 1,), **r)
    case("HingeEmbeddingLoss", ROWS, more=(classes(2, 4, 6) * 2 - 1,), margin=0.4, **r)
    case("MultiLabelMarginLoss", ROWS, more=(torch.tensor(
        [[3, 0, -1, 1, 0, 0], [1, -1, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5], [-1, 2, 0, 0, 0, 0]]),), **r)
    case("SoftMarginLoss", ROWS, more=(classes(2, 4, 6) * 2.0 - 1,), **r)
    case("SoftMarginLoss", ROWS, more=(classes(2, 4, 6) * 2.0 - 1,), call=on(lambda h: 20 * h),
         **r)
    case("MultiLabelSoftMarginLoss", ROWS, more=(numbers(4, 6).round(),), **r)
    case("MultiLabelSoftMarginLoss", ROWS, more=(numbers(4, 6).round(),), weight=WEIGHTS, **r)
    case("CosineEmbeddingLoss", ROWS, more=(SIGNS,), call=twice, **r)
    case("CosineEmbeddingLoss", ROWS, more=(SIGNS,), margin=-0.4, call=twice, **r)
    case("MarginRankingLoss", ROWS, more=(ROWS, classes(2, 4, 6) * 2 - 1), **r)
    case("MarginRankingLoss", ROWS, more=(classes(2, 4, 6) * 2 - 1,), margin=0.4, call=twice, **r)
    case("MultiMarginLoss", ROWS, more=(LABELS,), **r)
    case("MultiMarginLoss", ROWS, more=(LABELS,), p=2, margin=0.4, weight=WEIGHTS, **r)
    three = lambda part, h: part(h, h.roll(1, 0), h.roll(2, 0) * 0.7)  # noqa: E731
    case("TripletMarginLoss TripletMarginWithDistanceLoss", ROWS, call=three, **r)
    case("TripletMarginLoss TripletMarginWithDistanceLoss", ROWS, margin=2.0, swap=True,
         call=three, **r)
    case("TripletMarginLoss", ROWS, p=1.0, eps=0.1, call=three, **r)
    case("TripletMarginLoss", ROWS, p=3.0, call=three, **r)
    case("TripletMarginWithDistanceLoss", ROWS, call=three,
         distance_function=lambda a, b: (a - b).abs().sum(-1), **r)
    lengths = (torch.tensor([[1, 2], [2, 2], [3, 1]]), torch.tensor([5, 4, 3]),
               torch.tensor([2, 2, 1]))
    ctc = lambda part, h, *rest: part(h.log_softmax(2).transpose(0, 1), *rest)  # noqa: E731
    case("CTCLoss", (3, 5, 4), more=lengths, call=ctc, **r)
    # The second example has too few frames.
    case("CTCLoss", (3, 5, 4), more=(lengths[0] - 1, torch.tensor([5, 2, 1]), lengths[2]), blank=3,
         zero_infinity=True, call=ctc, **r)
    case("CTCLoss", (3, 5, 4), more=(lengths[0].flatten()[:5], *lengths[1:]), call=ctc,
         refused="targets that are concatenated", **r)
    case("LinearCrossEntropyLoss", ROWS, 6, 5, more=(LABELS % 5,), **r)
    case("LinearCrossEntropyLoss", ROWS, 6, 5, more=(LABELS % 5,), bias=True,
         weight=WEIGHTS[:5], ignore_index=3, label_smoothing=0.2, **r)
    case("LinearCrossEntropyLoss", ROWS, 6, 5, out_features=(2,), more=(classes(5, 4, 2),), **r)
    case("LinearCrossEntropyLoss", ROWS, 6, 5, more=(LABELS % 5,),
         options=nn.LinearCrossEntropyOptions(), **r)
case("AdaptiveLogSoftmaxWithLoss", ROWS, 6, 10, [3, 6], more=(LABELS,), refused="data-dependent")
case("AdaptiveLogSoftmaxWithLoss", ROWS, 6, 10, [3, 6], more=(LABELS,), div_value=2.0,
     head_bias=True, refused="data-dependent")

# --- Distances ---

case("CosineSimilarity", ROWS, call=twice)
case("CosineSimilarity", IMAGES, dim=2, eps=0.5, call=twice)
case("PairwiseDistance", ROWS, call=twice)
case("PairwiseDistance", ROWS, p=1.0, eps=0.1, keepdim=True, call=twice)
case("PairwiseDistance", ROWS, p=3.0, call=twice)
case("PairwiseDistance", ROWS, p=float("inf"), call=twice)
case("PairwiseDistance", ROWS, p=0.5, call=twice)
case("PairwiseDistance", ROWS, p=0.0, call=twice, refused="does not reach the loss")
