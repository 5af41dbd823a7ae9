"""Objects of torch.optim: trainers compute as they do. Runs where torch is installed
(tests/using/torch.sh); torch_schedulers_test.py has the schedulers."""

import copy
import importlib.util
import unittest

import numpy as np
import support

import stowage

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn, optim
    from torch.nn import functional as F

    OPTIMIZERS = {
        "SGD": lambda net: optim.SGD(net.parameters(), lr=0.1),
        "momentum": lambda net: optim.SGD(net.parameters(), lr=0.1, momentum=0.9,
                                          weight_decay=0.01),
        "dampening": lambda net: optim.SGD(net.parameters(), lr=0.1, momentum=0.9, dampening=0.3),
        "Nesterov's": lambda net: optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True),
        "ascent": lambda net: optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1,
                                        maximize=True),
        "Adam": lambda net: optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1),
        "decoupled Adam": lambda net: optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1,
                                                 decoupled_weight_decay=True),
        "AMSGrad": lambda net: optim.Adam(net.parameters(), lr=0.01, amsgrad=True, maximize=True),
        "AdamW": lambda net: optim.AdamW(net.parameters(), lr=0.01, betas=(0.8, 0.95)),
        "AdamW, AMSGrad": lambda net: optim.AdamW(net.parameters(), lr=0.01, amsgrad=True),
        "RMSprop": lambda net: optim.RMSprop(net.parameters(), lr=0.01, alpha=0.9),
        "centered RMSprop": lambda net: optim.RMSprop(net.parameters(), lr=0.01, momentum=0.5,
                                                      centered=True, weight_decay=0.1),
        "Adagrad": lambda net: optim.Adagrad(net.parameters(), lr=0.01),
        "Adagrad's settings": lambda net: optim.Adagrad(
            net.parameters(), lr=0.01, lr_decay=0.1, initial_accumulator_value=0.2),
        "NAdam": lambda net: optim.NAdam(net.parameters(), weight_decay=0.1),
        "decoupled NAdam": lambda net: optim.NAdam(
            net.parameters(), weight_decay=0.1, momentum_decay=0.01, decoupled_weight_decay=True),
        "RAdam": lambda net: optim.RAdam(net.parameters(), lr=0.01, weight_decay=0.1),
        "decoupled RAdam": lambda net: optim.RAdam(
            net.parameters(), lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
        "Adamax": lambda net: optim.Adamax(net.parameters(), weight_decay=0.1),
        "Adadelta": lambda net: optim.Adadelta(net.parameters(), weight_decay=0.1),
        "ASGD": lambda net: optim.ASGD(net.parameters(), lambd=0.1, t0=2, weight_decay=0.1),
        "Rprop": lambda net: optim.Rprop(net.parameters(), step_sizes=(1e-3, 0.05)),
        "Adafactor": lambda net: optim.Adafactor(net.parameters(), lr=0.01),
        "Adafactor's settings": lambda net: optim.Adafactor(
            net.parameters(), lr=0.01, eps=(1e-3, 1e-2), d=1.5, weight_decay=0.1),
        "groups": lambda net: optim.AdamW([
            {"params": net[0].parameters(), "lr": 0.1, "weight_decay": 0.0},
            {"params": net[2].parameters(), "betas": (0.5, 0.9), "eps": 1e-3, "amsgrad": True}],
            lr=0.01),
        "groups of SGD": lambda net: optim.SGD([
            {"params": net[0].parameters(), "momentum": 0.5, "nesterov": True},
            {"params": [net[2].weight], "momentum": 0.9},
            {"params": [net[2].bias], "maximize": True}], lr=0.1),
        "a group at rest": lambda net: optim.SGD([
            {"params": net[0].parameters(), "lr": 0.0}, {"params": [net[2].weight]}], lr=0.1),
        "some params": lambda net: optim.AdamW(net[2].parameters(), lr=0.01),
    }

STEPS = 4


def example():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    return net, torch.randn(16, 6), torch.randint(0, 4, (16,))


def torch_steps(net, optimizer, x, y):
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x.to(net[0].weight.dtype)), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def trainer_steps(trainer, x, y):
    return [trainer.step(x, y) for _ in range(STEPS)]


def trainer_of(net, x, **options):
    return stowage.Trainer(stowage.from_torch(net, x), device="cpu", threads=1, **options)


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchOptimizersTest(support.TestCase):
    def check_states(self, net, optimizer, theirs, other, atol):
        for ours, right in zip(net.parameters(), theirs.parameters()):
            np.testing.assert_allclose(ours.detach(), right.detach(), atol=atol)
            expected = {key: value for key, value in other.state.get(right, {}).items()
                        if value is not None}
            self.assertEqual(set(optimizer.state.get(ours, {})), set(expected))
            for key, value in expected.items():
                np.testing.assert_allclose(optimizer.state[ours][key].double(), value, atol=atol)

    def check_steps(self, make, dtype, rtol, atol):
        net, x, y = example()
        net, x = net.to(dtype), x.to(dtype)
        theirs = copy.deepcopy(net).double()
        optimizer, other = make(net), make(theirs)
        first = trainer_of(net, x, optimizer=optimizer)
        np.testing.assert_allclose(trainer_steps(first, x, y),
                                   torch_steps(theirs, other, x, y), rtol=rtol)
        self.check_states(first.to_torch(net, optimizer), optimizer, theirs, other, atol)
        # What goes on from there: another trainer, and torch itself.
        second = trainer_of(net, x, optimizer=optimizer)
        right = torch_steps(theirs, other, x, y)
        np.testing.assert_allclose(trainer_steps(second, x, y), right, rtol=rtol)
        for name, param in theirs.named_parameters():
            np.testing.assert_allclose(second.state_dict()[name], param.detach(), atol=atol)
        np.testing.assert_allclose(torch_steps(net, optimizer, x, y), right, rtol=rtol)

    def test_steps_and_states_are_torchs(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(optimizer=name):
                self.check_steps(make, torch.float32, rtol=1e-5, atol=2e-5)
        # ASGD and NAdam keep scalars of the default type.
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        for name, make in OPTIMIZERS.items():
            with self.subTest(optimizer=name, dtype="float64"):
                # Losses are f32.
                self.check_steps(make, torch.float64, rtol=1e-7, atol=1e-12)

    def test_adafactor_factors_the_last_axes_of_filters_as_torch_does(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(2, 3, (2, 3)), nn.Flatten(), nn.Linear(18, 4)).double()
        theirs = copy.deepcopy(net)
        x, y = torch.randn(8, 2, 4, 4, dtype=torch.float64), torch.randint(0, 4, (8,))
        optimizer, other = optim.Adafactor(net.parameters()), optim.Adafactor(theirs.parameters())
        trainer = trainer_of(net, x, optimizer=optimizer)
        trainer_steps(trainer, x, y)
        torch_steps(theirs, other, x, y)
        self.check_states(trainer.to_torch(net, optimizer), optimizer, theirs, other, 1e-12)
        self.assertEqual(trainer.read("0.weight.row_var").shape, (3, 2, 2, 1))

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
        unknown = optim.AdamW(params)
        unknown.defaults["cautious"] = True
        own = type("Own", (optim.SGD,), {})
        for words, optimizer in (
                ("torch.optim.lbfgs.LBFGS is not known, since it evaluates the loss several times a "
                 "step; known are SGD", optim.LBFGS(params)),
                ("SparseAdam is not known, since it takes sparse", optim.SparseAdam(params)),
                ("Muon is not known, since it orthogonalizes in bf16",
                 optim.Muon([net[0].weight])),
                ("Own is not known", own(params)),
                ("the AdamW has cautious=True, a setting that a trainer does not know", unknown)):
            self.raises(stowage.Unsupported, words, stowage.Trainer, model, optimizer=optimizer,
                        device="cpu")
        optimizer, other = optim.SGD(params, lr=0.1), optim.SGD(params, lr=0.1)
        for words, given, options in (
                ("a tensor of shape (3,) that is no param",
                 optim.SGD([*params, nn.Parameter(torch.zeros(3))]), {}),
                ("[groups] groups are given beside", optimizer, {"groups": [{"pattern": "*"}]}),
                ("momentum is given beside", optimizer, {"momentum": 0.9}),
                ("weight_decay is given beside", optimizer, {"weight_decay": 0.0}),
                ("varying has 'eps'; of the settings of a SGD besides lr, weight_decay and momentum "
                 "may vary", optimizer, {"varying": ["eps"]}),
                ("varying has 'momentum'; of the settings of a Rprop besides lr, none may vary",
                 optim.Rprop(params), {"varying": ["momentum"]}),
                ("varying=['momentum'] are settings of an object of torch.optim", "sgd",
                 {"varying": ["momentum"]}),
                ("lr is given twice: 0.5", optimizer, {"lr": 0.5}),
                ("StepLR is of another optimizer", optimizer,
                 {"lr": optim.lr_scheduler.StepLR(other, 1)})):
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
        for key, value, words in (
                ("weight_decay", 0.5, 'group 1 of the AdamW has decay=0.5, and had 0.01 when the '
                 'step was planned; give varying=["weight_decay"]'),
                ("betas", (0.8, 0.9), 'has beta1=0.8, and had 0.5 when the step was planned; give '
                 'varying=["betas"]'),
                ("betas", (0.5, 0.99), "has beta2=0.99, and had 0.9 when the step was planned; make "
                 "a trainer anew"),
                ("maximize", True, "has maximize=True, and had False"),
                ("lr", float("nan"), "lr of group 1 of the AdamW is nan; expected a finite")):
            kept = optimizer.param_groups[1][key]
            optimizer.param_groups[1][key] = value
            self.raises(stowage.InvalidArgument if key == "lr" else stowage.Unsupported, words,
                        trainer.step, x, y)
            optimizer.param_groups[1][key] = kept
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
            for name in ("momentum", "Adagrad", *(["NAdam"] if digits != 2 else [])):
                with self.subTest(dtype=dtype, optimizer=name):
                    net, x, y = example()
                    net, x = net.to(dtype), x.to(dtype)
                    optimizer = OPTIMIZERS[name](net)
                    torch_steps(net, optimizer, x, y)
                    trainer = trainer_of(net, x, optimizer=optimizer, loss_scale="none")
                    right = torch_steps(net, optimizer, x, y)
                    for ours, loss in zip(trainer_steps(trainer, x, y), right):
                        self.assertAlmostEqual(ours, loss, places=digits)
                    trainer.to_torch(net, optimizer)
                    for key, value in optimizer.state[net[0].weight].items():
                        self.assertEqual(value.dtype, torch.float32 if key in ("step", "mu_product")
                                         else dtype)

    def test_states_go_to_an_optimizer_of_their_kind(self):
        net, x, y = example()
        trainer = trainer_of(net, x, optimizer="adamw")
        trainer.step(x, y)
        self.raises(stowage.InvalidArgument, "optimizer is adamw, and the module's SGD",
                    trainer.to_torch, net, optim.SGD(net.parameters()))
        self.raises(stowage.InvalidArgument, "AdamW has amsgrad=True, and the trainer's optimizer "
                    "has not", trainer.to_torch, net, optim.AdamW(net.parameters(), amsgrad=True))
        self.raises(TypeError, "a LBFGS is not one of SGD", trainer.to_torch, net,
                    optim.LBFGS(net.parameters()))
        compact = trainer_of(net, x, optimizer="adamw8bit")
        self.raises(stowage.Unsupported, "adamw8bit keeps states", compact.to_torch, net,
                    optim.AdamW(net.parameters()))


if __name__ == "__main__":
    support.main()
