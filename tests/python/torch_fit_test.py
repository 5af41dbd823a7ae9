"""Runs of torch modules: DataLoaders, validation losses in eval mode, objects of torch.optim.
Runs where torch is installed (tests/using/torch.sh)."""

import copy
import importlib.util
import os
import tempfile
import unittest

import numpy as np
import support

import stowage

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset

EXAMPLES, BATCH, FEATURES, CLASSES = 21, 4, 6, 3


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Dropout(0.5),
                         nn.Linear(8, CLASSES))


def data():
    random = torch.Generator().manual_seed(1)
    return (torch.randn(EXAMPLES, FEATURES, generator=random),
            torch.randint(0, CLASSES, (EXAMPLES,), generator=random))


def trainer_of(module, **options):
    return stowage.Trainer(stowage.from_torch(module, data()[0][:BATCH],
                                              **options.pop("model", {})),
                           device="cpu", threads=1, seed=2, **{"optimizer": "adamw", **options})


def loader(seed=3):
    return DataLoader(TensorDataset(*data()), batch_size=BATCH, shuffle=True,
                      generator=torch.Generator().manual_seed(seed))


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchFitTest(support.TestCase):
    def torchs(self, trainer, module, loss, x, y):
        """The loss of all in eval mode, of the module with the trainer's weights, in float64."""
        module = trainer.to_torch(copy.deepcopy(module)).eval().double()
        with torch.no_grad():
            return float(loss(module(x.double()), y))

    def test_the_validation_loss_is_torchs_in_eval_mode(self):
        x, y = data()
        ignored = y.clone()
        ignored[::5] = -100
        for labels in (y, ignored):  # 21 examples, 5 batches and one
            module = net()
            with trainer_of(module) as trainer:
                result = trainer.fit((x, labels), steps=6, eval_data=(x, labels), eval_every=3)
                expected = self.torchs(trainer, module, F.cross_entropy, x, labels)
            self.assertEqual([each.step for each in result.evaluations], [3, 6])
            self.assertAlmostEqual(result.evaluations[-1].loss, expected, places=6)

    def test_metrics_leave_out_labels_that_the_loss_ignores(self):
        x, y = data()
        y[::4] = -100
        module = net()
        with trainer_of(module) as trainer:
            made = trainer.validate((x, y), ["accuracy", "f1_macro"])
            logits = trainer.to_torch(module).eval()(x).detach()
        kept = y != -100
        predictions, labels = logits.argmax(1)[kept], y[kept]
        self.assertAlmostEqual(made.metrics["accuracy"],
                               float((predictions == labels).double().mean()), places=12)
        f1 = [2 * int(((predictions == each) & (labels == each)).sum())
              / int((predictions == each).sum() + (labels == each).sum())
              for each in range(CLASSES)]
        self.assertAlmostEqual(made.metrics["f1_macro"], sum(f1) / CLASSES, places=12)

    def test_metrics_of_pixels(self):
        class Pixels(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(2, CLASSES, 1)

            def forward(self, x):
                return self.conv(x)

        random = torch.Generator().manual_seed(6)
        x = torch.randn(5, 2, 3, 4, generator=random)
        y = torch.randint(0, CLASSES, (5, 3, 4), generator=random)
        module = Pixels()
        with stowage.Trainer(stowage.from_torch(module, x[:2]), device="cpu", threads=1,
                             optimizer="sgd") as trainer:
            made = trainer.validate((x, y), ["accuracy", "mean_iou"])
            predictions = trainer.to_torch(module)(x).argmax(1)
        self.assertAlmostEqual(made.metrics["accuracy"],
                               float((predictions == y).double().mean()), places=12)
        iou = [int(((predictions == each) & (y == each)).sum())
               / int(((predictions == each) | (y == each)).sum()) for each in range(CLASSES)]
        self.assertAlmostEqual(made.metrics["mean_iou"], sum(iou) / CLASSES, places=12)

    def test_a_mean_that_is_torchs_follows_from_a_last_batch_that_is_short(self):
        x, _ = data()
        y = torch.randn(EXAMPLES, CLASSES, generator=torch.Generator().manual_seed(4))
        module = net()
        with trainer_of(module, model={"loss": "mse"}) as trainer:
            result = trainer.fit((x, y), steps=3, eval_data=DataLoader(TensorDataset(x, y), 8))
            expected = self.torchs(trainer, module, F.mse_loss, x, y)
        self.assertAlmostEqual(result.evaluations[-1].loss, expected, places=6)

    def test_a_loss_that_is_a_function_takes_whole_batches(self):
        x, y = data()
        module = net()
        with trainer_of(module, model={"loss": F.cross_entropy,
                                       "example_labels": y[:BATCH]}) as trainer:
            with self.assertLogs("stowage", "WARNING") as logged:
                result = trainer.fit((x, y), steps=3, eval_data=(x[:20], y[:20]))
            self.assertIn("does not follow from theirs", logged.output[0])
            expected = self.torchs(trainer, module, F.cross_entropy, x[:20], y[:20])
            self.assertAlmostEqual(result.evaluations[-1].loss, expected, places=6)
            with self.assertLogs("stowage", "WARNING"):
                self.raises(stowage.Unsupported, "of 1 examples does not follow from batches of 4",
                            trainer.fit, (x, y), steps=4, eval_data=(x, y))

    def test_a_loader_that_shuffles_resumes_bit_for_bit(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            with trainer_of(net()) as whole:
                expected = whole.fit(loader(), epochs=3)
                self.assertEqual(len(expected.losses), 18)  # 6 a pass, the last one filled up
                weights = whole.state_dict()
            with trainer_of(net()) as first:
                before = first.fit(loader(), epochs=3, save=path,
                                   on_step=lambda each: each.step == 9)
            with trainer_of(net()) as second:
                after = second.fit(loader(), epochs=3, save=path)
                self.assertEqual(before.losses + after.losses, expected.losses)
                for name, value in second.state_dict().items():
                    np.testing.assert_array_equal(value, weights[name])

    def test_averages_are_torchs_in_float64(self):
        from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

        x, y = data()
        x = x.double()
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()
        average = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.0078125)
        with stowage.Trainer(stowage.from_torch(module, x[:BATCH]), optimizer="AdamW", lr=0.0078125,
                             weight_decay=0.01, ema=0.9, device="cpu", threads=1) as trainer:
            for step in range(5):
                at = slice(step * BATCH, (step + 1) * BATCH)
                trainer.step(x[at], y[at])
                optimizer.zero_grad()
                F.cross_entropy(module(x[at]), y[at]).backward()
                optimizer.step()
                average.update_parameters(module)
            with trainer.averaged():
                ours = trainer.state_dict()
            for name, value in average.module.named_parameters():
                np.testing.assert_allclose(ours[name], value.detach().numpy(), rtol=1e-9, atol=1e-12)
                self.assertEqual(trainer.read(name + ".ema").dtype, np.float64)

    def test_schedulers_of_torch_are_stepped_by_a_callback(self):
        module, other = net(), net()
        rates = []
        for each, run in ((module, None), (other, rates)):
            optimizer = torch.optim.AdamW(each.parameters(), lr=0.01)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            with trainer_of(each, optimizer=optimizer) as trainer:
                if run is None:
                    losses = []
                    for x, y in DataLoader(TensorDataset(*data()), BATCH, drop_last=True):
                        losses.append(trainer.step(x, y))
                        scheduler.step()
                    continue
                result = trainer.fit(DataLoader(TensorDataset(*data()), BATCH, drop_last=True),
                                     epochs=1, on_step=lambda _: scheduler.step())
                self.assertEqual(result.losses, losses)
                self.assertEqual([each.lr for each in result.steps],
                                 [0.01, 0.01, 0.005, 0.005, 0.0025])
                self.raises(stowage.InvalidArgument, "the rate is that of the trainer's AdamW",
                            trainer.fit, loader(), steps=9, lr=0.1)


if __name__ == "__main__":
    support.main()
