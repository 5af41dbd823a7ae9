#!/usr/bin/env python3
"""Plans of forward passes of the `onnx` wheel's light nets, beside ONNX Runtime's arena.

The wheel carries nine nets of the ONNX model zoo whose weights are made when they run.
For each: what a plan of a pass has beside the weights, and ONNX Runtime's block, as
onnx_nets.py tells them; the plan's arena over the lower bound, and how long the whole
command takes.

    bazel build //tools:stowage
    pip install torch torchvision transformers onnx onnxscript onnxruntime
    python bench/onnx_light_nets.py

Prints a table in Markdown.
"""

import pathlib
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from onnx_nets import onnxruntime_bytes, pass_cells, stowage


def with_weights(model):
    """The model with tensors in place of the nodes that make its weights."""
    made = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            value = numpy_helper.to_array(node.attribute[0].t)[0]
            made[node.output[0]] = np.full(made[node.input[0]], value)
    keep = [node for node in model.graph.node if node.op_type != "ConstantOfShape"]
    del model.graph.node[:]
    model.graph.node.extend(keep)
    read = {name for node in keep for name in node.input}
    del model.graph.initializer[:]
    for name, array in made.items():
        if name in read:
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    inputs = [i for i in model.graph.input if i.name not in made]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def main():
    print(f"onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}\n")
    print("| net | pass, MB | all, MB | ONNX Runtime, MB | of the bound | plan, s |")
    print("|---|---:|---:|---:|---:|---:|")
    folder = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
    for path in sorted(folder.glob("*.onnx")):
        model = with_weights(onnx.load(path))
        (x,) = model.graph.input
        shape = [dim.dim_value for dim in x.type.tensor_type.shape.dim]
        with tempfile.TemporaryDirectory() as work:
            file = pathlib.Path(work) / "net.onnx"
            onnx.save(model, file)
            start = time.time()
            plan = stowage("plan", "--onnx", file, "--device", "cpu", "--threads", 1)[0]
            seconds = time.time() - start
            feed = {x.name: np.zeros(shape, np.float32)}
            block = onnxruntime_bytes(file, feed)
        cells = [
            path.stem.removeprefix("light_"),
            *pass_cells(plan, block),
            f"{plan['arena_bytes'] / plan['lower_bound_bytes']:.3f}",
            f"{seconds:.2f}",
        ]
        print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
