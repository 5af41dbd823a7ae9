#!/usr/bin/env python3
"""Nets that torch.onnx exports, beside PyTorch and ONNX Runtime.

Each net is exported by the newest exporter (dynamo, not optimized, so that batch norms
and names stay), and then

  logits    what it gives: ours against PyTorch's, the largest difference
  f64       five steps of SGD by `stowage train --onnx` of the net in f64 against
            PyTorch's, the largest difference of the losses, which are told in f32
  f32       the same of the net in f32, still against PyTorch's in f64
  PyTorch   that difference for PyTorch's own f32: a ReLU behind a batch norm of few
            numbers turns by a rounding, and moves a loss by hundredths
  tight     the steps in f32 again in 60 % of the arena that they take, recomputing and
            offloading; or in the smallest budget, where that is above
  back      the file as it was written back after the steps: ONNX Runtime's logits
            against ours, the largest difference
  arena     of the step, over its lower bound, and how long planning it takes, the whole
            command
  pass      what a plan of a pass has beside the weights: activations, and all, which is
            with inputs, outputs and scratch; and the block that ONNX Runtime wants for
            its memory pattern, which is activations

    bazel build //tools:stowage //bench:onnx_forward
    pip install torch torchvision transformers onnx onnxscript onnxruntime
    python bench/onnx_nets.py [NET...]

Prints a table in Markdown.
"""

import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import onnxruntime
import torch
import torchvision
import transformers

warnings.filterwarnings("ignore")
onnxruntime.set_default_logger_severity(3)
ROOT = pathlib.Path(__file__).resolve().parent.parent
STOWAGE = ROOT / "bazel-bin/tools/stowage"
FORWARD = ROOT / "bazel-bin/bench/onnx_forward"
M = torchvision.models
STEPS, RATE = 5, 0.001


class First(torch.nn.Module):
    """The one tensor that the net is about."""

    def __init__(self, net, pick):
        super().__init__()
        self.net, self.pick = net, pick

    def forward(self, x):
        return self.pick(self.net(x))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(16, 32, 2, batch_first=True)
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def pictures(make, size=64, batch=16):
    return make, (batch, 3, size, size)


def segmentation(make):
    whole = lambda: First(
        make(weights=None, weights_backbone=None, num_classes=5), lambda y: y["out"]
    )
    return whole, (8, 3, 64, 64)


def text(make, config):
    whole = lambda: First(make(config), lambda y: y.logits)
    return whole, (8, 32)


SMALL = dict(attn_implementation="eager", vocab_size=100)
NETS = {
    "resnet18": pictures(lambda: M.resnet18(num_classes=10), batch=64),
    "mobilenet_v2": pictures(lambda: M.mobilenet_v2(num_classes=10), 128),
    "vgg11": pictures(lambda: M.vgg11(num_classes=10), batch=4),
    "densenet121": pictures(lambda: M.densenet121(num_classes=10)),
    "shufflenet_v2": pictures(lambda: M.shufflenet_v2_x0_5(num_classes=10), 128),
    "efficientnet_b0": pictures(lambda: M.efficientnet_b0(num_classes=10)),
    "lraspp": segmentation(M.segmentation.lraspp_mobilenet_v3_large),
    "deeplabv3": segmentation(M.segmentation.deeplabv3_mobilenet_v3_large),
    "vit_b_16": pictures(
        lambda: M.VisionTransformer(64, 16, 12, 12, 768, 3072, num_classes=10), batch=32
    ),
    "lstm": (Recurrent, (8, 12, 16)),
    "bert": text(
        transformers.BertForSequenceClassification,
        transformers.BertConfig(
            num_hidden_layers=2,
            num_attention_heads=2,
            hidden_size=128,
            intermediate_size=512,
            **SMALL,
        ),
    ),
    "gpt2": text(
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config(
            n_layer=2, n_head=4, n_embd=64, n_positions=32, use_cache=False, **SMALL
        ),
    ),
    "llama": text(
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig(
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            hidden_size=64,
            intermediate_size=128,
            max_position_embeddings=32,
            use_cache=False,
            **SMALL,
        ),
    ),
}


def made(net):
    """The net, an input and labels; nothing in it draws at random."""
    make, shape = NETS[net]
    torch.manual_seed(1)
    model = make()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if type(module).__name__ == "StochasticDepth":
            module.p = 0.0
    with torch.no_grad():  # so that nothing is all zeros or all ones
        for tensor in [*model.parameters(), *model.buffers()]:
            if not tensor.is_floating_point():
                continue
            if tensor.dim() <= 1 or not tensor.any():
                tensor.add_(0.01 * torch.rand_like(tensor))
    if len(shape) == 2:
        x = torch.randint(0, SMALL["vocab_size"], shape)
    else:
        x = torch.randn(shape)
    with torch.no_grad():
        y = model.eval()(x)
    classes = y.shape[1] if y.dim() == 4 else y.shape[-1]
    without = [d for i, d in enumerate(y.shape) if i != (1 if y.dim() == 4 else y.dim() - 1)]
    return model, x, torch.randint(0, classes, without)


def losses_of(model, x, labels, dtype):
    model = copy.deepcopy(model).to(dtype).train()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    losses = []
    for _ in range(STEPS):
        y = model(x if x.dtype == torch.long else x.to(dtype))
        if y.dim() == 3:
            y = y.transpose(1, 2)
        loss = torch.nn.functional.cross_entropy(y, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def stowage(*args):
    done = subprocess.run(
        [STOWAGE, *map(str, args), "--no-plan-cache", "--json"],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def forward(folder, file, x):
    np.savez(folder / "in.npz", x=x.numpy())
    subprocess.run([FORWARD, file, folder / "in.npz", folder / "out.npz"], check=True)
    return np.load(folder / "out.npz")["y"]


def onnxruntime_bytes(file, feed):
    """What ONNX Runtime wants for a pass beside weights, inputs, outputs and scratch: the
    block of its memory pattern, by the log of an arena that grows by what it is asked
    for and no more; None where the first run left enough for it."""
    code = """
import sys
import numpy, onnxruntime as o
o.set_default_logger_severity(0)
arena = o.OrtArenaCfg({"arena_extend_strategy": 1, "initial_chunk_size_bytes": 1})
cpu = o.OrtMemoryInfo("Cpu", o.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, o.OrtMemType.DEFAULT)
o.create_and_register_allocator(cpu, arena)
options = o.SessionOptions()
options.add_session_config_entry("session.use_env_allocators", "1")
options.intra_op_num_threads = 1
session = o.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feed = dict(numpy.load(sys.argv[2]))
for run in range(3):
    print("RUN", run, file=sys.stderr, flush=True)
    session.run(None, feed)
"""
    with tempfile.NamedTemporaryFile(suffix=".npz") as inputs:
        np.savez(inputs, **feed)
        inputs.flush()
        log = subprocess.run(
            [sys.executable, "-c", code, file, inputs.name],
            capture_output=True,
            text=True,
        ).stderr
    asked = re.findall(r"\(requested\) num_bytes: (\d+)", log.split("RUN 1")[1])
    return max(map(int, asked)) if asked else None


def pass_cells(plan, block):
    beside = plan["arena_bytes"] - plan["regions"]["weights"]
    return [
        f"{plan['regions']['activations'] / 1e6:.2f}",
        f"{beside / 1e6:.2f}",
        f"{block / 1e6:.2f}" if block else "-",
    ]


def export(model, x, file):
    torch.onnx.export(
        model.eval(),
        (x,),
        file,
        dynamo=True,
        optimize=False,
        external_data=False,
        verbose=False,
        input_names=["x"],
        output_names=["y"],
    )


def row(net, folder):
    model, x, labels = made(net)
    exact = losses_of(model, x, labels, torch.float64)
    own = losses_of(model, x, labels, torch.float32)
    file, data = folder / "net.onnx", folder / "data.npz"
    step = ["--onnx", file, "--loss", "cross_entropy", "--optimizer", "sgd"]
    run = [*step, "--data", data, "--lr", RATE, "--shuffle", "none", "--steps", STEPS]
    run += ["--device", "cpu"]

    wide = x if x.dtype == torch.long else x.double()
    export(copy.deepcopy(model).double(), wide, file)
    np.savez(data, x=wide.numpy(), labels=labels.numpy())
    lines = stowage("train", *run)
    doubles = np.array([line["loss"] for line in lines[:STEPS]])

    export(model, x, file)
    np.savez(data, x=x.numpy(), labels=labels.numpy())
    with torch.no_grad():
        logits = np.abs(forward(folder, file, x) - model(x).numpy()).max()
    back = folder / "back.onnx"
    lines = stowage("train", *run, "--save-onnx", back)
    ours = np.array([line["loss"] for line in lines[:STEPS]])
    arena = lines[0]["arena_bytes"]

    levers = ["--recompute", "auto", "--offload", "auto"]
    least = stowage("plan", *step, *levers, "--device", "cpu")[0]["minimum_budget_bytes"]
    budget = max(int(0.6 * arena), least)
    lines = stowage("train", *run, *levers, "--budget", budget)
    tight = np.array([line["loss"] for line in lines[:STEPS]])

    session = onnxruntime.InferenceSession(back, providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"x": x.numpy()})[0]
    apart = np.abs(forward(folder, back, x) - theirs).max()

    start = time.time()
    whole = stowage("plan", *step)[0]
    seconds = time.time() - start
    infer = stowage("plan", "--onnx", file, "--device", "cpu", "--threads", 1)[0]
    block = onnxruntime_bytes(file, {"x": x.numpy()})
    apart_of = lambda losses: f"{np.abs(losses - exact).max():.0e}"
    return "| " + " | ".join(
        [
            f"{net}, {' × '.join(map(str, x.shape))}",
            f"{logits:.0e}",
            apart_of(doubles),
            apart_of(ours),
            apart_of(own),
            f"{budget / arena:.2f}",
            "same bits" if (tight == ours).all() else apart_of(tight),
            f"{apart:.0e}",
            f"{arena / 1e6:.1f}",
            f"{whole['arena_bytes'] / whole['lower_bound_bytes']:.3f}",
            f"{seconds:.2f}",
            *pass_cells(infer, block),
        ]
    ) + " |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nets", nargs="*", metavar="NET", help=", ".join(NETS))
    args = parser.parse_args()
    unknown = [net for net in args.nets if net not in NETS]
    if unknown:
        parser.error(f"no net {unknown[0]}; expected {', '.join(NETS)}")
    print(
        f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, "
        f"transformers {transformers.__version__}, ONNX Runtime {onnxruntime.__version__}\n"
    )
    print(
        "| net | logits | f64 | f32 | PyTorch | budget/arena | tight | back "
        "| arena, MB | of the bound | plan, s | pass, MB | all, MB | ONNX Runtime, MB |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for net in args.nets or NETS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(row(net, pathlib.Path(folder)), flush=True)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"| {net} | {str(error)[:300]} |", flush=True)


if __name__ == "__main__":
    main()
