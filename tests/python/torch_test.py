"""Modules of torch train as torch trains them, or are refused. Runs where torch is installed
(tests/using/torch.sh)."""

import collections
import copy
import dataclasses
import importlib.util
import json
import os
import random
import tempfile
import unittest
import warnings

import numpy as np
import support

import stowage

HAS_TORCH = bool(importlib.util.find_spec("torch"))
if HAS_TORCH:
    import torch
    import torch.nn.utils.prune
    import torch.utils.checkpoint
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stowage.from_torch(*args, **kwargs)


@unittest.skipUnless(HAS_TORCH, "no torch here")
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
        statistics = {name for name, _ in net.named_buffers()
                      if "running" in name or "num_batches" in name}
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

    def test_what_torch_keeps_from_gradients_is_kept(self):
        for kind in modules()[3:]:
            with self.subTest(kind=kind.__name__):
                self.check_trains(kind())
        norm = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
        norm[1].eval()
        self.check_trains(norm)
        self.assertEqual([each.training for each in norm], [True, False, True])

    def test_a_backward_of_ones_own_is_refused_by_name(self):
        class Sign(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.sign()

            @staticmethod
            def backward(ctx, gradient):
                return gradient

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x):
                return Sign.apply(self.a(x))

        self.refused("Sign has a backward of its own", Net())

    def test_ops_that_are_not_there_are_named_together(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x):
                h = torch.linalg.qr(self.a(x))[0].sum(-1, keepdim=True)
                return self.a(x) + h + torch.linalg.det(self.a(x)[:4, :4])

        with self.assertRaises(stowage.Unsupported) as caught:
            from_torch(Net(), self.x)
        for words in ("linalg_qr.default of", "_linalg_det.default of", "torch_test.py:"):
            self.assertIn(words, str(caught.exception))

    def test_what_reads_numbers_of_tensors_is_refused_with_the_line(self):
        class Net(nn.Module):
            def __init__(self, function):
                super().__init__()
                self.a, self.function = nn.Linear(6, 4), function

            def forward(self, x):
                return self.a(self.function(x))

        def scaled(x):
            return x * (x.abs().max().item() + 1)

        def chosen(x):
            return x if x.sum() > 0 else -x

        for words, function in (
                ("a number read from a tensor, as by item(), of the module (torch_test.py:", scaled),
                ("data-dependent expression", chosen),
                (f"(torch_test.py:{chosen.__code__.co_firstlineno + 1})", chosen),
                ("cond of the module (torch_test.py:",
                 lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 1, (x,)))):
            with self.assertRaises(stowage.Unsupported) as caught:
                from_torch(Net(function), self.x)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn(";", str(caught.exception))

    def test_a_copy_that_cannot_be_called_is_refused_with_the_line(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, kept = nn.Linear(6, 4), {}
                self.kept = kept
                # A copy of the module has another dict.
                self.a.register_forward_hook(lambda *given: kept.update(y=given[2]))

            def forward(self, x):
                return self.a(x) + self.kept["y"]

        self.refused("a copy of the module cannot be called on the examples, so that it cannot be "
                     "checked: KeyError: 'y' (torch_test.py:", Net())
        from_torch(Net(), self.x, check=False)

    def test_dropout_draws_in_every_step_and_not_in_eval_mode(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.drop = nn.Linear(6, 2000), nn.Dropout(0.3)

            def forward(self, x):
                kept = self.drop(torch.ones(2000) + self.a(x) * 0)
                return {"share": (kept > 0).float().mean() + self.a(x).mean() * 0,
                        "mean": kept.mean()}

        losses = {}
        for output in ("share", "mean"):
            trainer = stowage.Trainer(from_torch(Net(), self.x, loss=output), optimizer="sgd",
                                      lr=0.0, device="cpu")
            losses[output] = [trainer.step(self.x) for _ in range(4)]
        self.assertEqual(len(set(losses["share"])), 4)
        np.testing.assert_allclose(losses["share"], 0.7, atol=0.02)
        np.testing.assert_allclose(losses["mean"], 1.0, atol=0.03)
        self.check_trains(nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5),
                                        nn.Linear(32, 4)).eval())

    def test_attention_of_any_mask_keeps_no_products(self):
        length = 64

        class Net(nn.Module):
            def __init__(self, mask):
                super().__init__()
                self.a, self.b = nn.Linear(6, 24), nn.Linear(8, 4)
                self.register_buffer("mask", mask, persistent=False)

            def forward(self, x):
                q, k, v = self.a(x).view(-1, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
                if not torch.is_floating_point(self.mask):
                    h = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
                else:
                    h = F.scaled_dot_product_attention(q, k, v, self.mask)
                return self.b(h.transpose(1, 2).flatten(2)[:, -1])

        ones = torch.ones(length, length, dtype=torch.bool)
        masks = {"causal": ones.tril(), "window": ones.tril() & ones.triu(-7), "all": ones,
                 "added": torch.zeros(length, length).masked_fill(~ones.tril(), -torch.inf),
                 "least": torch.zeros(1, 1, length, length).masked_fill(
                     ~ones.tril(), torch.finfo(torch.float32).min)}
        x, y = torch.randn(4, length, 6), torch.randint(0, 4, (4,))
        for name, mask in masks.items():
            with self.subTest(mask=name), tempfile.NamedTemporaryFile(suffix=".json") as file:
                trainer = self.check_trains(Net(mask), x, y, optimizations="none")
                trainer.plan.save(file.name)
                plan = json.load(open(file.name))
                self.assertLess(max(each["size"] for each in plan["buffers"]),
                                4 * length * length * 4)
        # One that fits no form is added, and is there once.
        self.check_trains(Net(ones.tril() | (torch.rand(length, length) > 0.5)), x, y)

    def test_what_would_be_other_in_silence_is_refused(self):
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.calls = nn.Linear(6, 4), torch.zeros(4)

            def forward(self, x):
                self.calls = self.calls + 1
                return self.a(x) + self.calls

        class Branches(Counts):
            def forward(self, x):
                return self.a(x) * (2 if x.shape[0] >= 6 else 1)

        self.refused('its tensor "calls"', Counts())
        self.refused("instance norm that tracks", nn.Sequential(
            nn.Conv1d(6, 4, 1), nn.InstanceNorm1d(4, track_running_stats=True), nn.Flatten()),
            torch.randn(8, 6, 3))
        net = Branches()
        trainer = self.check_trains(net)
        made = trainer.evaluate(self.x[:7])["output"]
        np.testing.assert_allclose(made, net.eval()(self.x[:7]).detach().numpy(), atol=1e-5)
        with self.assertRaisesRegex(stowage.InvalidArgument, "computes otherwise with 5 examples"):
            trainer.evaluate(self.x[:5])
        view = nn.Sequential(nn.Linear(6, 4))
        self.refused("a view of f32 as torch.int32", view, loss=lambda o, y: (
            o * o.detach().view(torch.int32)).mean(), example_labels=self.y)

    def test_names_that_are_taken_get_others(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(6, 4))

            def forward(self, weight, step):
                return {"weight": weight @ self.weight, "step": step * 2}

        made = from_torch(Net(), (self.x, self.x), loss="cross_entropy:weight")
        with stowage.Trainer(made, optimizer="sgd", device="cpu") as trainer:
            self.assertEqual(list(trainer.inputs), ["weight.2", "step.2", "labels"])
            self.assertEqual(list(trainer.evaluate(self.x, self.x)), ["weight.3", "step.3"])

    def test_noise_of_eval_mode_is_drawn_and_not_evaluated(self):
        class Noisy(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x):
                return self.a(x + torch.randn_like(x))

        with stowage.Trainer(from_torch(Noisy(), self.x), optimizer="sgd", lr=0.0,
                             device="cpu") as trainer:
            self.assertEqual(len({trainer.step(self.x, self.y) for _ in range(3)}), 3)
            with self.assertRaises(stowage.Unsupported):
                trainer.evaluate(self.x)

    def test_without_gradients_around_it_a_module_is_taken(self):
        net = nn.Linear(6, 4)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                made = from_torch(net, self.x)
                with stowage.Trainer(made, optimizer="sgd", device="cpu") as trainer:
                    trainer.step(self.x, self.y)

    def test_a_loss_is_a_function_of_outputs_and_labels(self):
        net, weight = nn.Linear(6, 4), torch.rand(4)
        self.y[2] = self.y[5] = -100
        judges = {"plain": F.cross_entropy,
                  "smooth": lambda o, y: F.cross_entropy(o, y, label_smoothing=0.1),
                  "by weights": lambda o, y: F.cross_entropy(o, y, weight=weight),
                  "sum": lambda o, y: F.cross_entropy(o, y, reduction="sum"),
                  "all": lambda o, y: F.cross_entropy(o, y, weight, label_smoothing=0.2)}
        for name, judge in judges.items():
            with self.subTest(loss=name):
                made = from_torch(net, self.x, loss=judge, example_labels=self.y)
                trainer = stowage.Trainer(made, optimizer="sgd", lr=0.0, device="cpu")
                right = judge(net(self.x), self.y).item()
                self.assertAlmostEqual(trainer.step(self.x, self.y), right, places=4)
        made = from_torch(net, self.x)
        trainer = stowage.Trainer(made, optimizer="sgd", lr=0.0, device="cpu")
        self.assertAlmostEqual(trainer.step(self.x, self.y),
                               F.cross_entropy(net(self.x), self.y).item(), places=5)

    def test_a_module_judges_itself_and_is_called_by_keywords(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x, labels=None, mask=None):
                logits = self.a(x) * mask
                return {"loss": F.cross_entropy(logits, labels), "logits": logits}

        net, mask = Net(), torch.rand(8, 1)
        made = from_torch(net, self.x, kwargs={"labels": self.y, "mask": mask}, loss="loss")
        with stowage.Trainer(made, optimizer="sgd", lr=0.0, device="cpu") as trainer:
            self.assertEqual(list(trainer.inputs), ["x", "labels", "mask"])
            loss = trainer.step(x=self.x, labels=self.y, mask=mask)
        self.assertAlmostEqual(loss, net(self.x, self.y, mask)["loss"].item(), places=5)

    def test_a_loss_is_of_any_output_by_its_key(self):
        net = modules()[0]()
        trainer = stowage.Trainer(from_torch(net, self.x, loss="cross_entropy:logits"),
                                  optimizer="sgd", lr=0.5, device="cpu")
        theirs = net(self.x)["logits"].detach()
        # The weights of "aux" are not trained.
        made = trainer.evaluate(self.x)
        self.assertEqual(list(made), ["hidden", "aux", "logits"])
        np.testing.assert_allclose(made["logits"], theirs.numpy(), atol=1e-5)
        loss = trainer.step(self.x, self.y)
        self.assertAlmostEqual(loss, F.cross_entropy(theirs, self.y).item(), places=4)
        for loss in ("cross_entropy", "mse:nothing"):
            with self.assertRaises(stowage.InvalidArgument) as caught:
                from_torch(net, self.x, loss=loss)
            self.assertIn('"hidden", "aux", "logits"', str(caught.exception))

    def test_fields_of_a_dataclass_are_outputs(self):
        @dataclasses.dataclass
        class Result:
            logits: object
            parts: list
            nothing: object = None

        # As diffusers' outputs are, which are registered without the names of their parts.
        @dataclasses.dataclass
        class Mixed(collections.OrderedDict):
            sample: object

            def __post_init__(self):
                self["sample"] = self.sample

        torch.utils._pytree.register_pytree_node(
            Mixed, lambda x: (list(x.values()), list(x)), lambda values, keys: Mixed(*values))

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x):
                return Result(self.a(x), [Mixed(x * 2)], object())

        net = Net()
        trainer = stowage.Trainer(from_torch(net, self.x), optimizer="sgd", lr=0.5, device="cpu")
        made = trainer.evaluate(self.x)
        self.assertEqual(list(made), ["logits", "parts.0.sample"])
        np.testing.assert_allclose(made["logits"], net(self.x).logits.detach(), atol=1e-5)
        loss = F.cross_entropy(net(self.x).logits, self.y)
        self.assertAlmostEqual(trainer.step(self.x, self.y), loss.item(), places=4)

    def test_params_without_a_slope_decay_and_those_without_a_gradient_do_not(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)
                for name in ("rounded", "signed", "likened", "placed", "compared"):
                    setattr(self, name, nn.Parameter(torch.randn(4)))

            def forward(self, x):
                return (self.a(x) + self.rounded.round() + self.signed.sign()
                        + torch.zeros_like(self.likened) + self.placed.argmax()
                        + (self.compared > 0))

        net = Net()
        theirs = copy.deepcopy(net)
        optimizer, other = (torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9,
                                            weight_decay=0.5) for each in (net, theirs))
        with stowage.Trainer(from_torch(net, self.x), optimizer=optimizer, device="cpu") as ours:
            for _ in range(3):
                other.zero_grad()
                loss = F.cross_entropy(theirs(self.x), self.y)
                loss.backward()
                other.step()
                self.assertAlmostEqual(ours.step(self.x, self.y), loss.item(), places=4)
            for name, value in theirs.named_parameters():
                np.testing.assert_allclose(ours.read(name), value.detach(), atol=1e-5,
                                           err_msg=name)

    def test_complex_params_are_trained_as_pairs(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Parameter(torch.randn(3, 4, dtype=torch.cfloat))

            def forward(self, x):
                modes = torch.fft.rfft(x)[:, :3] @ self.a
                return {"values": torch.fft.irfft(modes, n=4), "modes": modes}

        net = Net()
        theirs = copy.deepcopy(net)
        optimizer, other = (torch.optim.AdamW(each.parameters(), lr=0.1) for each in (net, theirs))

        def torch_step(net, optimizer):
            optimizer.zero_grad()
            loss = F.mse_loss(net(self.x)["values"], self.x[:, :4])
            loss.backward()
            optimizer.step()
            return loss.item()

        torch_step(net, optimizer), torch_step(theirs, other)
        model = from_torch(net, self.x, loss="mse")
        with stowage.Trainer(model, optimizer=optimizer, device="cpu") as ours:
            self.assertEqual(ours.state_dict()["a"].shape, (3, 4, 2))
            for _ in range(2):
                self.assertAlmostEqual(ours.step(self.x, self.x[:, :4].contiguous()),
                                       torch_step(theirs, other), 4)
            modes = ours.evaluate(self.x)["modes"]
            np.testing.assert_allclose(modes[..., 0] + 1j * modes[..., 1],
                                       theirs(self.x)["modes"].detach(), atol=1e-4)
            ours.to_torch(net, optimizer)
        self.assertAlmostEqual(torch_step(net, optimizer), torch_step(theirs, other), 4)
        np.testing.assert_allclose(net.a.detach(), theirs.a.detach(), atol=1e-4)

    def test_frozen_params_that_forward_writes_are_states(self):
        class Momentum(nn.Module):
            def __init__(self, write):
                super().__init__()
                self.a, self.write = nn.Linear(6, 4), write
                self.slow = copy.deepcopy(self.a).requires_grad_(False)

            def forward(self, x):
                if self.training:
                    with torch.no_grad():
                        for slow, fast in zip(self.slow.parameters(), self.a.parameters()):
                            self.write(slow, fast)
                return self.a(x) + self.slow(x)

        def assign(slow, fast):
            slow.data = slow.data * 0.75 + fast.data * 0.25

        for write in (assign, lambda slow, fast: slow.lerp_(fast, 0.25)):
            net = Momentum(write)
            theirs = copy.deepcopy(net)
            optimizer, other = (torch.optim.SGD(each.parameters(), lr=0.5, weight_decay=0.1)
                                for each in (net, theirs))
            with stowage.Trainer(from_torch(net, self.x), optimizer=optimizer,
                                 device="cpu") as trainer:
                for _ in range(3):
                    other.zero_grad()
                    loss = F.cross_entropy(theirs(self.x), self.y)
                    loss.backward()
                    other.step()
                    self.assertAlmostEqual(trainer.step(self.x, self.y), loss.item(), places=4)
                np.testing.assert_allclose(trainer.evaluate(self.x)["output"],
                                           theirs.eval()(self.x).detach(), atol=1e-5)
                trainer.to_torch(net)
            for ours, right in zip(net.parameters(), theirs.parameters()):
                np.testing.assert_allclose(ours.detach(), right.detach(), atol=1e-5)

    def test_buffers_with_two_names_are_taken(self):
        class Part(nn.Module):
            def __init__(self, scale):
                super().__init__()
                self.a = nn.Linear(6, 6)
                self.register_buffer("scale", scale)

            def forward(self, x):
                return self.a(x) * self.scale

        scale = torch.arange(6.0)
        self.check_trains(nn.Sequential(Part(scale), nn.Tanh(), Part(scale), nn.Linear(6, 4)))

    def test_weights_that_hooks_compute_are_taken(self):
        net = nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 6)), nn.Tanh(), nn.Linear(6, 4))
        nn.utils.prune.random_unstructured(net[2], "weight", 0.5)
        trainer = self.check_trains(net)
        self.assertEqual(sorted(trainer.state_dict()), [
            "0.bias", "0.weight_g", "0.weight_v", "2.bias", "2.weight_orig"])

    def test_the_batch_is_a_dimension(self):
        net = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 4))
        x, y = torch.randn(64, 6), torch.randint(0, 4, (64,))
        whole = stowage.plan(from_torch(net, x), optimizer="sgd", device="cpu", threads=1)
        trainer = self.check_trains(net, x, y, budget=int(whole.arena_bytes * 0.6))
        self.assertGreater(trainer.plan.micro_batches, 1)

    def test_a_contrastive_loss_in_micro_batches_is_the_batchs(self):
        class Pairs(nn.Module):
            """Both towers' embeddings find each other among all pairs of the batch."""

            def __init__(self):
                super().__init__()
                self.towers = nn.ModuleList(nn.Sequential(nn.Linear(6, 16), nn.GELU(),
                                                          nn.Linear(16, 5)) for _ in range(2))
                self.scale = nn.Parameter(torch.tensor(1.5))

            def forward(self, x, y):
                a, b = (F.normalize(tower(z), dim=-1) for tower, z in zip(self.towers, (x, y)))
                scores = a @ b.T * self.scale.exp()
                labels = torch.arange(x.shape[0])
                return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2

        torch.manual_seed(3)
        net = Pairs().double()
        x, y = torch.randn(2, 12, 6, dtype=torch.double)
        model = from_torch(net, (x, y), loss="output")
        for micro_batches in (1, 3, 4, 12):
            torch_net = copy.deepcopy(net)
            optimizer = torch.optim.SGD(torch_net.parameters(), lr=0.25)
            with stowage.Trainer(model, optimizer="sgd", lr=0.25, device="cpu", threads=1,
                                 optimizations={"micro_batches": micro_batches}) as trainer:
                for _ in range(3):
                    optimizer.zero_grad()
                    loss = torch_net(x, y)
                    loss.backward()
                    optimizer.step()
                    self.assertAlmostEqual(trainer.step(x, y), loss.item(), places=6)
                weights = trainer.state_dict()
            for name, param in torch_net.named_parameters():
                np.testing.assert_allclose(weights[name], param.detach(), atol=1e-9)

    def test_a_batch_that_the_export_fixes_can_be_taken_in_parts(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(6, 64), nn.Linear(64, 4)

            def forward(self, x):
                return self.b(torch.tanh(self.a(x)) * torch.ones(int(x.shape[0]), 1))

        trainer = self.check_trains(Net(), optimizations={"micro_batches": 4})
        self.assertEqual(trainer.plan.micro_batches, 4)

    def test_a_module_that_takes_no_symbol_for_its_batch_is_taken_whole(self):
        class Places(nn.Module):
            def __init__(self):
                super().__init__()
                self.dense = nn.Linear(4, 4)

            def forward(self, x):
                return self.dense(x) + torch.from_numpy(np.arange(x.shape[0]))[:, None].float()

        torch.manual_seed(0)
        net, x = Places(), torch.randn(3, 4)
        model = stowage.from_torch(net, x, loss="mse")
        wanted = torch.nn.functional.mse_loss(net(x), torch.zeros(3, 4)).item()
        with stowage.Trainer(model, optimizer="sgd", lr=0) as trainer:
            self.assertAlmostEqual(trainer.step(x, torch.zeros(3, 4)), wanted, places=5)

    def refuses(self, make, *words):
        with self.assertRaises(stowage.Unsupported) as raised:
            make()
        for each in words:
            self.assertIn(each, str(raised.exception))

    def test_examples_that_are_one_tensor_are_inputs_of_their_own(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(6, 4), nn.Linear(6, 4)
                self.register_buffer("table", torch.randn(3, 6))

            def forward(self, x, y):
                return self.first(x) - self.second(y) + self.table.sum()

        torch.manual_seed(0)
        net, x, y = Two(), torch.randn(3, 6), torch.randn(3, 6)
        for examples in ((x, x), (x, net.table)):
            model = stowage.from_torch(net, examples, loss="mse")
            with stowage.Trainer(model, optimizer="sgd", lr=0) as trainer:
                self.assertAlmostEqual(trainer.step(x, y, torch.zeros(3, 4)),
                                       net(x, y).square().mean().item(), places=4)
        auto = nn.Linear(6, 6)
        model = stowage.from_torch(auto, x, loss=F.mse_loss, example_labels=x)
        with stowage.Trainer(model, optimizer="sgd", lr=0) as trainer:
            self.assertAlmostEqual(trainer.step(x, y), F.mse_loss(auto(x), y).item(), places=5)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "needs transformers")
    def test_use_cache_of_transformers_is_switched_off(self):
        import transformers

        net = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=16, n_embd=8, n_layer=1, n_head=2, n_positions=8))
        self.assertTrue(net.config.use_cache)
        ids = torch.randint(0, 16, (2, 8))
        with self.assertLogs("stowage", "INFO") as logs:
            model = stowage.from_torch(net, ids)
        self.assertIn("use_cache", logs.output[0])
        with stowage.Trainer(model, optimizer="sgd") as trainer:
            self.assertGreater(trainer.step(ids.numpy(), ids.numpy()), 0)

    def test_hooks_of_params_are_refused(self):
        for hook in ("register_hook", "register_post_accumulate_grad_hook"):
            net = nn.Linear(4, 4)
            getattr(net.weight, hook)(lambda gradient: None)
            self.refuses(lambda net=net: stowage.from_torch(net, torch.randn(2, 4)),
                         'the param "weight" has a hook')

    def test_what_torch_cannot_differentiate_is_refused(self):
        class Floored(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x):
                y = self.a(x)
                return y + y // 0.3

        self.refuses(lambda: from_torch(Floored(), self.x), "torch cannot differentiate the module",
                     "derivative for aten::floor_divide is not implemented")

    def test_hooks_of_gradients_are_refused(self):
        class Hooked(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)

            def forward(self, x):
                h = self.a(x)
                if h.requires_grad:
                    h.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
                return self.b(torch.tanh(h))

        self.refuses(lambda: stowage.from_torch(Hooked(), self.x), "a tensor gets a hook",
                     "torch_test.py:")
        for hook in ("register_full_backward_hook", "register_full_backward_pre_hook"):
            net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 4))
            getattr(net[1], hook)(lambda *gradients: None)
            self.refuses(lambda net=net: stowage.from_torch(net, self.x),
                         'the module "1" (Tanh) has a backward hook')
        handle = nn.modules.module.register_module_full_backward_hook(lambda *gradients: None)
        try:
            self.refuses(lambda: stowage.from_torch(nn.Linear(6, 4), self.x), "of all modules")
        finally:
            handle.remove()

    def test_a_batch_of_ignored_labels_leaves_the_weights(self):
        class Judged(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x, y):
                return {"loss": F.cross_entropy(self.a(x), y, label_smoothing=0.1)}

        def shares(o, y):
            return F.nll_loss(F.log_softmax(o, 1), y)

        ignored = torch.full((8,), -100)
        for name, net, made in (
                ("by name", nn.Linear(6, 4), lambda net: from_torch(net, self.x)),
                ("nll", nn.Linear(6, 4),
                 lambda net: from_torch(net, self.x, loss=shares, example_labels=self.y)),
                ("its own", Judged(), lambda net: from_torch(net, (self.x, self.y), loss="loss"))):
            for optimizations in ("none", {"micro_batches": 4}):
                with self.subTest(loss=name, optimizations=optimizations):
                    trainer = stowage.Trainer(made(net), optimizer="sgd", lr=0.1, device="cpu",
                                              optimizations=optimizations)
                    before = trainer.state_dict()
                    self.assertTrue(np.isnan(trainer.step(self.x, ignored)))
                    for param, array in trainer.state_dict().items():
                        np.testing.assert_array_equal(array, before[param])
                    self.assertTrue(np.isfinite(trainer.step(self.x, self.y)))

    def test_what_forward_keeps_from_call_to_call_is_refused(self):
        class Kept(nn.Module):
            def __init__(self, kind):
                super().__init__()
                self.dense, self.kind = nn.Linear(4, 4), kind
                self.calls, self.first, self.cache = 0, None, {}

            def forward(self, x):
                self.calls += 1
                if self.kind == "counter":
                    return self.dense(x) * min(1.0, self.calls / 10)
                if self.kind == "first batch":
                    if self.first is None:
                        self.first = x.detach().mean(0)
                    return self.dense(x - self.first)
                if self.kind == "cache":
                    return self.dense(x) * self.cache.setdefault("scale", x.detach().std())
                # What does not depend on the inputs may be kept.
                return self.dense(x) + self.cache.setdefault("places", torch.arange(4))

        torch.manual_seed(0)
        x = torch.randn(3, 4)
        for kind, name in (("counter", '"calls"'), ("first batch", '"first"'),
                           ("cache", '"cache"')):
            self.refuses(lambda kind=kind: stowage.from_torch(Kept(kind), x), "earlier calls", name)
        stowage.from_torch(Kept("places"), x)

    def test_random_numbers_of_python_are_refused_where_they_matter(self):
        class Skips(nn.Module):
            def __init__(self, share, draw):
                super().__init__()
                self.dense, self.share, self.draw = nn.Linear(4, 4), share, draw

            def forward(self, x):
                y = self.dense(x)
                return 2 * y if self.draw() < self.share else y

        x = torch.randn(3, 4)
        for draw in (lambda: random.random(), lambda: np.random.random()):
            for seed in range(4):
                random.seed(seed)
                np.random.seed(seed)
                self.refuses(lambda draw=draw: stowage.from_torch(Skips(0.5, draw), x),
                             "by Python or NumPy")
            stowage.from_torch(Skips(0, draw), x)

    def test_modules_that_draw_are_compared_as_well(self):
        class Noisy(nn.Module):
            def __init__(self, is_reversed):
                super().__init__()
                self.dense, self.is_reversed = nn.Linear(4, 4), is_reversed

            def forward(self, x):
                y = self.dense(x + 0.1 * torch.randn_like(x)) * (torch.rand(3, 4) + 0.5)
                if self.is_reversed and y.grad_fn is not None:
                    y.grad_fn.register_prehook(lambda gradients: (-gradients[0],))
                return y

        torch.manual_seed(0)
        x = torch.randn(3, 4)
        stowage.from_torch(Noisy(False), x, loss="mse")
        self.refuses(lambda: stowage.from_torch(Noisy(True), x, loss="mse"),
                     '"dense.weight" would be trained otherwise')

    def test_a_module_that_makes_one_example_of_two_is_taken_whole(self):
        class Pairs(nn.Module):
            def __init__(self):
                super().__init__()
                self.dense = nn.Linear(6, 4)

            def forward(self, x):
                return self.dense(x).view(-1, 2, 4).mean(1)

        torch.manual_seed(0)
        net, x, labels = Pairs(), torch.randn(8, 6), torch.randint(0, 4, (4,))
        for loss, examples in ((F.cross_entropy, labels), ("cross_entropy", None)):
            model = stowage.from_torch(net, x, loss=loss, example_labels=examples)
            with stowage.Trainer(model, optimizer="sgd", lr=0, budget="1MB") as trainer:
                self.assertAlmostEqual(trainer.step(x, labels),
                                       F.cross_entropy(net(x), labels).item(), places=5)

    def test_checkpoints_are_taken_but_reentrant_ones(self):
        class Saved(nn.Module):
            def __init__(self, is_reentrant):
                super().__init__()
                self.dense, self.is_reentrant = nn.Linear(4, 4), is_reentrant

            def forward(self, x):
                return torch.utils.checkpoint.checkpoint(torch.tanh, self.dense(x),
                                                         use_reentrant=self.is_reentrant)

        x = torch.randn(3, 4)
        stowage.from_torch(Saved(False), x)
        self.refuses(lambda: stowage.from_torch(Saved(True), x), "use_reentrant=False")

    def test_rounding_alone_is_no_difference(self):
        # Forty batch norms of three examples make more of f32's last bit than the check allows.
        torch.manual_seed(0)
        net = nn.Sequential(*(layer for _ in range(40) for layer in
                              (nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())))
        x = torch.randn(3, 8)
        stowage.from_torch(net, x, loss="mse")

        class Scaled(nn.ReLU):
            def forward(self, x):
                y = super().forward(x)
                if y.grad_fn is not None:
                    y.grad_fn.register_prehook(lambda gradients: (1.2 * gradients[0],))
                return y

        net[-1] = Scaled()
        self.refuses(lambda: stowage.from_torch(net, x, loss="mse"), "trained otherwise")

    def test_an_import_keeps_no_copy_of_the_weights(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        # Blocks of 1 MiB, which the C library's heap does not give back by itself.
        net = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(64)))
        x = torch.randn(2, 512)
        stowage.from_torch(net[:2], x, loss="mse")  # loads what an import needs
        before = resident()
        model = stowage.from_torch(net, x, loss="mse")
        self.assertLess(resident() - before, 32 << 20)  # of 64 MiB of weights
        self.assertEqual(model.batch, 2)

    def test_a_buffer_that_is_assigned_anew_is_refused(self):
        class Mean(nn.Module):
            def __init__(self, in_place):
                super().__init__()
                self.dense, self.in_place = nn.Linear(4, 4), in_place
                self.register_buffer("mean", torch.zeros(4))

            def forward(self, x):
                y = self.dense(x + 0.01 * torch.randn_like(x))
                mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
                if self.in_place:
                    self.mean.copy_(mean)
                else:
                    self.mean = mean
                return y - mean

        x = torch.randn(3, 4)
        stowage.from_torch(Mean(True), x, loss="mse")
        self.refuses(lambda: stowage.from_torch(Mean(False), x, loss="mse"),
                     'the buffer "mean" a new tensor', "copy_")

    def test_names_of_a_steps_own_are_said(self):
        net = nn.Linear(4, 4)
        net.register_buffer("step", torch.zeros(()))
        self.refuses(lambda: stowage.from_torch(net, torch.randn(2, 4)), 'the buffer "step"',
                     "rename it")

    def test_modules_of_other_types_are_trained_in_them(self):
        for name, dtype, digits in (("f64", torch.float64, 6), ("bf16", torch.bfloat16, 1),
                                    ("f16", torch.float16, 2)):
            with self.subTest(dtype=name):
                net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4)).to(dtype)
                x = self.x.to(dtype)
                trainer = stowage.Trainer(from_torch(net, x), optimizer="sgd", lr=0.5,
                                          device="cpu", loss_scale="none")
                self.assertEqual([each.dtype for each in trainer.inputs.values()], [name, "i64"])
                right = F.cross_entropy(net(x), self.y).item()
                self.assertAlmostEqual(trainer.step(x, self.y), right, places=digits)

    def test_examples_in_another_memory_format_are_taken(self):
        x = torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last)
        net = nn.Sequential(nn.Conv2d(3, 4, 5), nn.Flatten())
        with stowage.Trainer(from_torch(net, x), optimizer="sgd", device="cpu") as trainer:
            loss = trainer.step(x.contiguous(), self.y[:4])
        self.assertAlmostEqual(loss, F.cross_entropy(net(x), self.y[:4]).item(), places=5)

    def test_a_loss_of_few_bits_is_compared_by_them(self):
        # Of torch's losses of bf16 logits, most differ by more than 1e-3 from those of exact ones.
        for seed in range(4):
            torch.manual_seed(seed)
            from_torch(nn.Linear(6, 4).bfloat16(), torch.randn(8, 6).bfloat16())

    def test_a_module_of_other_ops_for_other_batches_is_taken_whole(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, x):
                return torch.stack([self.a(row) for row in x.unbind(0)])

        self.check_trains(Net())
        with self.assertRaisesRegex(stowage.Unsupported, "cannot take its batch in parts"):
            stowage.plan(from_torch(Net(), self.x), optimizations={"micro_batches": 4},
                         device="cpu")

    def test_wrapped_modules_are_taken_and_scripts_refused(self):
        class Nested(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(6, 4)

            def forward(self, parts):
                return self.a(parts["first"]) + self.a(parts["rest"][0])

        net = nn.Linear(6, 4)
        for wrapped in (torch.compile(net), nn.DataParallel(net)):
            with stowage.Trainer(from_torch(wrapped, self.x), optimizer="sgd", lr=0.0,
                                 device="cpu") as trainer:
                self.assertAlmostEqual(trainer.step(self.x, self.y),
                                       F.cross_entropy(net(self.x), self.y).item(), places=5)
        self.refused("TorchScript", torch.jit.script(net))
        nested, parts = Nested(), {"first": self.x, "rest": (self.x * 2,)}
        with stowage.Trainer(from_torch(nested, (parts,)), optimizer="sgd", lr=0.0,
                             device="cpu") as trainer:
            self.assertEqual(list(trainer.inputs), ["parts.first", "parts.rest.0", "labels"])
            self.assertAlmostEqual(trainer.step(self.x, self.x * 2, self.y),
                                   F.cross_entropy(nested(parts), self.y).item(), places=5)

    def test_what_is_no_loss_is_said(self):
        with self.assertRaisesRegex(TypeError, "loss is a int; expected"):
            from_torch(nn.Linear(6, 4), self.x, loss=3)
        with self.assertRaisesRegex(stowage.InvalidArgument, "there are no example_labels"):
            from_torch(nn.Linear(6, 4), self.x, loss=F.cross_entropy)
        with self.assertRaisesRegex(stowage.InvalidArgument, r"of shape \(8, 4\)"):
            from_torch(nn.Linear(6, 4), self.x, loss="output")


if __name__ == "__main__":
    support.main()
