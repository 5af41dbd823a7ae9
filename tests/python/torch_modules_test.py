"""Modules of torch of every kind: three steps are those of torch in double precision. Runs where
torch is installed (tests/using/torch.sh)."""

import copy
import importlib.util
import unittest
import warnings

import numpy as np
import support

import stowage

if importlib.util.find_spec("torch"):
    import torch
    from torch.nn import functional as F
    from torch_modules import MODULES


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchModulesTest(support.TestCase):
    def check_trains(self, net, x):
        y = torch.randint(0, 4, (len(x),))
        outputs = net(x)
        loss = "cross_entropy:logits" if isinstance(outputs, dict) else "cross_entropy"
        theirs = copy.deepcopy(net).double()
        trainer = stowage.Trainer(stowage.from_torch(net, x, loss=loss), optimizer="sgd", lr=0.3,
                                  device="cpu", threads=1)
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.3)
        wide = x.double() if x.is_floating_point() else x
        for _ in range(3):
            optimizer.zero_grad()
            output = theirs(wide)
            right = F.cross_entropy(output["logits"] if isinstance(output, dict) else output, y)
            right.backward()
            optimizer.step()
            self.assertAlmostEqual(trainer.step(x, y) / max(1, right.item()),
                                   right.item() / max(1, right.item()), delta=1e-5)
        state = theirs.state_dict()
        for name, value in trainer.state_dict().items():
            np.testing.assert_allclose(value, state[name].numpy(), atol=2e-4, err_msg=name)

    def test_three_steps_are_torchs(self):
        for name, (make, x) in MODULES.items():
            with self.subTest(module=name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.manual_seed(0)
                net = make().train()
                net(x)  # which sizes what is lazy
                self.check_trains(net, x)


if __name__ == "__main__":
    support.main()
