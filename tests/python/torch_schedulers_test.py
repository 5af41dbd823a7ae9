"""torch's schedulers: trainers follow the rates of all groups and a cycled momentum at every step.
Runs where torch is installed (tests/using/torch.sh)."""

import copy
import importlib.util
import tempfile
import unittest
import warnings

import numpy as np
import support

import stowage

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn, optim
    from torch.nn import functional as F
    from torch.optim import lr_scheduler, swa_utils

    SCHEDULERS = {
        "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: step / 10),
        "two LambdaLRs": lambda optimizer: lr_scheduler.LambdaLR(
            optimizer, [lambda step: 0.9**step, lambda step: min(1, step / 3)]),
        "MultiplicativeLR": lambda optimizer: lr_scheduler.MultiplicativeLR(
            optimizer, [lambda step: 0.9, lambda step: 0.7]),
        "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 2, 0.1),
        "MultiStepLR": lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [1, 3], 0.3),
        "ConstantLR": lambda optimizer: lr_scheduler.ConstantLR(optimizer, 0.3, 2),
        "LinearLR": lambda optimizer: lr_scheduler.LinearLR(optimizer, 0.1, 1, 4),
        "ExponentialLR": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.7),
        "PolynomialLR": lambda optimizer: lr_scheduler.PolynomialLR(optimizer, 5, 2.0),
        "CosineAnnealingLR": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 3, 1e-3),
        "CosineAnnealingWarmRestarts": lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(
            optimizer, 2, 2),
        "ReduceLROnPlateau": lambda optimizer: lr_scheduler.ReduceLROnPlateau(
            optimizer, patience=0, threshold=0.5, min_lr=[5e-3, 1e-4]),
        "CyclicLR, triangular": lambda optimizer: lr_scheduler.CyclicLR(
            optimizer, [0.01, 0.001], [0.1, 0.2], step_size_up=2),
        "CyclicLR, triangular2": lambda optimizer: lr_scheduler.CyclicLR(
            optimizer, 0.01, 0.1, step_size_up=1, mode="triangular2"),
        "CyclicLR, exp_range": lambda optimizer: lr_scheduler.CyclicLR(
            optimizer, 0.01, 0.1, step_size_up=2, mode="exp_range", gamma=0.9),
        "CyclicLR from no momentum": lambda optimizer: lr_scheduler.CyclicLR(
            optimizer, 0.01, 0.1, step_size_up=2, base_momentum=0.0, max_momentum=0.9),
        "CyclicLR of rates": lambda optimizer: lr_scheduler.CyclicLR(
            optimizer, 0.01, 0.1, step_size_up=2, cycle_momentum=False),
        "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8),
        "OneCycleLR of groups": lambda optimizer: lr_scheduler.OneCycleLR(
            optimizer, [0.1, 0.3], total_steps=8, three_phase=True, anneal_strategy="linear"),
        "SequentialLR": lambda optimizer: lr_scheduler.SequentialLR(
            optimizer, [lr_scheduler.ConstantLR(optimizer, 0.1, 2),
                        lr_scheduler.ExponentialLR(optimizer, 0.9)], [2]),
        "ChainedScheduler": lambda optimizer: lr_scheduler.ChainedScheduler(
            [lr_scheduler.ConstantLR(optimizer, 0.1, 2),
             lr_scheduler.ExponentialLR(optimizer, 0.9)]),
        "SWALR": lambda optimizer: swa_utils.SWALR(optimizer, swa_lr=[0.05, 0.01],
                                                   anneal_epochs=3),
    }
    OPTIMIZERS = {
        "momentum": lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01),
        "AdamW": lambda groups: optim.AdamW(groups, lr=0.01),
    }
    # Others whose momentum or betas[0] a scheduler cycles.
    CYCLED = {
        "SGD": lambda groups: optim.SGD(groups, lr=0.1),
        "dampening": lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9, dampening=0.2),
        "Nesterov's": lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True),
        "RMSprop": lambda groups: optim.RMSprop(groups, lr=0.01, centered=True),
        "Adam": lambda groups: optim.Adam(groups, lr=0.01, amsgrad=True),
        "NAdam": lambda groups: optim.NAdam(groups),
        "RAdam": lambda groups: optim.RAdam(groups),
        "Adamax": lambda groups: optim.Adamax(groups),
    }

STEPS = 6


def example():
    """A net of two groups, the second of which has another rate, and a batch."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    return net, torch.randn(16, 6, dtype=torch.float64), torch.randint(0, 4, (16,))


def groups_of(net):
    return [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.02}]


def advance(scheduler):
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        scheduler.step(1.0)
    else:
        scheduler.step()


def torch_steps(net, optimizer, scheduler, x, y, steps=STEPS, clip=None):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        advance(scheduler)
        losses.append(loss.item())
    return losses


def trainer_steps(trainer, scheduler, x, y, steps=STEPS):
    losses = []
    for _ in range(steps):
        losses.append(trainer.step(x, y))
        advance(scheduler)
    return losses


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchSchedulersTest(support.TestCase):
    def setUp(self):
        torch.set_default_dtype(torch.float64)
        self.addCleanup(torch.set_default_dtype, torch.float32)
        self.net, self.x, self.y = example()
        self.model = stowage.from_torch(self.net, self.x)

    def trainer(self, optimizer, **options):
        return stowage.Trainer(self.model, device="cpu", threads=1, optimizer=optimizer, **options)

    def check_params(self, trainer, theirs, atol=1e-12):
        state = trainer.state_dict()
        for name, param in theirs.named_parameters():
            np.testing.assert_allclose(state[name], param.detach(), rtol=0, atol=atol)

    def check(self, make_optimizer, make_scheduler, clip=None, atol=1e-12, **options):
        theirs = copy.deepcopy(self.net)
        optimizer, other = make_optimizer(groups_of(self.net)), make_optimizer(groups_of(theirs))
        scheduler, right = make_scheduler(optimizer), make_scheduler(other)
        trainer = self.trainer(optimizer, lr=scheduler, clip_norm=clip, **options)
        # Losses are f32.
        np.testing.assert_allclose(
            trainer_steps(trainer, scheduler, self.x, self.y),
            torch_steps(theirs, other, right, self.x, self.y, clip=clip), rtol=2e-7)
        self.check_params(trainer, theirs, atol)

    def test_every_scheduler_works_as_in_torch(self):
        for optimizer, make in OPTIMIZERS.items():
            for name, scheduler in SCHEDULERS.items():
                with self.subTest(optimizer=optimizer, scheduler=name), warnings.catch_warnings():
                    warnings.simplefilter("error")  # torch's, of an order of calls that is wrong
                    self.check(make, scheduler)

    def test_every_momentum_is_cycled_as_in_torch(self):
        for optimizer, make in CYCLED.items():
            for name in ("OneCycleLR", "CyclicLR from no momentum"):
                with self.subTest(optimizer=optimizer, scheduler=name):
                    self.check(make, SCHEDULERS[name])

    def test_micro_batches_clipping_and_loss_scaling_change_no_update(self):
        for optimizer, make in OPTIMIZERS.items():
            for options, atol in (({"optimizations": {"micro_batches": 4}}, 1e-12),
                                  ({"loss_scale": 1024}, 1e-12),
                                  # Norms are f32.
                                  ({"clip": 0.05}, 1e-7),
                                  ({"clip": 0.05, "loss_scale": "dynamic",
                                    "optimizations": {"micro_batches": 2}}, 1e-7)):
                with self.subTest(optimizer=optimizer, options=options):
                    self.check(make, SCHEDULERS["OneCycleLR of groups"], atol=atol, **options)

    def test_fit_follows_a_scheduler_that_a_callback_advances(self):
        theirs = copy.deepcopy(self.net)
        optimizer, other = (OPTIMIZERS["AdamW"](groups_of(net)) for net in (self.net, theirs))
        scheduler, right = map(SCHEDULERS["OneCycleLR of groups"], (optimizer, other))
        trainer = self.trainer(optimizer)
        trainer.fit([(self.x.numpy(), self.y.numpy())], steps=STEPS,
                    on_step=lambda figures: scheduler.step())
        torch_steps(theirs, other, right, self.x, self.y)
        self.check_params(trainer, theirs)

    def test_a_run_goes_on_with_the_states_of_optimizer_and_scheduler(self):
        theirs = copy.deepcopy(self.net)
        optimizer, other = (OPTIMIZERS["AdamW"](groups_of(net)) for net in (self.net, theirs))
        scheduler, right = map(SCHEDULERS["OneCycleLR"], (optimizer, other))
        torch_steps(theirs, other, right, self.x, self.y)
        trainer = self.trainer(optimizer)
        trainer_steps(trainer, scheduler, self.x, self.y, steps=2)
        with tempfile.TemporaryDirectory() as folder:
            trainer.save(f"{folder}/run.safetensors")
            again = OPTIMIZERS["AdamW"](groups_of(self.net))
            moved = SCHEDULERS["OneCycleLR"](again)
            moved.load_state_dict(scheduler.state_dict())
            again.load_state_dict(optimizer.state_dict())
            resumed = self.trainer(again)
            resumed.resume(f"{folder}/run.safetensors")
        trainer_steps(resumed, moved, self.x, self.y, steps=STEPS - 2)
        self.check_params(resumed, theirs)

    def test_settings_that_a_program_changes_itself_are_named(self):
        for make, key, values in (
                (lambda groups: optim.SGD(groups, lr=0.1, momentum=0.9), "momentum", (0.5, 0.0, 0.7)),
                (lambda groups: optim.Adam(groups), "betas", ((0.5, 0.999), (0.8, 0.999))),
                (lambda groups: optim.AdamW(groups), "weight_decay", (0.5, 0.0, 0.25)),
                (lambda groups: optim.ASGD(groups), "weight_decay", (0.5, 0.25))):
            with self.subTest(key=key):
                theirs = copy.deepcopy(self.net)
                optimizer, other = make(groups_of(self.net)), make(groups_of(theirs))
                trainer = self.trainer(optimizer, varying=[key])
                none = lr_scheduler.ConstantLR(other, 1.0)
                for value in values:
                    for each in (optimizer, other):
                        each.param_groups[1][key] = value
                    trainer.step(self.x, self.y)
                    torch_steps(theirs, other, none, self.x, self.y, steps=1)
                self.check_params(trainer, theirs)

    def test_a_scheduler_that_comes_after_the_trainer_is_refused_at_once(self):
        optimizer = OPTIMIZERS["momentum"](groups_of(self.net))
        trainer = self.trainer(optimizer)
        before = trainer.state_dict()
        lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
        self.raises(stowage.Unsupported, "group 0 of the SGD has a scheduler that cycles its "
                    "momentum, and had none when the step was planned; make the scheduler before "
                    "the trainer", trainer.step, self.x, self.y)
        for name, value in trainer.state_dict().items():
            np.testing.assert_array_equal(value, before[name])


if __name__ == "__main__":
    support.main()
