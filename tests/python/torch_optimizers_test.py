"""Objects of torch.optim and its schedulers: trainers compute as they do. Runs where torch is
installed (tests/using/torch.sh)."""

import copy
import importlib.util
import unittest
import warnings

import numpy as np
import support

import stowage

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn, optim
    from torch.nn import functional as F
    from torch.optim import lr_scheduler

    OPTIMIZERS = {
        "SGD": lambda net: optim.SGD(net.parameters(), lr=0.1),
        "momentum": lambda net: optim.SGD(net.parameters(), lr=0.1, momentum=0.9,
                                          weight_decay=0.01),
        "Nesterov's": lambda net: optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True),
        "Adam": lambda net: optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1),
        "AdamW": lambda net: optim.AdamW(net.parameters(), lr=0.01, betas=(0.8, 0.95)),
        "RMSprop": lambda net: optim.RMSprop(net.parameters(), lr=0.01, alpha=0.9),
        "Adagrad": lambda net: optim.Adagrad(net.parameters(), lr=0.01),
        "Adafactor": lambda net: optim.Adafactor(net.parameters(), lr=0.01),
        "groups": lambda net: optim.AdamW([
            {"params": net[0].parameters(), "lr": 0.1, "weight_decay": 0.0},
            {"params": net[2].parameters()}], lr=0.01),
        "a group at rest": lambda net: optim.SGD([
            {"params": net[0].parameters(), "lr": 0.0}, {"params": [net[2].weight]}], lr=0.1),
        "some params": lambda net: optim.AdamW(net[2].parameters(), lr=0.01),
    }
    SCHEDULERS = {
        "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 2, 0.1),
        "CosineAnnealingLR": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 6),
        "from zero": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: step / 10),
        "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10,
                                                                cycle_momentum=False),
    }

STEPS = 4


def example():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    return net, torch.randn(16, 6), torch.randint(0, 4, (16,))


def torch_steps(net, optimizer, x, y, scheduler=None):
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x.to(net[0].weight.dtype)), y)
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses


def trainer_steps(trainer, x, y, scheduler=None):
    losses = []
    for _ in range(STEPS):
        losses.append(trainer.step(x, y))
        if scheduler is not None:
            scheduler.step()
    return losses


def trainer_of(net, x, **options):
    return stowage.Trainer(stowage.from_torch(net, x), device="cpu", threads=1, **options)


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchOptimizersTest(support.TestCase):
    def check_states(self, net, optimizer, theirs, other):
        for ours, right in zip(net.parameters(), theirs.parameters()):
            np.testing.assert_allclose(ours.detach(), right.detach(), atol=2e-5)
            expected = {key: value for key, value in other.state.get(right, {}).items()
                        if value is not None}
            self.assertEqual(set(optimizer.state.get(ours, {})), set(expected))
            for key, value in expected.items():
                np.testing.assert_allclose(optimizer.state[ours][key].double(), value, atol=2e-5)

    def test_steps_and_states_are_torchs(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                net, x, y = example()
                theirs = copy.deepcopy(net).double()
                optimizer, other = make(net), make(theirs)
                first = trainer_of(net, x, optimizer=optimizer)
                np.testing.assert_allclose(trainer_steps(first, x, y),
                                           torch_steps(theirs, other, x, y), atol=1e-5)
                self.check_states(first.to_torch(net, optimizer), optimizer, theirs, other)
                # What goes on from there: another trainer, and torch itself.
                second = trainer_of(net, x, optimizer=optimizer)
                right = torch_steps(theirs, other, x, y)
                np.testing.assert_allclose(trainer_steps(second, x, y), right, atol=1e-5)
                np.testing.assert_allclose(torch_steps(net, optimizer, x, y), right, atol=1e-5)

    def test_schedulers_work_as_in_torch(self):
        for name, make in SCHEDULERS.items():
            with self.subTest(scheduler=name), warnings.catch_warnings():
                warnings.simplefilter("error")  # torch's, of an order of calls that is wrong
                net, x, y = example()
                theirs = copy.deepcopy(net).double()
                optimizer, other = OPTIMIZERS["groups"](net), OPTIMIZERS["groups"](theirs)
                scheduler, right = make(optimizer), make(other)
                trainer = trainer_of(net, x, optimizer=optimizer, lr=scheduler)
                np.testing.assert_allclose(trainer_steps(trainer, x, y, scheduler),
                                           torch_steps(theirs, other, x, y, right), atol=1e-5)
                self.assertEqual(trainer.lr, other.param_groups[0]["lr"])

    def test_a_rate_that_is_set_in_torch_is_the_next_steps(self):
        net, x, y = example()
        optimizer = OPTIMIZERS["SGD"](net)
        trainer = trainer_of(net, x, optimizer=optimizer)
        optimizer.param_groups[0]["lr"] = 0.0
        before = trainer.state_dict()
        trainer.step(x, y)
        for name, value in trainer.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
        with self.assertRaisesRegex(stowage.InvalidArgument, "trainer's SGD; set it there"):
            trainer.lr = 0.1

    def test_what_is_no_trainers_is_refused(self):
        net, x, y = example()
        model = stowage.from_torch(net, x)
        params = list(net.parameters())
        for words, make, options in (
                ("torch.optim.nadam.NAdam is not known; known are SGD", lambda: optim.NAdam(params), {}),
                ("AdamW has amsgrad=True; a trainer computes with amsgrad=False",
                 lambda: optim.AdamW(params, amsgrad=True), {}),
                ("SGD has dampening=0.5", lambda: optim.SGD(params, momentum=0.9, dampening=0.5), {}),
                ("RMSprop has centered=True", lambda: optim.RMSprop(params, centered=True), {}),
                ("maximize=True", lambda: optim.SGD(params, maximize=True), {}),
                ("groups of the AdamW differ in beta1", lambda: optim.AdamW(
                    [{"params": params[:1], "betas": (0.5, 0.999)}, {"params": params[1:]}]), {})):
            self.raises(stowage.Unsupported, words, stowage.Trainer, model, optimizer=make(),
                        device="cpu", **options)
        optimizer, other = optim.SGD(params, lr=0.1), optim.SGD(params, lr=0.1)
        for words, given, options in (
                ("a tensor of shape (3,) that is no param",
                 optim.SGD([*params, nn.Parameter(torch.zeros(3))]), {}),
                ("[groups] groups are given beside", optimizer, {"groups": [{"pattern": "*"}]}),
                ("momentum is given beside", optimizer, {"momentum": 0.9}),
                ("weight_decay is given beside", optimizer, {"weight_decay": 0.0}),
                ("lr is given twice: 0.5", optimizer, {"lr": 0.5}),
                ("StepLR is of another optimizer", optimizer,
                 {"lr": lr_scheduler.StepLR(other, 1)})):
            self.raises(stowage.InvalidArgument, words, stowage.Trainer, model, optimizer=given,
                        device="cpu", **options)
        hooked = optim.SGD(params, lr=0.1)
        hooked.register_step_pre_hook(lambda *given: None)
        self.raises(stowage.Unsupported, "has hooks of its step", stowage.Trainer, model,
                    optimizer=hooked, device="cpu")
        self.raises(stowage.InvalidArgument, "the model is not of from_torch", support.trainer,
                    optimizer=optimizer, lr=None)
        self.raises(TypeError, "is none; expected a name, an object of torch.optim",
                    stowage.Trainer, model, optimizer=optim.SGD)

    def test_what_changes_during_the_run_is_refused_with_nothing_done(self):
        net, x, y = example()
        optimizer = OPTIMIZERS["groups"](net)
        trainer = trainer_of(net, x, optimizer=optimizer)
        before = trainer.state_dict()
        optimizer.param_groups[0]["lr"] = 0.2
        self.raises(stowage.Unsupported, "group 1 of the AdamW has the rate 0.01, and group 0 0.2", trainer.step, x, y)
        optimizer.param_groups[0]["lr"] = 0.1
        optimizer.param_groups[1]["weight_decay"] = 0.5
        self.raises(stowage.Unsupported, "'decay': 0.5", trainer.step, x, y)
        optimizer.param_groups[1]["weight_decay"] = 0.01
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
        self.raises(stowage.Unsupported, "has 3 groups, and had 2", trainer.step, x, y)
        optimizer.param_groups.pop()
        net[0].bias.requires_grad_(False)
        self.raises(stowage.Unsupported, "were taken away or frozen", trainer.step, x, y)
        net[0].bias.requires_grad_(True)
        kept = optimizer.param_groups[1]["params"].pop()
        self.raises(stowage.Unsupported, "were taken away or frozen", trainer.step, x, y)
        optimizer.param_groups[1]["params"].append(kept)
        for name, value in trainer.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
        self.raises(stowage.Unsupported, "cycle_momentum=False", self.one_cycle, net, x, y)

    def one_cycle(self, net, x, y):
        optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
        trainer_steps(trainer_of(net, x, optimizer=optimizer), x, y, scheduler)

    def test_params_that_have_made_other_numbers_of_steps_are_refused(self):
        net, x, y = example()
        net[0].bias.requires_grad_(False)
        optimizer = optim.AdamW(net.parameters(), lr=0.1)
        torch_steps(net, optimizer, x, y)
        net[0].bias.requires_grad_(True)
        self.raises(stowage.Unsupported, "have made 0 to 4 steps", trainer_of, net, x,
                    optimizer=optimizer)

    def test_states_of_other_types_are_taken(self):
        for dtype, digits in ((torch.float64, 6), (torch.float16, 2), (torch.bfloat16, 1)):
            for name in ("momentum", "Adagrad"):
                with self.subTest(dtype=dtype, optimizer=name):
                    net, x, y = example()
                    net, x = net.to(dtype), x.to(dtype)
                    optimizer = OPTIMIZERS[name](net)
                    torch_steps(net, optimizer, x, y)
                    trainer = trainer_of(net, x, optimizer=optimizer, loss_scale="none")
                    right = torch_steps(net, optimizer, x, y)
                    for ours, loss in zip(trainer_steps(trainer, x, y), right):
                        self.assertAlmostEqual(ours, loss, places=digits)

    def test_states_go_to_an_optimizer_of_their_kind(self):
        net, x, y = example()
        trainer = trainer_of(net, x, optimizer="adamw")
        trainer.step(x, y)
        self.raises(stowage.InvalidArgument, "optimizer is adamw, and the module's SGD",
                    trainer.to_torch, net, optim.SGD(net.parameters()))
        self.raises(TypeError, "a NAdam is not one of SGD", trainer.to_torch, net,
                    optim.NAdam(net.parameters()))
        compact = trainer_of(net, x, optimizer="adamw8bit")
        self.raises(stowage.Unsupported, "adamw8bit keeps states", compact.to_torch, net,
                    optim.AdamW(net.parameters()))


if __name__ == "__main__":
    support.main()
