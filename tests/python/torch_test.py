"""Modules of torch train as torch trains them, or are refused. Runs where torch, onnx and
onnxscript are installed."""

import contextlib
import importlib.util
import io
import unittest
import warnings

import numpy as np
import support

import stowage

HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "onnx", "onnxscript"))
if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F


def modules():
    """Of torch, made where it is there."""

    class Constants(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(6, 4)
            self.register_buffer("scale", torch.full((4,), 2.0))
            self.const = torch.full((6,), 3.0)

        def forward(self, x):
            return self.a(x * self.const) * self.scale * torch.tensor([1.0, 2.0, 3.0, 4.0])

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
            self.b.weight = self.a.weight
            self.head = nn.Linear(6, 4)

        def forward(self, x):
            return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))

    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)).detach())

    class NoGrad(Detached):
        def forward(self, x):
            with torch.no_grad():
                h = torch.tanh(self.a(x))
            return self.b(h)

    class StraightThrough(Detached):
        def forward(self, x):
            h = self.a(x)
            return self.b(h + (torch.round(h) - h).detach())

    class InTrainingAlone(Detached):
        def forward(self, x):
            return self.b(self.a(x) + x if self.training else self.a(x))

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.aux = nn.Linear(6, 4), nn.Linear(6, 3)

        def forward(self, x):
            return {"hidden": x * 2, "aux": self.aux(x), "logits": self.a(x)}

    return Heads, Constants, Tied, Detached, NoGrad, StraightThrough, InTrainingAlone


def from_torch(*args, **kwargs):
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stowage.from_torch(*args, **kwargs)


@unittest.skipUnless(HAS_TORCH, "no torch, onnx and onnxscript here")
class TorchTest(support.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x, self.y = torch.randn(8, 6), torch.randint(0, 4, (8,))

    def check_trains(self, net, x=None, y=None, **options):
        """Three steps are torch's, and what torch does not train stays, to the bit."""
        x, y = self.x if x is None else x, self.y if y is None else y
        trainer = stowage.Trainer(from_torch(net, x), optimizer="sgd", lr=0.5, device="cpu",
                                  threads=1, **options)
        before = {name: np.array(value) for name, value in trainer.state_dict().items()}
        losses = [trainer.step(x, y) for _ in range(3)]
        trained = {name for name, param in net.named_parameters(remove_duplicate=False)
                   if param.requires_grad}
        optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.5)
        for ours in losses:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(ours, loss.item(), places=4)
        after = trainer.state_dict()
        statistics = {name for name, _ in net.named_buffers() if "running" in name}
        for name, value in after.items():
            if name in trained or name in statistics:
                np.testing.assert_allclose(value, net.state_dict()[name].numpy(), atol=1e-4,
                                           err_msg=name)
            else:
                np.testing.assert_array_equal(value, before[name], err_msg=name)
        return trainer

    def refused(self, words, net, x=None, **options):
        with self.assertRaises(stowage.Unsupported) as caught:
            from_torch(net, self.x if x is None else x, **options)
        self.assertIn(words, str(caught.exception))

    def test_params_are_trained_and_nothing_else(self):
        constants, tied = modules()[1:3]
        self.check_trains(constants())
        self.check_trains(tied())
        frozen = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4))
        frozen[0].requires_grad_(False)
        self.check_trains(frozen)
        self.check_trains(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4)))

    def test_what_the_export_loses_is_refused(self):
        for kind in modules()[3:]:
            with self.subTest(kind=kind.__name__):
                self.refused("otherwise than torch trains", kind())
        table = nn.Sequential(nn.Embedding(10, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 4))
        self.refused('"0.weight" would be trained otherwise', table,
                     torch.tensor([[0, 1, 2], [3, 0, 0], [0, 4, 5], [1, 1, 1]]))
        drops = nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Linear(32, 4))
        self.refused('draws random numbers in the mode it is in, as "1" does', drops)
        self.check_trains(drops.eval())
        norm = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
        norm[1].eval()
        self.refused('the batch norm "1" is in eval mode', norm)
        self.assertEqual([each.training for each in norm], [True, False, True])
        self.refused('the statistics "0.running_mean"',
                     nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 4)))

    def test_a_loss_is_of_any_output_by_its_key(self):
        net = modules()[0]()
        trainer = stowage.Trainer(from_torch(net, self.x, loss="cross_entropy:logits"),
                                  optimizer="sgd", lr=0.5, device="cpu")
        theirs = net(self.x)["logits"].detach()
        # The weights of "aux" are not trained, and not there.
        made = trainer.evaluate(self.x)
        self.assertEqual(list(made), ["hidden", "logits"])
        np.testing.assert_allclose(made["logits"], theirs.numpy(), atol=1e-5)
        loss = trainer.step(self.x, self.y)
        self.assertAlmostEqual(loss, F.cross_entropy(theirs, self.y).item(), places=4)
        for loss in ("cross_entropy", "mse:nothing"):
            with self.assertRaises(stowage.InvalidArgument) as caught:
                from_torch(net, self.x, loss=loss)
            self.assertIn('"hidden", "aux", "logits"', str(caught.exception))

    def test_the_batch_is_a_dimension(self):
        net = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 4))
        x, y = torch.randn(64, 6), torch.randint(0, 4, (64,))
        whole = stowage.plan(from_torch(net, x), optimizer="sgd", device="cpu", threads=1)
        trainer = self.check_trains(net, x, y, budget=int(whole.arena_bytes * 0.6))
        self.assertGreater(trainer.plan.pieces, 1)

    def test_a_loss_of_one_element_is_tried_too(self):
        class Lost(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x):
                return torch.tanh(self.a(x)).detach().mean().reshape(1) + self.a.weight.sum()

        self.refused('"a.weight" would be trained otherwise', Lost(), loss="add")

    def test_what_is_no_loss_is_said(self):
        with self.assertRaisesRegex(TypeError, "loss is a function; expected"):
            from_torch(nn.Linear(6, 4), self.x, loss=F.cross_entropy)


if __name__ == "__main__":
    support.main()
