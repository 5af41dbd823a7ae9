"""Makes torchvision's resnet18 and the numbers that tests/python/resnet18_test.py compares
with.

    python3 -m venv venv
    venv/bin/pip install torch==2.15.0 torchvision==0.29.2 onnx==1.23.2 onnxscript==0.7.2
    venv/bin/python tests/goldens/make_resnet18_goldens.py

writes into tests/goldens/torch: resnet18.onnx.xz, the module as torch.onnx exports it for a
batch of tests/python/resnet18.py, all its weights zero, since those of the tests are drawn;
resnet18.npz, the losses of its steps of SGD by torch in float64 and in float32, and what the
module gives afterwards, in evaluation, for the first four images, by either.
"""

import io
import lzma
import pathlib
import sys

import numpy as np
import onnx
import torch
import torchvision

GOLDENS = pathlib.Path(__file__).parent
sys.path.insert(0, str(GOLDENS.parent / "python"))

import resnet18  # noqa: E402


def main():
    net = torchvision.models.resnet18(num_classes=resnet18.CLASSES)
    images, labels = map(torch.from_numpy, resnet18.batch())
    with torch.no_grad():
        for tensor in net.state_dict().values():
            tensor.zero_()
    file = io.BytesIO()
    torch.onnx.export(net.eval(), (images,), dynamo=True, optimize=False, verbose=False,
                      input_names=["x"]).save(file)
    exported = onnx.load_from_string(file.getvalue())
    for node in exported.graph.node:  # where in torch's sources it came from
        del node.metadata_props[:]
        node.doc_string = ""
    with lzma.open(GOLDENS / "torch" / "resnet18.onnx.xz", "wb", preset=9) as compressed:
        compressed.write(exported.SerializeToString())

    found = {}
    for dtype in (torch.float64, torch.float32):
        shapes = {name: tensor.shape for name, tensor in net.state_dict().items()
                  if tensor.dim() > 0}
        weights = resnet18.first_weights(shapes)
        net.to(torch.float32).load_state_dict(
            {name: torch.from_numpy(array) for name, array in weights.items()}, strict=False)
        net.to(dtype).train()
        optimizer = torch.optim.SGD(net.parameters(), resnet18.LEARNING_RATE)
        losses = []
        for _ in range(resnet18.STEPS):
            loss = torch.nn.functional.cross_entropy(net(images.to(dtype)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            print(dtype, loss.item(), flush=True)
        with torch.no_grad():
            logits = net.eval()(images[:4].to(dtype)).numpy()
        name = str(dtype).split(".")[1]
        found |= {f"losses_{name}": np.array(losses), f"logits_{name}": logits}
    np.savez(GOLDENS / "torch" / "resnet18.npz", **found)


if __name__ == "__main__":
    main()
