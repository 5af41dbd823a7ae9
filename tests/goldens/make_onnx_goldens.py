"""Makes the nets and numbers that tests/onnx/nets_test.cc compares with.

    python3 -m venv venv
    venv/bin/pip install torch==2.15.0 torchvision==0.29.2 transformers==5.23.0 onnx==1.23.2 onnxscript==0.7.2
    venv/bin/python tests/goldens/make_onnx_goldens.py

writes tests/goldens/onnx/NAME.onnx, exported by torch.onnx, and NAME.npz: the input
of the graph, the labels, what the model gives in evaluation ("outputs"), and the losses
of five steps of SGD in training ("losses"), each over the same batch; and norms of zeros
("norms": the gradient of each param). Files are small: widths are, and what an exporter
writes for people is left out.
"""

import io
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
import torchvision
import transformers
from torch import nn
from torch._higher_order_ops.scan import scan

FOLDER = pathlib.Path(__file__).parent / "onnx"
LEARNING_RATE = 0.1


class Images(nn.Module):
    """What nets of images are made of: strides, groups, norms, gates, pools."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.depthwise = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.Hardswish())
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.SiLU(), nn.Conv2d(4, 8, 1), nn.Sigmoid())
        self.dilated = nn.Conv2d(8, 12, 3, padding=2, dilation=2)
        self.norm = nn.GroupNorm(3, 12)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.depthwise(x)
        x = x + y * self.gate(y)
        x = torch.cat([nn.functional.max_pool2d(x, 2), nn.functional.avg_pool2d(x, 2)], 3)
        x = nn.functional.leaky_relu(self.norm(self.dilated(x)), 0.1)
        x = nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.gru(self.lstm(x)[0])[0])


class Looped(nn.Module):
    """As a script: a loop over as many steps as x has, and in it a branch."""

    def __init__(self):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(6, 8), nn.Linear(8, 8)
        self.gain = nn.Parameter(torch.rand(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        h = torch.zeros(x.size(1), 8).to(x.dtype)
        for t in range(x.size(0)):
            h = torch.tanh(self.of_input(x[t]) + self.of_state(h))
            if bool(h.mean() > 0):
                h = h * self.gain
        return self.head(h)


class Scanned(nn.Module):
    """A scan, and a branch that what it gives decides; where it is not exported, what
    these do."""

    def __init__(self):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(6, 8), nn.Linear(8, 8)
        self.one, self.other = nn.Linear(8, 5), nn.Linear(8, 5)

    def step(self, h, x):
        h = torch.tanh(self.of_input(x) + self.of_state(h))
        return h, 2 * h

    def positive(self, y):
        return self.one(y)

    def negative(self, y):
        return self.other(torch.relu(y))

    def forward(self, x):
        x = x.transpose(0, 1)
        h = torch.zeros(x.shape[1], 8, dtype=x.dtype)
        if torch.compiler.is_exporting():
            h, all_h = scan(self.step, h, x)
            return torch.cond(h.mean() > 0, self.positive, self.negative, (all_h.mean(0),))
        all_h = []
        for of_step in x:
            h, y = self.step(h, of_step)
            all_h.append(y)
        y = torch.stack(all_h).mean(0)
        return self.positive(y) if h.mean() > 0 else self.negative(y)


class Norms(nn.Module):
    """Lengths, cosines and deviations, of which each has a row of zeros."""

    def __init__(self):
        super().__init__()
        names = ["l1", "l2", "l3", "frobenius", "normal", "cosine", "std", "std_of_all"]
        for i, name in enumerate(names):  # no two alike, as `varied` says
            rows = torch.tensor([[0, 0, 0], [1 + i, -2, 3]], dtype=torch.float64)
            self.register_parameter(name, nn.Parameter(rows))

    def forward(self, x):
        def cosine(rows):
            return nn.functional.cosine_similarity(rows, x, dim=-1, eps=0.5).sum()

        return (self.l1.norm(p=1, dim=-1).sum() + self.l2.norm(dim=-1).sum()
                + self.l3.norm(p=3, dim=-1).sum()
                + torch.linalg.matrix_norm(self.frobenius[:1]) * 2
                + (nn.functional.normalize(self.normal, dim=-1, eps=0.5) * x).sum()
                + cosine(self.cosine) + self.std.std(dim=-1).sum()
                + self.std_of_all.std(dim=-1, unbiased=False).sum())


class Logits(nn.Module):
    """A model of Hugging Face's that gives its logits alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(input_ids=ids).logits


def transformer(kind):
    common = dict(vocab_size=24, use_cache=False, attn_implementation="eager",
                  bos_token_id=0, eos_token_id=0, pad_token_id=None)
    if kind == "gpt2":
        return Logits(transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_layer=2, n_head=2, n_embd=16, n_positions=16, embd_pdrop=0, attn_pdrop=0,
            resid_pdrop=0, **common)))
    if kind == "llama":
        return Logits(transformers.LlamaForCausalLM(transformers.LlamaConfig(
            num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_size=16,
            intermediate_size=32, max_position_embeddings=16, **common)))
    del common["use_cache"]
    return Logits(transformers.BertForSequenceClassification(transformers.BertConfig(
        num_hidden_layers=2, num_attention_heads=2, hidden_size=16, intermediate_size=32,
        max_position_embeddings=16, num_labels=5, hidden_dropout_prob=0,
        attention_probs_dropout_prob=0, **common)))


def vision_transformer():
    model = torchvision.models.VisionTransformer(
        image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32,
        num_classes=5)
    nn.init.normal_(model.heads.head.weight, std=0.1)  # zeros would hide the rest
    return model


def strip(graph):
    graph.doc_string = ""
    del graph.metadata_props[:]
    for node in graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                strip(attribute.g)
                del attribute.g.value_info[:]


def stripped(model):
    """Without what is for people: notes, metadata and the shapes of values within."""
    model.doc_string = ""
    del model.metadata_props[:]
    for graph in [model.graph] + list(model.functions):
        strip(graph)
    for info in list(model.graph.value_info) + list(model.graph.input) + list(model.graph.output):
        info.doc_string = ""
        del info.metadata_props[:]
    for tensor in model.graph.initializer:
        tensor.doc_string = ""
        del tensor.metadata_props[:]
    return model


def export(name, model, x, dynamo, first):
    """With the first dimension of x called so, if it is to have a name."""
    file = io.BytesIO()
    model.eval()
    if dynamo:
        shapes = ({0: torch.export.Dim(first)},) if first else None
        torch.onnx.export(model, (x,), file, dynamo=True, optimize=False, verbose=False,
                          dynamic_shapes=shapes, input_names=["x"], output_names=["y"])
    else:
        if isinstance(model, Looped):
            model = torch.jit.script(model)
        axes = {"x": {0: first}} | ({"y": {0: first}} if first == "batch" else {})
        torch.onnx.export(model, (x,), file, dynamo=False, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE, input_names=["x"],
                          output_names=["y"], dynamic_axes=axes if first else None)
    onnx.save(stripped(onnx.load_from_string(file.getvalue())), FOLDER / f"{name}.onnx")


def varied(model):
    """No two tensors alike: torch.onnx's older exporter makes one of those that are."""
    with torch.no_grad():
        for tensor in list(model.parameters()) + list(model.buffers()):
            if tensor.is_floating_point():
                tensor.add_(0.05 * torch.rand_like(tensor))
    return model


def golden(name, build, x, labels, exporters, first=None):
    for exporter in exporters:
        torch.manual_seed(1)
        export(f"{name}_{exporter}", varied(build()), x, exporter == "dynamo", first)
    losses = {}
    for dtype in [torch.float64, torch.float32]:
        torch.manual_seed(1)
        model = varied(build()).to(dtype)
        of = x.to(dtype) if x.is_floating_point() else x
        model.eval()
        outputs = model(of).detach()
        model.train()
        optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)
        losses[dtype] = []
        for _ in range(5):
            y = model(of)
            loss = nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]), labels.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[dtype].append(loss.item())
    # A ReLU that flips by a rounding would move a loss by more than is compared.
    apart = max(abs(a - b) for a, b in zip(*losses.values()))
    print(f"{name}: {losses[torch.float64]}, f32 apart by {apart:.1e}")
    assert apart < 2e-5, "choose another seed"
    np.savez(FOLDER / f"{name}.npz", x=x.numpy(), labels=labels.numpy(),
             outputs=outputs.numpy().astype(np.float32),
             losses=np.array(losses[torch.float64], np.float32))


def norms():
    # The older exporter's cosine is torch's only where the first row has the length 1.
    x = torch.tensor([[0.6, 0, 0.8], [4, -5, 7]], dtype=torch.float64)
    for exporter in ["dynamo", "script"]:
        export(f"norms_{exporter}", Norms(), x, exporter == "dynamo", None)
    model = Norms()
    y = model(x)
    y.backward()
    np.savez(FOLDER / "norms.npz", x=x.numpy(), y=y.detach().numpy(),
             **{name: tensor.grad.numpy() for name, tensor in model.named_parameters()})


def main():
    warnings.filterwarnings("ignore")
    FOLDER.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    both = ["dynamo", "script"]
    golden("images", Images, torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,)), both, "batch")
    golden("recurrent", Recurrent, torch.randn(3, 7, 6), torch.randint(0, 5, (3, 7)), both)
    golden("vit", vision_transformer, torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,)), both)
    ids = torch.randint(0, 24, (3, 8))
    golden("gpt2", lambda: transformer("gpt2"), ids, torch.randint(0, 24, (3, 8)), ["dynamo"])
    golden("llama", lambda: transformer("llama"), ids, torch.randint(0, 24, (3, 8)), ["dynamo"])
    golden("bert", lambda: transformer("bert"), ids, torch.randint(0, 5, (3,)), both)
    golden("looped", Looped, torch.randn(7, 4, 6), torch.randint(0, 5, (4,)), ["script"], "time")
    norms()
    golden("scanned", Scanned, torch.randn(4, 7, 6), torch.randint(0, 5, (4,)), ["dynamo"])


if __name__ == "__main__":
    sys.exit(main())
