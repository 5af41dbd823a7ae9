#!/usr/bin/env python3
"""Compares nets exported by torch.onnx with PyTorch and ONNX Runtime.

Each net is exported by the newest exporter (dynamo, not optimized, so that batch norms
and names stay), and then

  logits    what it gives: ours against PyTorch's, the largest difference, relative to
            the largest logit where that is above 1
  f64       five steps of SGD by `stowage train --onnx` of the net in f64 against
            PyTorch's, the largest difference of the losses, which are told in f32;
            what PyTorch does not train is frozen
  f32       the same of the net in f32, still against PyTorch's in f64
  PyTorch   that difference for PyTorch's own f32: a ReLU behind a batch norm of few
            numbers turns by a rounding, and moves a loss by hundredths, so that only
            calm data judge the f32. Rates and seeds stand in the table of nets;
            --seeds N tells this difference of seeds 1 to N, by oneDNN and without, and
            measures nothing else
  tight     the steps in f32 again in 60 % of the arena that they take, recomputing and
            offloading; or in the smallest budget, where that is above. Where the table
            of nets says so, all steps take the batch in micro-batches; the arena is that of
            one micro-batch
  back      the file as it was written back after the steps: ONNX Runtime's logits
            against ours, likewise
  arena     of the step, over its lower bound, and how long planning it takes, the whole
            command
  pass      what a plan of a pass has beside the weights: activations, and all, which is
            with inputs, outputs and scratch; and the block that ONNX Runtime wants for
            its memory pattern, which is activations

    bazel build //tools:stowage //bench:onnx_forward
    pip install torch torchvision timm transformers onnx onnxscript onnxruntime
    python bench/onnx_nets.py [NET...]

Prints a table in Markdown.
"""

import argparse
import copy
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import typing
import warnings

import numpy as np
import onnx
import onnxruntime
import timm
import torch
import torchvision
import transformers

warnings.filterwarnings("ignore")
onnxruntime.set_default_logger_severity(3)
ROOT = pathlib.Path(__file__).resolve().parent.parent
STOWAGE = ROOT / "bazel-bin/tools/stowage"
FORWARD = ROOT / "bazel-bin/bench/onnx_forward"
M = torchvision.models
STEPS = 5


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


@dataclasses.dataclass
class Net:
    make: typing.Callable
    shape: tuple  # of the input: tokens where it has two dimensions
    rate: float = 0.001  # of the five steps
    seed: int = 1  # of weights, input and labels
    micro_batches: int = 1  # that the batch is taken in where the steps run in 60 %


def images(make, size=64, batch=16, **more):
    return Net(make, (batch, 3, size, size), **more)


def of_timm(name, size=64, rate=0.001, **options):
    whole = lambda: timm.create_model(name, num_classes=10, drop_rate=0.0, **options)
    return images(whole, size, batch=4, rate=rate)


def segmentation(make, batch=8):
    make_whole = lambda: First(
        make(weights=None, weights_backbone=None, num_classes=5), lambda y: y["out"]
    )
    return images(make_whole, batch=batch)


def pyramid(make):
    """The maps of a detector's backbone, all places of all of them in a row."""
    places = lambda maps: torch.cat([m.flatten(2) for m in maps.values()], 2)
    return images(lambda: First(make(), lambda y: places(y).transpose(1, 2)), batch=2)


def means(make, size):
    """The maps of a detector's backbone that differ in channels, by their means."""
    joined = lambda maps: torch.cat([m.mean((2, 3)) for m in maps.values()], 1)
    return images(lambda: First(make(), joined), size, batch=4, rate=1e-5)


def text(make, config):
    return Net(lambda: First(make(config), lambda y: y.logits), (8, 32))


EAGER = dict(attn_implementation="eager")
SMALL = dict(vocab_size=100, **EAGER)
BARE = dict(weights=None, weights_backbone=None)
NETS = {
    "resnet18": images(lambda: M.resnet18(num_classes=10), batch=64, rate=1e-4),
    "mobilenet_v2": images(lambda: M.mobilenet_v2(num_classes=10), 128, rate=1e-5),
    # In one micro-batch its floor, 515 MB of weights and 411 MB of one gradient, is never below
    # 0.64 of what a step takes.
    "vgg11": images(lambda: M.vgg11(num_classes=10), batch=512, micro_batches=8),
    "densenet121": images(lambda: M.densenet121(num_classes=10), rate=2e-5),
    "shufflenet_v2": images(
        lambda: M.shufflenet_v2_x0_5(num_classes=10), batch=32, rate=1e-5
    ),
    "efficientnet_b0": images(lambda: M.efficientnet_b0(num_classes=10)),
    "lraspp": segmentation(M.segmentation.lraspp_mobilenet_v3_large),
    "deeplabv3": segmentation(M.segmentation.deeplabv3_mobilenet_v3_large, batch=16),
    "vit_b_16": images(
        lambda: M.VisionTransformer(64, 16, 12, 12, 768, 3072, num_classes=10), batch=32
    ),
    "lstm": Net(Recurrent, (16, 24, 16)),
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
    "vit": images(
        lambda: First(
            transformers.ViTForImageClassification(
                transformers.ViTConfig(
                    num_hidden_layers=2,
                    num_attention_heads=2,
                    hidden_size=64,
                    intermediate_size=128,
                    image_size=64,
                    num_labels=10,
                    **EAGER,
                )
            ),
            lambda y: y.logits,
        ),
    ),
    "whisper encoder": Net(
        lambda: First(
            transformers.models.whisper.modeling_whisper.WhisperEncoder(
                transformers.WhisperConfig(
                    encoder_layers=2,
                    encoder_attention_heads=2,
                    d_model=64,
                    encoder_ffn_dim=128,
                    max_source_positions=50,
                    **EAGER,
                )
            ),
            lambda y: y.last_hidden_state,
        ),
        (8, 80, 100),
    ),
    "fcn_resnet50": segmentation(M.segmentation.fcn_resnet50, batch=2),
    "resnet50 FPN": pyramid(
        lambda: M.detection.backbone_utils.resnet_fpn_backbone(
            backbone_name="resnet50", weights=None, trainable_layers=5
        )
    ),
    "retinanet FPN": pyramid(
        lambda: M.detection.retinanet_resnet50_fpn(**BARE).backbone
    ),
    "ssdlite backbone": means(
        lambda: M.detection.ssdlite320_mobilenet_v3_large(**BARE).backbone, 128
    ),
    "convnext_atto": of_timm("convnext_atto"),
    "efficientnetv2_rw_t": of_timm("efficientnetv2_rw_t", rate=1e-5),
    "regnety_002": of_timm("regnety_002"),
    "swin_tiny": of_timm("swin_tiny_patch4_window7_224", 112, img_size=112),
    "mobilevit_xxs": of_timm("mobilevit_xxs"),
    "deit_tiny": of_timm("deit_tiny_patch16_224", img_size=64),
    "mixer_s32": of_timm("mixer_s32_224", img_size=64),
    "resnetv2_50": of_timm("resnetv2_50"),
    "resnetv2_50x1_bit": of_timm("resnetv2_50x1_bit"),
    "eca_nfnet_l0": of_timm("eca_nfnet_l0"),
    "edgenext_xx_small": of_timm("edgenext_xx_small"),
    "mobilenetv3_small": of_timm("mobilenetv3_small_100"),
    "mobilenetv4_conv_small": of_timm("mobilenetv4_conv_small"),
    "ghostnet_050": of_timm("ghostnet_050"),
    "hrnet_w18_small": of_timm("hrnet_w18_small"),
    "coat_lite_tiny": of_timm("coat_lite_tiny", img_size=64),
    "xcit_nano": of_timm("xcit_nano_12_p16_224"),
    "pvt_v2_b0": of_timm("pvt_v2_b0"),
    "poolformer_s12": of_timm("poolformer_s12"),
    "resnet50d": of_timm("resnet50d"),
    "seresnext26d": of_timm("seresnext26d_32x4d"),
    "res2net50": of_timm("res2net50_26w_4s"),
    "inception_v3": of_timm("inception_v3", 96),
    "repvgg_a0": of_timm("repvgg_a0"),
    "efficientvit_b0": of_timm("efficientvit_b0"),
    "eva02_tiny": of_timm("eva02_tiny_patch14_224", 56, img_size=56),
}


def made(net, seed):
    """The net, an input and labels; nothing in it draws at random."""
    shape = NETS[net].shape
    torch.manual_seed(seed)
    model = NETS[net].make()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if type(module).__name__ == "StochasticDepth":
            module.p = 0.0
        if type(module).__name__ == "DropPath":
            module.drop_prob = 0.0
        if isinstance(getattr(module, "eps", None), float):
            module.eps = float(np.float32(module.eps))  # as the file has it
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


def losses_of(model, x, labels, net, dtype):
    """Of PyTorch, in the net's micro-batches, so that it needs no more memory than we do."""
    model = copy.deepcopy(model).to(dtype).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, net.rate)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.append(0.0)
        for inputs, wanted in zip(x.chunk(net.micro_batches), labels.chunk(net.micro_batches)):
            y = model(inputs if x.dtype == torch.long else inputs.to(dtype))
            if y.dim() == 3:
                y = y.transpose(1, 2)
            loss = torch.nn.functional.cross_entropy(y, wanted) / net.micro_batches
            loss.backward()
            losses[-1] += loss.item()
        optimizer.step()
    return np.array(losses)


def calm(net, seeds):
    """How far PyTorch's own f32 is from its f64, a line for each seed."""
    of = NETS[net]
    for seed in range(1, seeds + 1):
        model, x, labels = made(net, seed)
        exact = losses_of(model, x, labels, of, torch.float64)
        apart = []
        for onednn in (True, False):
            with torch.backends.mkldnn.flags(enabled=onednn):
                own = losses_of(model, x, labels, of, torch.float32)
            apart.append(np.abs(own - exact).max())
        print(
            f"{net}, lr {of.rate:g}, seed {seed}: {apart[0]:.0e}, {apart[1]:.0e}; "
            f"losses {exact[0]:.4f} to {exact[-1]:.4f}",
            flush=True,
        )


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


def export(model, x, file, micro_batches):
    """With a batch that has a name where it is taken in micro-batches."""
    batch = ({0: torch.export.Dim("batch")},) if micro_batches > 1 else None
    torch.onnx.export(
        model.eval(),
        (x,),
        file,
        dynamo=True,
        optimize=False,
        external_data=False,
        verbose=False,
        dynamic_shapes=batch,
        input_names=["x"],
        output_names=["y"],
    )


def apart(ours, theirs):
    """The largest difference, of numbers above 1 relative to the largest."""
    return np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max())


def frozen(model, file):
    """The flags that keep from training what PyTorch does not train: all floats of the
    file that are none of the model's params, but for the statistics of batch norms."""
    params = model.named_parameters(remove_duplicate=False)
    trained = {name for name, param in params if param.requires_grad}
    graph = onnx.load(file).graph
    floats = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE}
    held = {tensor.name for tensor in graph.initializer if tensor.data_type in floats}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            held -= set(node.input[3:5])
    return [flag for name in sorted(held - trained) for flag in ("--freeze", name)]


def row(net, folder, threads):
    of = NETS[net]
    model, x, labels = made(net, of.seed)
    exact = losses_of(model, x, labels, of, torch.float64)
    own = losses_of(model, x, labels, of, torch.float32)
    file, data = folder / "net.onnx", folder / "data.npz"

    wide = x if x.dtype == torch.long else x.double()
    export(copy.deepcopy(model).double(), wide, file, of.micro_batches)
    batch = ["--batch", len(x)] if of.micro_batches > 1 else []
    step = ["--onnx", file, *batch, "--loss", "cross_entropy", "--optimizer", "sgd"]
    step += frozen(model, file)
    run = [*step, "--data", data, "--lr", of.rate, "--shuffle", "none", "--steps", STEPS]
    run += ["--micro-batches", of.micro_batches]
    device = ["--device", "cpu", "--threads", threads]
    run += device
    np.savez(data, x=wide.numpy(), labels=labels.numpy())
    lines = stowage("train", *run)
    doubles = np.array([line["loss"] for line in lines[:STEPS]])

    export(model, x, file, of.micro_batches)
    np.savez(data, x=x.numpy(), labels=labels.numpy())
    with torch.no_grad():
        logits = apart(forward(folder, file, x), model(x).numpy())
    back = folder / "back.onnx"
    lines = stowage("train", *run, "--save-onnx", back)
    ours = np.array([line["loss"] for line in lines[:STEPS]])

    arena = stowage("plan", *step, *device)[0]["arena_bytes"]
    optimizations = ["--recompute", "auto", "--offload", "auto"]
    micro_batches = ["--micro-batches", of.micro_batches]
    planned = stowage("plan", *step, *optimizations, *micro_batches, *device)[0]
    least = planned["minimum_budget_bytes"]
    budget = max(int(0.6 * arena), least)
    lines = stowage("train", *run, *optimizations, "--budget", budget)
    tight = np.array([line["loss"] for line in lines[:STEPS]])

    session = onnxruntime.InferenceSession(back, providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"x": x.numpy()})[0]
    returned = apart(forward(folder, back, x), theirs)

    start = time.time()
    whole = stowage("plan", *step)[0]
    seconds = time.time() - start
    infer = stowage("plan", "--onnx", file, *batch, "--device", "cpu", "--threads", 1)[0]
    block = onnxruntime_bytes(file, {"x": x.numpy()})
    apart_of = lambda losses: f"{np.abs(losses - exact).max():.0e}"
    return "| " + " | ".join(
        [
            f"{net}, {' × '.join(map(str, x.shape))}"
            + (f", in {of.micro_batches}" if of.micro_batches > 1 else ""),
            f"{of.rate:g}",
            f"{of.seed}",
            f"{logits:.0e}",
            apart_of(doubles),
            apart_of(ours),
            apart_of(own),
            f"{budget / arena:.2f}",
            "same bits" if (tight == ours).all() else apart_of(tight),
            f"{returned:.0e}",
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
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seeds", type=int, metavar="N", help="look for calm seeds")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    unknown = [net for net in args.nets if net not in NETS]
    if unknown:
        parser.error(f"no net {unknown[0]}; expected {', '.join(NETS)}")
    print(
        f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, "
        f"timm {timm.__version__}, transformers {transformers.__version__}, ONNX Runtime {onnxruntime.__version__}\n"
    )
    for net in (args.nets or NETS) if args.seeds else []:
        calm(net, args.seeds)
    if args.seeds:
        return
    print(
        "| net | lr | seed | logits | f64 | f32 | PyTorch | budget/arena | tight | back "
        "| arena, MB | of the bound | plan, s | pass, MB | all, MB | ONNX Runtime, MB |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for net in args.nets or NETS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(row(net, pathlib.Path(folder), args.threads), flush=True)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"| {net} | {' '.join(str(error).split())[:300]} |", flush=True)


if __name__ == "__main__":
    main()
