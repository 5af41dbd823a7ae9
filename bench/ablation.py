#!/usr/bin/env python3
"""Removes each mechanism of the planner in turn, and prints what it is worth, as Markdown.

    bench/ablation.py                         # all mechanisms on all nets
    bench/ablation.py --only "cuts;segments" --nets gpt-nano,unet
    bench/ablation.py --bazel=--config=nocuda

A mechanism is removed by a change of a line or two in the sources, which MECHANISMS lists. The
script copies the tracked sources, makes all changes there, each behind a switch in the
environment, and builds `stowage` once. It stops if a line to be changed is not found exactly
once. The library itself has no such switches.

The frontier (`stowage plan --pareto`) of each net is computed with and without each mechanism,
with the memory optimizations that the mechanism belongs to. Per mechanism:

  bytes   how much larger the arena is without it, in percent of the arena without
          optimizations, at a cost that is at most 0.5 % of the step's operations higher: the
          most at any point of any frontier, and the mean at eight budgets of each net, evenly
          from the smallest arena to that without optimizations
  cost    likewise, how much more an arena that is at most 0.5 % larger costs, in percent of
          the step's operations; copied bytes count as the planner counts them
          (planner/fit/cost.h). Points that are not reached without it show as bytes
  time    processor time that it adds to planning, all nets together
  lines   its lines of code, comments included

Searches have a limited effort: what one does not use, others do.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

NETS = {
    "mlp": "--model mlp",
    "cnn-small": "--model cnn-small",
    "gpt-nano": "--model gpt-nano",
    "llama-nano": "--model llama-nano",
    "lstm-char": "--model lstm-char --seq 256",
    "resnet18": "--model resnet18",
    "resnet50": "--model resnet50",
    "unet": "--model unet",
    "vit-tiny": "--model vit-tiny",
    "mobilenet-v2": "--model mobilenet-v2",
    "gpt2-124m": "--model gpt2-124m --batch 4 --seq 256",
    "gpt2.onnx": "--onnx tests/goldens/onnx/gpt2_dynamo.onnx --loss cross_entropy",
    "bert.onnx": "--onnx tests/goldens/onnx/bert_script.onnx --loss cross_entropy",
    "images.onnx": "--onnx tests/goldens/onnx/images_script.onnx --loss cross_entropy",
    "recurrent.onnx": "--onnx tests/goldens/onnx/recurrent_dynamo.onnx --loss cross_entropy",
    "scanned.onnx": "--onnx tests/goldens/onnx/scanned_dynamo.onnx --loss cross_entropy",
    "deep.onnx": "--onnx FOLDER/deep.onnx --loss mse",  # written by this script
    "tied.onnx": "--onnx FOLDER/tied.onnx --loss mse",
}
BUDGETS = 8
SLACK = 0.5  # percent: differences that do not count
COMMON = "--device cpu --threads 2 --no-plan-cache --json"
FLOPS_PER_BYTE = {"auto": 8000, "disk": 100}  # planner/fit/cost.h

RECOMPUTE = "--recompute auto"
OFFLOAD = "--recompute auto --offload auto"
DISK = "--recompute auto --offload disk"
ORDER = "--order memory"
BEST = "--packer best"
ALL = "--fit auto"

CLIMB = "planner/fit/recompute/climb.cc"
RECOMPUTED = "planner/fit/recompute/recompute.cc"
GRID = "planner/fit/grid.cc"
FIT = "planner/fit/fit.cc"
ORDERS = "planner/fit/order/order.cc"
OFFLOADS = "planner/fit/offload/offload.cc"
PACKS = "planner/packing/greedy.cc"
PARTS = "planner/packing/part.cc"
BESTS = "planner/packing/best.cc"

EACH_WAY = "for (const Iterations iterations :\n       {Iterations::kEach, Iterations::kInSegments}) {"
EACH_ORDER = "if (round == 0) sequences[k] = Sequence(kOrders[k]);"

# (name, options of `stowage plan`, changes, lines of code). A change is (file, text, text with
# OFF where the switch goes); options in place of changes are those without the mechanism. Lines
# are files, folders, or functions as file:name.
MECHANISMS = [
    ("exact search of small steps", RECOMPUTE,
     [(RECOMPUTED, "is_complete = SearchAll(", "is_complete = !OFF && SearchAll(")],
     ["planner/fit/recompute/exact.h", "planner/fit/recompute/exact.cc", RECOMPUTED + ":SearchAll"]),
    ("cuts", RECOMPUTE, [(RECOMPUTED, "    TryCuts();", "    if (!OFF) TryCuts();")],
     [RECOMPUTED + ":TryCuts", RECOMPUTED + ":Change"]),
    ("groups between cuts", RECOMPUTE,
     [(RECOMPUTED, "if (k > 0) Change(", "if (k > 0 && !OFF) Change(")],
     [RECOMPUTED + ":Change"]),
    ("segments", RECOMPUTE,
     [(RECOMPUTED, "    TryCheckpoints();", "    if (!OFF) TryCheckpoints();")],
     [RECOMPUTED + ":TryCheckpoints", RECOMPUTED + ":FatesOfSegments"]),
    ("segments for each reader", RECOMPUTE,
     [(RECOMPUTED, "if (int64_t{end} * end", "if (OFF || int64_t{end} * end")], []),
    ("ladder of single values", RECOMPUTE,
     [(RECOMPUTED, "    climb.Down(start);", "    if (!OFF) climb.Down(start);")],
     [CLIMB + ":Down"]),
    ("ladder, lazily", RECOMPUTE,
     [(RECOMPUTED, "if (frontier_.is_spent()) {", "if (frontier_.is_spent() && !OFF) {")],
     [CLIMB + ":Lazily"]),
    ("keeping values again, ladder", RECOMPUTE,
     [(CLIMB, "  if (!frontier_.Try(*fates)) return;\n  double min_cost",
       "  if (OFF || !frontier_.Try(*fates)) return;\n  double min_cost")], [CLIMB + ":Polish"]),
    ("filling steep steps", RECOMPUTE,
     [(CLIMB, "k < kMaxLeaps && !", "k < kMaxLeaps && !OFF && !")], [CLIMB + ":FillSteps"]),
    ("untangling", RECOMPUTE, [(CLIMB, "if (!Untangle(target", "if (OFF || !Untangle(target")],
     [CLIMB + ":FullestStage", CLIMB + ":Tangle", CLIMB + ":WithChainEachTime", CLIMB + ":Untangle"]),
    ("chains in untangling", RECOMPUTE,
     [(CLIMB, "if (g.begin >= stage ||",
       "if (OFF || g.begin >= stage ||")], [CLIMB + ":WithChainEachTime"]),
    ("whole classes", RECOMPUTE,
     [(RECOMPUTED, "    ClassClimb(graph_, simulation_, classes, frontier_, climb)",
       "    if (!OFF) ClassClimb(graph_, simulation_, classes, frontier_, climb)")],
     [CLIMB + ":ClassClimb::" + name for name in ("FindLateValues", "Once", "FindMoves", "With",
                                                  "Reach", "Down")]
     + ["planner/fit/recompute/climb.h:ClassClimb"]),
    ("strides of classes", RECOMPUTE,
     [(CLIMB, "if (stride > classes_[place].size()) break;",
       "if (stride > (OFF ? 0 : classes_[place].size())) break;")], []),
    ("late recomputation", RECOMPUTE,
     [(CLIMB, "  FindLateValues();",
       "  if (!OFF) FindLateValues();")], [CLIMB + ":FindLateValues"]),
    ("keeping values again, classes", RECOMPUTE,
     [(CLIMB, "    climb_.KeepBest(", "    if (!OFF) climb_.KeepBest(")], []),
    ("keeping values again, all points", RECOMPUTE,
     [(RECOMPUTED, "    climb.RefillPoints(",
       "    if (!OFF) climb.RefillPoints(")], [CLIMB + ":RefillPoints"]),
    ("chains (Revolve)", RECOMPUTE,
     [(RECOMPUTED, "if (!is_complete) TryChain();", "if (!is_complete && !OFF) TryChain();")],
     [RECOMPUTED + ":TryChain"]),
    ("gradients recomputed", RECOMPUTE,
     [("planner/fit/variant.cc", "recompute.gradients = IsWhole(step)",
       "recompute.gradients = !OFF && IsWhole(step)")], []),
    ("iterations", RECOMPUTE,
     [(GRID, "if (iterations == Iterations::kKept) continue;",
       "if (OFF || iterations == Iterations::kKept) continue;")],
     ["planner/fit/recompute/iterations.h", "planner/fit/recompute/iterations.cc",
      "planner/fit/recompute/iteration_pairs.h", "planner/fit/recompute/iteration_pairs.cc"]),
    ("iterations in segments", RECOMPUTE,
     [(GRID, EACH_WAY, EACH_WAY + "\n    if (OFF && iterations == Iterations::kInSegments) continue;")],
     ["planner/fit/recompute/iterations.cc:CopyForward", "planner/fit/recompute/iterations.cc:CopyBackward"]),
    ("iterations one by one", RECOMPUTE,
     [(GRID, EACH_WAY, EACH_WAY + "\n    if (OFF && iterations == Iterations::kEach) continue;")], []),
    ("bodies", RECOMPUTE,
     [(GRID, "for (size_t level = 1; level <= levels->size(); ++level) {",
       "for (size_t level = 1; level <= levels->size() && !OFF; ++level) {")],
     ["planner/fit/recompute/bodies.h", "planner/fit/recompute/bodies.cc"]),
    ("best packer for small steps", RECOMPUTE,
     [(RECOMPUTED, "if (!made.plan.optimal &&", "if (!OFF && !made.plan.optimal &&")], []),
    ("offload: some states", OFFLOAD,
     [(GRID, "const size_t steps = std::min(kStateSteps, states);",
       "const size_t steps = OFF ? 0 : std::min(kStateSteps, states);")], [GRID + ":FitByStates"]),
    ("offload: half of the states", OFFLOAD,
     [(OFFLOADS, "      {.states = CountHalves(all.first(states), 1)},",
       "      {.states = OFF ? states : CountHalves(all.first(states), 1)},")], []),
    ("offload: half of the values", OFFLOAD,
     [(OFFLOADS, "      {.states = states, .halves = 1},",
       "      {.states = states, .halves = OFF ? kHalves : 1},")], []),
    ("offload: reloads for each reader", OFFLOAD,
     [(OFFLOADS, "{.states = states, .halves = kHalves, .again = true}}",
       "{.states = states, .halves = kHalves, .again = !OFF}}")], []),
    ("offload: inside bodies", OFFLOAD, [(OFFLOADS, "  if (bodies) {", "  if (bodies && !OFF) {")],
     [OFFLOADS + ":OffloadInBodies", OFFLOADS + ":WaitsInBodies"]),
    ("offload: params", DISK,
     [(OFFLOADS, "  if (params) AddWithParams", "  if (params && !OFF) AddWithParams")],
     [OFFLOADS + ":AddWithParams", OFFLOADS + ":FindOffloadableParams"]),
    ("micro-batches", ALL,
     "--fit recompute,offload,tiles",
     ["planner/fit/micro_batches/micro_batches.h", "planner/fit/micro_batches/micro_batches.cc"]),
    ("offload", ALL,
     "--fit recompute,micro-batches,tiles",
     ["planner/fit/offload/offload.h", "planner/fit/offload/offload.cc"]),
    ("tiles of logits", ALL,
     "--fit recompute,micro-batches,offload",
     ["planner/fit/tiles/tiles.h", "planner/fit/tiles/tiles.cc"]),
    ("recompute", ALL, "--fit micro-batches,offload,tiles", ["planner/fit/recompute"]),
    ("order: repair by cuts", ORDER,
     [(ORDERS, "  void Mend() {", "  void Mend() {\n    if (OFF) return;")], [ORDERS + ":Mend"]),
    ("order: moves", ORDER,
     [(ORDERS, "  void Move() {\n    if (Ends())", "  void Move() {\n    if (OFF || Ends())")],
     [ORDERS + ":Move", "planner/fit/order/search.cc:NodeMover"]),
    ("order: search from the bound", ORDER,
     [(ORDERS, "while (!Ends() && search_.steps() < last)",
       "while (!OFF && !Ends() && search_.steps() < last)")], [ORDERS + ":Climb"]),
    ("order: bisection", ORDER,
     [(ORDERS, "while (!Ends() && best_.peak - low > 1)",
       "while (!OFF && !Ends() && best_.peak - low > 1)")],
     [ORDERS + ":Bisect"]),
    ("order: bodies", ORDER,
     [(ORDERS, "  if (!has_bodies) return graph;", "  if (OFF || !has_bodies) return graph;")],
     [ORDERS + ":BodyOrderer"]),
    ("in-place results", RECOMPUTE, 
     [(FIT, "  options_.plan.budget.reset();",
       "  options_.plan.budget.reset();\n  if (OFF) options_.plan.in_place = false;")], []),
    ("epilogues", RECOMPUTE,
     [(FIT, "    return fit::FormEpilogues(",
       "    if (OFF) return step;\n    return fit::FormEpilogues(")],
     ["planner/fit/epilogues/epilogues.h", "planner/fit/epilogues/epilogues.cc"]),
    ("packing: parts", RECOMPUTE, [(PARTS, "  return Divider(target,",
       "  if (OFF) return PackPart(part, target, work, deadline);\n  return Divider(target,")], [PARTS]),
    ("packing: stacks and sweeps", RECOMPUTE,
     [(PACKS, "if (items_.size() >= kMany) PackFast();",
       "if (!OFF && items_.size() >= kMany) PackFast();")],
     [PACKS + ":Stack", PACKS + ":Sweep", PACKS + ":MendWindows", PACKS + ":MendWindow"]),
    ("packing: mended orders", RECOMPUTE,
     [(PACKS, "if (!Mend(&sequences[k])) return;",
       "if (OFF || !Mend(&sequences[k])) return;")], [PACKS + ":Mend"]),
    *[(f"packing: order by {name}", RECOMPUTE,
       [(PACKS, EACH_ORDER, f"if (OFF && k == {at}) continue;\n        {EACH_ORDER}")], [])
      for at, name in enumerate(["pressure", "lifetime", "peak", "size", "area", "birth", "death"])],
    ("packing: complete search", BEST, [(BESTS, "  Ladder(problem, bound, options, &best).Climb();",
      "  if (!OFF) Ladder(problem, bound, options, &best).Climb();")],
     ["planner/packing/best.cc", "planner/packing/canonical_search.cc", "planner/packing/canonical_search.h"]),
]



def write_nets(folder):
    """96 equal layers, and one layer 64 times in a loop."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(name, nodes, shape, output, constants):
        graph = helper.make_graph(
            nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            [numpy_helper.from_array(value, at) for at, value in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.save(model, f"{folder}/{name}.onnx")

    def layer(x, w, b, out):
        return [helper.make_node("MatMul", [x, w], [f"{out}_matmul"]),
                helper.make_node("Add", [f"{out}_matmul", b], [f"{out}_sum"]),
                helper.make_node("Tanh", [f"{out}_sum"], [out])]

    def params(width, w, b):
        return {w: numpy.eye(width, dtype="f"), b: numpy.zeros(width, dtype="f")}

    nodes, constants = [], {}
    for k in range(96):
        nodes += layer(f"h{k - 1}" if k else "x", f"w{k}", f"b{k}", f"h{k}")
        constants |= params(64, f"w{k}", f"b{k}")
    save("deep", nodes, [4096, 64], "h95", constants)
    carry = [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
             helper.make_tensor_value_info("h", TensorProto.FLOAT, [256, 512])]
    body = helper.make_graph(
        layer("h", "w", "b", "t") + [helper.make_node("Add", ["h", "t"], ["next"]),
                                     helper.make_node("Identity", ["go"], ["going"])], "body",
        [helper.make_tensor_value_info("k", TensorProto.INT64, []), *carry],
        [helper.make_tensor_value_info("going", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, [256, 512])])
    save("tied", [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [256, 512], "y",
         params(512, "w", "b") | {"n": numpy.array(64)})


SMALL = ["mlp", "cnn-small", "gpt-nano", "llama-nano", "lstm-char", "gpt2.onnx", "bert.onnx",
         "images.onnx", "recurrent.onnx", "scanned.onnx"]  # nets of mechanisms that need --fit auto

SWITCH = """#ifndef STOWAGE_LEFT_OUT
#define STOWAGE_LEFT_OUT
#include <cstdlib>
#include <string_view>
inline bool LeftOut(std::string_view mechanism) {
  static const char* const name = std::getenv("STOWAGE_LEFT_OUT");
  return name != nullptr && mechanism == name;
}
#endif
"""


def build(folder, bazel):
    """Builds `stowage` with all switches from a copy of the tracked files; returns its path."""
    files = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True)
    for file in files.stdout.split("\0"):
        if os.path.isfile(file):
            os.makedirs(os.path.dirname(f"{folder}/{file}"), exist_ok=True)
            shutil.copy2(file, f"{folder}/{file}")
    texts = {}
    for name, _, changes, _ in MECHANISMS:
        if isinstance(changes, str):
            continue
        for file, old, new in changes:
            if file not in texts:
                with open(f"{folder}/{file}", encoding="utf-8") as text:
                    texts[file] = text.read()
            if texts[file].count(old) != 1:
                sys.exit(f"{name}: {file} has {texts[file].count(old)} times: {old}")
            texts[file] = texts[file].replace(old, re.sub(r"\bOFF\b", f'LeftOut("{name}")', new))
    for file, text in texts.items():
        with open(f"{folder}/{file}", "w", encoding="utf-8") as out:
            out.write(SWITCH + text)
    subprocess.run(["bazel", "build", *bazel, "//tools:stowage"], cwd=folder, check=True)
    return f"{folder}/bazel-bin/tools/stowage"


def lines_of(entry):
    """Lines of a file, of the sources in a folder, or of a function with the comment above it."""
    path, _, name = entry.partition(":")
    if os.path.isdir(path):
        return sum(lines_of(f"{path}/{file}") for file in sorted(os.listdir(path)))
    with open(path, encoding="utf-8") as file:
        text = file.read().split("\n")
    if not name:
        return len(text) - 1
    for first, line in enumerate(text):
        if not re.search(rf"(\b|::){name}(\(| \{{)", line) or re.match(r"\s*(return|if|for|}|//)", line):
            continue
        signature = line
        last = first
        while "{" not in signature and ";" not in signature:
            last += 1
            signature += text[last]
        if "{" not in signature.split(";")[0]:
            continue
        depth = 0
        for last in range(first, len(text)):
            depth += text[last].count("{") - text[last].count("}")
            if depth == 0 and "}" in text[last]:
                break
        while first > 0 and text[first - 1].strip().startswith("//"):
            first -= 1
        return last - first + 1
    sys.exit(f"no function {entry}")


class Planner:
    """Frontiers by net, options and mechanism, each computed once."""

    def __init__(self, stowage, folder, cache):
        self.stowage = stowage
        self.folder = folder
        self.cache = cache
        self.known = {}
        if cache and os.path.exists(cache):
            with open(cache, encoding="utf-8") as lines:
                for line in lines:
                    key, value = json.loads(line)
                    self.known[tuple(key)] = value

    def frontier(self, net, options, left_out):
        """[[arena, cost], ...] by falling arena, and the seconds it took."""
        key = (net, options, left_out)
        if key in self.known:
            return self.known[key]
        command = [self.stowage, "plan", *NETS[net].replace("FOLDER", self.folder).split(),
                   *COMMON.split()]
        flops = json.loads(subprocess.run(command, check=True, capture_output=True,
                                          text=True).stdout)["flops"]
        started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([*command, *options.split(), "--pareto"], check=True,
                              capture_output=True, text=True,
                              env={**os.environ, "STOWAGE_LEFT_OUT": left_out})
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - started
        rate = 100 * FLOPS_PER_BYTE["disk" if "disk" in options else "auto"] / flops
        points = [[p["budget_bytes"],
                   p["recompute_flops_percent"] + rate * p["offload_bytes_per_step"]]
                  for p in json.loads(done.stdout)["frontier"]]
        self.known[key] = [points, seconds]
        if self.cache:
            with open(self.cache, "a", encoding="utf-8") as out:
                out.write(json.dumps([key, self.known[key]]) + "\n")
        return self.known[key]


def losses(points, whole, without):
    """Per point: bytes in percent of the `whole` arena that are lost without a mechanism, and
    percent of operations (None where nothing is as small)."""
    for arena, cost in points:
        least = min((a for a, c in without if c <= cost + SLACK), default=whole)
        other = min((c for a, c in without if a <= arena * (1 + SLACK / 100)), default=None)
        yield (100 * (least - arena) / whole if least > arena * (1 + SLACK / 100) else 0,
               None if other is None else other - cost if other > cost + SLACK else 0)


def at_budgets(points):
    """The points that BUDGETS budgets take, evenly from the smallest to the largest arena."""
    whole, smallest = points[0][0], min(arena for arena, _ in points)
    for k in range(BUDGETS):
        budget = smallest + (whole - smallest) * k // BUDGETS
        yield min((p for p in points if p[0] <= budget), key=lambda p: p[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--only", help="mechanisms, by name, with semicolons")
    parser.add_argument("--bazel", action="append", default=[], help="an option of the build")
    parser.add_argument("--folder", help="where to build; default: a new temporary folder")
    parser.add_argument("--stowage", help="a binary that an earlier call built")
    parser.add_argument("--cache", help="a file that keeps frontiers between calls")
    args = parser.parse_args()
    nets = args.nets.split(",")
    only = args.only.split(";") if args.only else None
    folder = args.folder or tempfile.mkdtemp(prefix="ablation")
    if {"deep.onnx", "tied.onnx"} & set(nets):
        write_nets(folder)
    stowage = args.stowage or build(folder, args.bazel)
    planner = Planner(stowage, folder, args.cache)
    print("| mechanism | bytes, most | mean | cost, most | mean | where | time | lines |")
    print("|---|---:|---:|---:|---:|---|---:|---:|")
    for name, options, changes, lines in MECHANISMS:
        if only and name not in only:
            continue
        in_bytes, in_cost, most, most_cost, seconds = [], [], (0, ""), (0, ""), 0
        for net in nets:
            if options == ALL and net not in SMALL:
                continue
            points, with_it = planner.frontier(net, options, "")
            if isinstance(changes, str):
                without, without_it = planner.frontier(net, changes, "")
            else:
                without, without_it = planner.frontier(net, options, name)
            seconds += with_it - without_it
            for least, cost in losses(points, points[0][0], without):
                most = max(most, (least, net))
                most_cost = max(most_cost, (cost or 0, net))
            for least, cost in losses(at_budgets(points), points[0][0], without):
                in_bytes.append(least)
                in_cost.append(cost or 0)
        where = dict.fromkeys(net for loss, net in (most, most_cost) if loss >= SLACK)
        print(f"| {name} | {most[0]:.2f} % | {sum(in_bytes) / len(in_bytes):.2f} % "
              f"| {most_cost[0]:.2f} % | {sum(in_cost) / len(in_cost):.2f} % "
              f"| {', '.join(where)} | {seconds:.1f} s | {sum(map(lines_of, lines)) or '-'} |",
              flush=True)


if __name__ == "__main__":
    main()
