#!/usr/bin/env python3
"""torchvision's resnet18 trained by Stowage from Python, beside torch: the example of
docs/tutorials/python.md, and what it must hold.

    pip install dist/stowage-*.whl torch torchvision
    python bench/python_resnet18.py

Five steps of SGD in 60 % of the arena that they take whole; prints the losses of both, the
largest difference, and that of the logits once the weights are back in the module from our
own, and ends with 1 where one of these is above 1e-4. Beside them, how far the logits are from
those of torch's own five steps, and torch's float32 from its float64.

The learning rate is one at which torch in float32 agrees with itself in float64. Where a
rounding turns a ReLU behind a batch norm, losses part tenfold a step: at 1e-3 and a batch of
16, torch is 1e-4 from itself by the fifth.
"""

import copy
import sys

import torch
import torchvision

import stowage

torch.manual_seed(1)
net = torchvision.models.resnet18(num_classes=10)
x, y = torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))

# The fifteen lines.
model = stowage.from_torch(net, x)
whole = stowage.plan(model, optimizer="sgd", device="cpu")
budget = whole.arena_bytes * 6 // 10
with stowage.Trainer(model, optimizer="sgd", lr=2e-4, budget=budget, device="cpu") as trainer:
    losses = [trainer.step(x, y) for _ in range(5)]
    trainer.to_torch(trained := copy.deepcopy(net))
    logits = torch.from_numpy(next(iter(trainer.evaluate(x).values())))
    print(f"arena {trainer.arena_bytes} bytes, budget {budget}, whole {whole.arena_bytes}")

# The same by torch, in float64 and in its own float32.
def by_torch(dtype):
    twin = copy.deepcopy(net).to(dtype).train()
    optimizer = torch.optim.SGD(twin.parameters(), 2e-4)
    found = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(twin(x.to(dtype)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return twin.eval(), found


(exact, expected), (single, own) = by_torch(torch.float64), by_torch(torch.float32)
with torch.no_grad():
    there = trained.eval()(x)
    difference = (there - logits).abs().max().item()
    from_exact = (there - exact(x.double())).abs().max().item()
    single_from_exact = (single(x) - exact(x.double())).abs().max().item()
    from_single = (there - single(x)).abs().max().item()
worst = max(abs(a - b) for a, b in zip(losses, own))
print("losses ", " ".join(f"{loss:.6f}" for loss in losses))
print("torch  ", " ".join(f"{loss:.6f}" for loss in own))
print(f"from torch's float32 {worst:.2e}, from its float64 "
      f"{max(abs(a - b) for a, b in zip(losses, expected)):.2e}")
print(f"logits: torch's with our weights from ours {difference:.2e}; from those of torch's "
      f"own five steps in float64 {from_exact:.2e}, in float32 {from_single:.2e}")
print(f"torch's float32 from its float64: losses "
      f"{max(abs(a - b) for a, b in zip(own, expected)):.2e}, logits {single_from_exact:.2e}")
sys.exit(worst > 1e-4 or difference > 1e-4)
