#!/usr/bin/env python3
"""Memory of a training step as reported by each framework, beside Stowage's arena.

No step runs and no GPU is needed: PyTorch counts by MemTracker, eagerly under
FakeTensorMode, over two steps; XLA by memory_analysis of the compiled step, weights
and moments donated: arguments + results + temporaries - what is shared; Stowage by
`stowage plan` with all memory optimizations off. Each row is one net, batch and element type
(autocast: f32 weights, bf16 products; Stowage's bf16), with SGD and momentum for
images, AdamW for text. XLA counts the nets that are written for it below.

    bazel build //tools:stowage
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch "jax[cpu]"
    /tmp/venv/bin/python bench/framework_bytes.py [--skip-xla] [NET...]

Prints a table in Markdown.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLASSES = 1000

# Net, batch, tokens of a sequence or (channels, size of an image), element type.
ROWS = [
    ("gpt2-124m", 64, 1024, "autocast"),
    ("gpt2-124m", 4, 1024, "f32"),
    ("gpt-nano", 8, 64, "f32"),
    ("llama-nano", 8, 64, "f32"),
    ("lstm-char", 32, 64, "f32"),
    ("cnn-small", 64, (1, 28), "f32"),
    ("resnet18", 32, (3, 224), "f32"),
    ("resnet50", 32, (3, 224), "f32"),
    ("vgg19", 32, (3, 224), "f32"),
    ("mobilenet-v2", 32, (3, 224), "f32"),
    ("unet", 4, (1, 256), "f32"),
    ("vit-tiny", 64, (3, 64), "f32"),
]


def classes_of(net):
    return {"cnn-small": 10, "unet": 2, "vit-tiny": 200}.get(net, CLASSES)


def of_stowage(net, batch, shape, dtype):
    command = [ROOT / "bazel-bin/tools/stowage", "plan", "--model", net]
    command += ["--batch", str(batch), "--json", "--no-plan-cache"]
    if isinstance(shape, int):
        command += ["--seq", str(shape)]
    else:
        command += ["--optimizer", "momentum"]
    command += ["--dtype", "bf16"] if dtype == "autocast" else ["--device", "cpu"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out)["arena_bytes"]


def of_torch(net, batch, shape, dtype):
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    import torch_nets

    with FakeTensorMode():
        if isinstance(shape, int):
            model = torch_nets.make_text(net)
            x = y = torch.zeros(batch, shape, dtype=torch.long)
            optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        else:
            channels, size = shape
            model = torch_nets.make(net, channels, size, classes_of(net))
            x = torch.zeros(batch, channels, size, size)
            labels = (batch, size, size) if net == "unet" else (batch,)
            y = torch.zeros(labels, dtype=torch.long)
            optimizer = torch.optim.SGD(
                model.parameters(), lr=1e-3, momentum=0.9, foreach=False
            )
        tracker = MemTracker()
        tracker.track_external(model, optimizer, x, y)
        with tracker:
            for step in range(2):  # the first makes the optimizer's states
                with torch.autocast("cpu", torch.bfloat16, dtype == "autocast"):
                    loss = model(x, y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                if step == 0:
                    tracker.reset_mod_stats()
        peak = tracker.get_tracker_snapshot("peak")
        return sum(kinds["Total"] for kinds in peak.values())


def counted(step, donated, *args):
    """XLA's count of a compiled step: what it is given, gives and needs between, what
    is given away for a result once."""
    import jax

    bytes_ = jax.jit(step, donate_argnums=donated).lower(*args).compile().memory_analysis()
    return (
        bytes_.argument_size_in_bytes
        + bytes_.output_size_in_bytes
        + bytes_.temp_size_in_bytes
        - bytes_.alias_size_in_bytes
    )


def of_xla_resnet(batch, image, depths, wide, classes):
    """A ResNet of that many blocks a stage, of three convolutions each if `wide` is 4,
    else of two; SGD with momentum, running statistics followed."""
    import jax
    import jax.numpy as jnp

    shapes = {}

    def conv(name, cin, cout, k):
        shapes[name] = (cout, cin, k, k)
        shapes[name + ".bn"] = (2, cout)
        shapes[name + ".stats"] = (2, cout)

    conv("stem", image[0], 64, 7)
    cin, blocks = 64, []
    for stage, depth in enumerate(depths):
        for i in range(depth):
            name, width = f"{stage}.{i}", 64 << stage
            cout, stride = width * wide, 2 if stage > 0 and i == 0 else 1
            kernels = [(1, 1), (3, stride), (1, 1)] if wide == 4 else [(3, stride), (3, 1)]
            widths = [cin] + [width] * (len(kernels) - 1) + [cout]
            for j, (k, _) in enumerate(kernels):
                conv(f"{name}.{j}", widths[j], widths[j + 1], k)
            shortcut = stride != 1 or cin != cout
            if shortcut:
                conv(f"{name}.down", cin, cout, 1)
            blocks.append((name, kernels, stride, shortcut))
            cin = cout
    shapes |= {"fc": (cin, classes), "fc.b": (classes,)}
    stats = {n: s for n, s in shapes.items() if n.endswith(".stats")}
    params = {n: s for n, s in shapes.items() if n not in stats}

    def loss(p, running, x, y):
        followed = {}

        def normed(x, name, k, stride):
            x = jax.lax.conv_general_dilated(
                x, p[name], (stride, stride), [(k // 2, k // 2)] * 2
            )
            mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
            followed[name + ".stats"] = 0.9 * running[name + ".stats"] + 0.1 * jnp.stack(
                [mean, variance]
            )
            scale = p[name + ".bn"][0] * jax.lax.rsqrt(variance + 1e-5)
            shift = p[name + ".bn"][1] - mean * scale
            return x * scale[:, None, None] + shift[:, None, None]

        x = jax.nn.relu(normed(x, "stem", 7, 2))
        x = jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0)] * 2 + [(1, 1)] * 2
        )
        for name, kernels, stride, shortcut in blocks:
            h = x
            for j, (k, s) in enumerate(kernels):
                h = normed(h, f"{name}.{j}", k, s)
                if j + 1 < len(kernels):
                    h = jax.nn.relu(h)
            x = jax.nn.relu(h + (normed(x, f"{name}.down", 1, stride) if shortcut else x))
        logits = x.mean((2, 3)) @ p["fc"] + p["fc.b"]
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], -1)
        return -picked.mean(), followed

    def step(p, m, running, x, y):
        (value, followed), gradients = jax.value_and_grad(loss, has_aux=True)(p, running, x, y)
        tree = jax.tree_util.tree_map
        m = tree(lambda m, g: 0.9 * m + g, m, gradients)
        return tree(lambda p, m: p - 1e-3 * m, p, m), m, followed, value

    made = lambda all: {n: jax.ShapeDtypeStruct(s, jnp.float32) for n, s in all.items()}
    x = jax.ShapeDtypeStruct((batch, *image), jnp.float32)
    y = jax.ShapeDtypeStruct((batch,), jnp.int32)
    return counted(step, (0, 1, 2), made(params), made(params), made(stats), x, y)


def of_xla(batch, seq, layers, heads, width, vocabulary, positions):
    """A GPT-2 of that size, the step of AdamW compiled with its state donated."""
    import jax
    import jax.numpy as jnp

    c, v = width, vocabulary
    shapes = {"wte": (v, c), "wpe": (positions, c), "ln_f": (2, c)}
    for i in range(layers):
        shapes |= {f"{i}.ln_1": (2, c), f"{i}.ln_2": (2, c)}
        for name, rows, columns in (
            ("attn", c, 3 * c),
            ("proj", c, c),
            ("fc", c, 4 * c),
            ("mlp", 4 * c, c),
        ):
            shapes |= {f"{i}.{name}": (rows, columns), f"{i}.{name}.b": (columns,)}

    def norm(x, w):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[0] + w[1]

    def loss(p, tokens, targets):
        x = p["wte"][tokens] + p["wpe"][:seq]
        for i in range(layers):
            linear = lambda h, name: h @ p[f"{i}.{name}"] + p[f"{i}.{name}.b"]
            q, k, values = jnp.split(linear(norm(x, p[f"{i}.ln_1"]), "attn"), 3, -1)
            cut = lambda h: h.reshape(batch, seq, heads, c // heads)
            h = jax.nn.dot_product_attention(cut(q), cut(k), cut(values), is_causal=True)
            x = x + linear(h.reshape(batch, seq, c), "proj")
            h = jax.nn.gelu(linear(norm(x, p[f"{i}.ln_2"]), "fc"))
            x = x + linear(h, "mlp")
        logits = norm(x, p["ln_f"]) @ p["wte"].T
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)
        return -picked.mean()

    def step(p, m, s, k, tokens, targets):
        value, gradients = jax.value_and_grad(loss)(p, tokens, targets)
        tree = jax.tree_util.tree_map
        m = tree(lambda m, g: 0.9 * m + 0.1 * g, m, gradients)
        s = tree(lambda s, g: 0.95 * s + 0.05 * g * g, s, gradients)
        of_m, of_s = 1 - 0.9**k, 1 - 0.95**k
        update = lambda p, m, s: p - 1e-3 * (
            m / of_m / (jnp.sqrt(s / of_s) + 1e-8) + 0.1 * p
        )
        return tree(update, p, m, s), m, s, value

    params = {n: jax.ShapeDtypeStruct(s, jnp.float32) for n, s in shapes.items()}
    tokens = jax.ShapeDtypeStruct((batch, seq), jnp.int32)
    count = jax.ShapeDtypeStruct((), jnp.float32)
    return counted(step, (0, 1, 2), params, params, params, count, tokens, tokens)


GPTS = {
    "gpt2-124m": (12, 12, 768, 50257, 1024),
    "gpt-nano": (4, 4, 128, 96, 256),
}
RESNETS = {
    "resnet18": ((2, 2, 2, 2), 1),
    "resnet50": ((3, 4, 6, 3), 4),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = sorted({row[0] for row in ROWS})
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(names))
    parser.add_argument("--skip-xla", action="store_true")
    args = parser.parse_args()
    unknown = [net for net in args.nets if net not in names]
    if unknown:
        parser.error(f"no net {unknown[0]}; expected {', '.join(names)}")

    versions = []
    import torch

    versions.append(f"PyTorch {torch.__version__}")
    if not args.skip_xla:
        import jax

        versions.append(f"JAX {jax.__version__}")
    print(f"| step ({', '.join(versions)}) | PyTorch eager | XLA | Stowage | of the least |")
    print("|---|---:|---:|---:|---:|")
    for net, batch, shape, dtype in ROWS:
        if args.nets and net not in args.nets:
            continue
        ours = of_stowage(net, batch, shape, dtype)
        theirs = [of_torch(net, batch, shape, dtype)]
        xla = "-"
        if net in (*GPTS, *RESNETS) and dtype == "f32" and not args.skip_xla:
            if net in GPTS:
                theirs.append(of_xla(batch, shape, *GPTS[net]))
            else:
                image = (shape[0], shape[1], shape[1])
                theirs.append(of_xla_resnet(batch, image, *RESNETS[net], classes_of(net)))
            xla = f"{theirs[1] / 1e9:.3g} GB"
        sizes = shape if isinstance(shape, int) else " × ".join(
            map(str, (shape[0], shape[1], shape[1]))
        )
        print(
            f"| {net}, {batch} × {sizes}, {dtype} | {theirs[0] / 1e9:.3g} GB | {xla} "
            f"| {ours / 1e9:.3g} GB | {ours / min(theirs):.2f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
