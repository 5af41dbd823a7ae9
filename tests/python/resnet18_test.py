"""torchvision's resnet18, exported by torch, inside 60 % of its arena: its losses and logits
are torch's. Its file and torch's numbers are of tests/goldens/make_resnet18_goldens.py; where
torch is installed, torch's export and the way back into its module are tried, too."""

import importlib.util
import os
import unittest

import numpy as np

import resnet18
import stowage
import support

GOLDENS = "tests/goldens/torch"


def has_torch():
    return all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))


class Resnet18Test(support.TestCase):
    def trainer(self, model):
        whole = stowage.plan(model, optimizer="sgd", device="cpu", threads=1)
        budget = whole.arena_bytes * 6 // 10
        trainer = stowage.Trainer(model, optimizer="sgd", lr=resnet18.LEARNING_RATE,
                                  budget=budget, device="cpu", threads=1)
        self.assertLessEqual(trainer.arena_bytes, budget)
        return trainer

    def test_five_steps_of_sgd_are_those_of_torch(self):
        model = stowage.model(resnet18.exported(GOLDENS), batch=resnet18.BATCH)
        x, y = resnet18.batch()
        expected = np.load(os.path.join(GOLDENS, "resnet18.npz"))
        with self.trainer(model) as trainer:
            shapes = {name: array.shape for name, array in trainer.state_dict().items()}
            trainer.load_state_dict(resnet18.first_weights(shapes))
            losses = [trainer.step(x, y) for _ in range(resnet18.STEPS)]
            (logits,) = trainer.evaluate(x[:4]).values()
        for dtype in ("float64", "float32"):
            np.testing.assert_allclose(losses, expected[f"losses_{dtype}"], rtol=0, atol=1e-4)
            np.testing.assert_allclose(logits, expected[f"logits_{dtype}"], rtol=0, atol=1e-4)
        self.assertLess(losses[-1], losses[0] - 0.1)

    @unittest.skipUnless(has_torch(), "no torch and torchvision here")
    def test_out_of_a_torch_module_and_back(self):
        import torch
        import torchvision

        torch.manual_seed(3)
        net = torchvision.models.resnet18(num_classes=10).train()
        before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        x, y = map(torch.from_numpy, resnet18.batch())
        with self.trainer(stowage.from_torch(net, x)) as trainer:
            for name, array in trainer.state_dict().items():
                np.testing.assert_array_equal(array, before[name].numpy())
            trainer.step(x, y)
            (logits,) = trainer.evaluate(x).values()
            self.assertTrue(net.training)
            self.assertTrue(all(torch.equal(tensor, before[name])
                                for name, tensor in net.state_dict().items()))
            self.assertIs(trainer.to_torch(net), net)
            self.raises(stowage.InvalidArgument, "the module has no ", trainer.to_torch,
                        torch.nn.Linear(2, 2))
        with torch.no_grad():
            np.testing.assert_allclose(net.eval()(x).numpy(), logits, rtol=0, atol=1e-4)

    @unittest.skipUnless(has_torch(), "no torch and torchvision here")
    def test_tensors_are_taken_or_refused_in_words(self):
        import torch

        trainer = support.trainer()
        x, y = map(torch.from_numpy, support.batch())
        expected = support.trainer().step(x.numpy(), y.numpy())
        self.assertEqual(trainer.step(x, y), expected)
        self.raises(stowage.InvalidArgument, '"x" cannot be had by DLPack: ', trainer.step,
                    x.to("meta"), y)
        self.raises(stowage.InvalidArgument, "require gradient", trainer.step,
                    x.clone().requires_grad_(), y)


if __name__ == "__main__":
    support.main()
