#!/usr/bin/env python3
"""Step times and memory of imported modules, beside PyTorch eager and compiled.

    pip install torch torchvision timm transformers
    python bench/torch_steps.py [--threads N] [NET]...

Each way runs in a process of its own with the same module, batch and optimizer (momentum for
images, AdamW for text). The processes take turns, one burst of steps each, so that a load of
the machine meets all of them; the time of a step is the median of all bursts. The peak is that of
resident memory since the imports (VmHWM less VmRSS after them, and after a net of two layers, by
which torch.export and torch.compile load what they need), of Stowage's process too, which imports
torch as well and holds the module's own weights beside the arena.

Prints a table in Markdown.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings

BURSTS, SECONDS = 5, 2.0
WAYS = ("stowage", "eager", "compiled")


def nets():
    import timm
    import torch
    import torchvision
    import transformers
    from torch import nn

    class Gru(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(1000, 256)
            self.gru = nn.GRU(256, 256, 2, batch_first=True)
            self.head = nn.Linear(256, 1000)

        def forward(self, ids):
            return self.head(self.gru(self.words(ids))[0])

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            config = transformers.BertConfig(num_labels=4, hidden_dropout_prob=0.0,
                                             attention_probs_dropout_prob=0.0)
            self.bert = transformers.BertForSequenceClassification(config)

        def forward(self, ids):
            return self.bert(ids).logits

    images = (lambda: torch.randn(8, 3, 96, 96)), lambda: torch.randint(0, 4, (8,))
    made = {name: (lambda name=name, more=more: getattr(torchvision.models, name)(
        weights=None, num_classes=4, **more), *images, "momentum")
        for name, more in (("convnext_tiny", {}), ("efficientnet_v2_s", {}), ("densenet121", {}),
                           ("swin_t", {}), ("shufflenet_v2_x1_0", {}), ("resnext50_32x4d", {}),
                           ("regnet_y_400mf", {}),
                           ("googlenet", dict(aux_logits=False, init_weights=False)))}
    made["mixer_s32"] = (lambda: timm.create_model("mixer_s32_224", num_classes=4, img_size=96),
                         *images, "momentum")
    made["bert"] = (Bert, lambda: torch.randint(0, 30000, (4, 256)),
                    lambda: torch.randint(0, 4, (4,)), "adamw")
    made["gru"] = (Gru, lambda: torch.randint(0, 1000, (8, 64)),
                   lambda: torch.randint(0, 1000, (8, 64)), "adamw")
    made["mobilenetv4"] = (lambda: timm.create_model("mobilenetv4_conv_small", num_classes=4),
                           *images, "momentum")
    return made


def resident(key):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))


def torch_step(net, x, y, optimizer, compiled):
    import torch
    from torch.nn import functional as F

    made = (torch.optim.AdamW(net.parameters(), lr=1e-4) if optimizer == "adamw" else
            torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9))
    forward = torch.compile(net) if compiled else net

    def step():
        made.zero_grad()
        logits = forward(x)
        F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1)).backward()
        made.step()
    return step


def stowage_step(net, x, y, optimizer, threads):
    import stowage

    model = stowage.from_torch(net, x)
    trainer = stowage.Trainer(model, optimizer=optimizer, lr=1e-4, threads=threads,
                              device="cpu", optimizations="none")
    inputs, labels = x.numpy(), y.numpy()
    return lambda: trainer.step(inputs, labels)


def warm_up(way):
    """Loads what torch.export and torch.compile import when they are first called."""
    import torch

    net, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)), torch.ones(8, 8)
    if way == "stowage":
        import stowage
        stowage.from_torch(net, x)
    elif way == "compiled":
        torch.compile(net)(x).sum().backward()


def worker(way, name, threads):
    warnings.filterwarnings("ignore")
    import torch
    torch.set_num_threads(threads)
    make, inputs, labels, optimizer = nets()[name]
    warm_up(way)
    before = resident("VmRSS")
    torch.manual_seed(0)
    net = make().train()
    x, y = inputs(), labels()
    step = (stowage_step(net, x, y, optimizer, threads) if way == "stowage" else
            torch_step(net, x, y, optimizer, way == "compiled"))
    for _ in range(3):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        times, end = [], time.perf_counter() + SECONDS
        while len(times) < 3 or time.perf_counter() < end:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(json.dumps({"ms": [1e3 * each for each in times],
                          "peak": resident("VmHWM") - before}), flush=True)


def row(name, threads):
    workers = {way: subprocess.Popen(
        [sys.executable, __file__, "--way", way, "--threads", str(threads), name], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE) for way in WAYS}
    for each in workers.values():
        assert each.stdout.readline() == "ready\n", name
    times, peaks = {way: [] for way in WAYS}, {}
    for _ in range(BURSTS):
        for way, each in workers.items():
            each.stdin.write("go\n")
            each.stdin.flush()
            reply = json.loads(each.stdout.readline())
            times[way] += reply["ms"]
            peaks[way] = reply["peak"] / 1e6
    for each in workers.values():
        each.stdin.close()
        each.wait()
    ms = {way: statistics.median(times[way]) for way in WAYS}
    return (f"| {name} | " + " | ".join(f"{ms[way]:.1f}" for way in WAYS) +
            f" | {ms['stowage'] / min(ms['eager'], ms['compiled']):.2f} | " +
            " | ".join(f"{peaks[way]:.0f}" for way in WAYS) +
            f" | {peaks['stowage'] / peaks['eager']:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("nets", nargs="*")
    options = parser.parse_args()
    if options.way:
        worker(options.way, options.nets[0], options.threads)
        return
    print("| net | Stowage, ms | eager, ms | compiled, ms | of the better | peak, MB | eager, MB "
          "| compiled, MB | of eager's |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.nets or nets():
        print(row(name, options.threads), flush=True)


if __name__ == "__main__":
    main()
