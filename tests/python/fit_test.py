"""Runs: Trainer.fit takes the steps, evaluates, saves and resumes as
docs/tutorials/python.md says."""

import csv
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import stowage
from stowage import ops
from stowage._run_data import train_data
import support
from support import BATCH, CLASSES, FEATURES


def net_with_loss(g, batch):
    """The loss and logits of support.softmax_net, as an evaluation."""
    x = g.input("x", "f32", (batch, FEATURES))
    y = g.input("y", "i32", (batch,))
    w = g.param("w", "f32", (FEATURES, CLASSES), init="normal", scale=0.5)
    b = g.param("b", "f32", (CLASSES,))
    logits = ops.add(ops.matmul(x, w), b)
    loss, _ = ops.cross_entropy(logits, y)
    g.output("loss", ops.reduce_mean(loss, axes=[0], keep=False) if loss.shape else loss)
    g.output("logits", logits)


def trainer(**options):
    return support.trainer(**{"evaluate": net_with_loss, "optimizer": "adamw", "seed": 3,
                              **options})


def data(examples, seed=0):
    return support.batch(seed, examples)


def batches(count, seed=100):
    return [support.batch(seed + i) for i in range(count)]


def values(of):
    return {name: of.read(name).tobytes() for name in ("w", "b", "w.m", "w.v")}


def loss_of(state, x, y):
    """The mean cross-entropy in float64."""
    logits = x.astype(np.float64) @ state["w"] + state["b"]
    logits -= logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]))


VIT = "tests/goldens/onnx/vit_dynamo.onnx"


def examples_for(run, count, random):
    """Arrays of so many examples for the inputs of a trainer, by name."""
    return {name: random.standard_normal((count, *shape[1:])).astype(np.float32)
            if dtype == "f32" else random.integers(0, 2, (count, *shape[1:]))
            for name, (dtype, shape) in run.inputs.items()}


class Marked(Exception):
    pass


class StepsTest(support.TestCase):
    def test_a_run_is_a_loop_of_steps_bit_for_bit(self):
        schedule = stowage.Schedule(0.1, steps=9, warmup=3, final_factor=0.1, kind="linear")
        given = batches(9)
        with trainer(lr=schedule, clip_norm=0.5) as by_hand, trainer(clip_norm=0.5) as run:
            losses = [by_hand.step(*batch) for batch in given]
            result = run.fit(given, steps=9, lr=0.1, schedule="linear", warmup=3, min_lr=0.01)
            self.assertEqual(result.losses, losses)
            self.assertEqual(values(run), values(by_hand))
            self.assertEqual([each.step for each in result.steps], list(range(1, 10)))
            for each in result.steps:
                self.assertAlmostEqual(each.lr, schedule.at(each.step), places=12)
                self.assertGreater(each.grad_norm, 0)
                self.assertAlmostEqual(each.epoch, each.step / 9)
            self.assertEqual((result.last_step, result.stopped, run.steps), (9, "steps", 9))
            self.assertEqual(result.evaluations, [])

    def test_a_function_gives_the_batch_of_each_step(self):
        given, asked = batches(4), []

        def batch(step):
            asked.append(step)
            x, y = given[step - 1]
            return {"y": y, "x": x}

        with trainer() as by_hand, trainer() as run:
            losses = [by_hand.step(*each) for each in given]
            result = run.fit(batch, steps=4)
            self.assertEqual(result.losses, losses)
            self.assertEqual(asked, [1, 2, 3, 4])
            self.assertIsNone(result.steps[0].epoch)

    def test_arrays_in_their_order_go_on_from_pass_to_pass(self):
        x, y = data(21)
        at = np.arange(6 * BATCH) % 21
        with trainer() as by_hand, trainer() as run:
            losses = [by_hand.step(x[rows], y[rows]) for rows in at.reshape(6, BATCH)]
            # 2 passes of 21 examples are 42, and 6 batches of 8.
            result = run.fit((x, y), epochs=2, shuffle=False)
            self.assertEqual(result.losses, losses)
            self.assertAlmostEqual(result.steps[-1].epoch, 48 / 21)

    def test_shuffled_arrays_take_every_example_once_a_pass(self):
        x, y = data(20)
        x[:, 0] = np.arange(20)
        orders = []
        for seed in (1, 1, 2):
            seen = []
            with trainer(seed=seed) as run:
                made = train_data(run, {"x": x, "y": y}, None, seed)
                for number in range(1, 6):
                    batch = made.batch(number)
                    seen += [int(each) for each in batch[0][:, 0]]
                    np.testing.assert_array_equal(batch[1], y[[int(r) for r in batch[0][:, 0]]])
            for number in range(2):
                self.assertEqual(sorted(seen[20 * number:20 * number + 20]), list(range(20)))
            self.assertNotEqual(seen[:20], seen[20:])
            self.assertNotEqual(seen[:20], sorted(seen[:20]))
            orders.append(seen)
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])

    def test_a_short_batch_is_filled_up_with_the_first_of_its_pass(self):
        x, y = data(BATCH + 3)
        loader = [(x[:BATCH], y[:BATCH]), (x[BATCH:], y[BATCH:])]
        filled = np.concatenate([x[BATCH:], x[:5]]), np.concatenate([y[BATCH:], y[:5]])
        with trainer() as by_hand, trainer() as run:
            losses = [by_hand.step(*each) for each in (loader[0], filled, loader[0], filled)]
            self.assertEqual(run.fit(loader, epochs=2).losses, losses)
        few = [(x[:3], y[:3])]
        at = np.arange(BATCH) % 3
        with trainer() as by_hand, trainer() as run:
            loss = by_hand.step(x[at], y[at])
            self.assertEqual(run.fit(few, steps=1).losses, [loss])

    def test_a_torch_like_tensor_is_an_array(self):
        given = [tuple(support.Tensor(each) for each in batch) for batch in batches(2)]
        with trainer() as by_hand, trainer() as run:
            losses = [by_hand.step(*batch) for batch in batches(2)]
            self.assertEqual(run.fit(given, steps=2).losses, losses)

    def test_the_trainers_own_rate_holds_and_may_be_set_on_the_way(self):
        with trainer(lr=0.25) as run:
            def halve(figures):
                run.lr = 0.25 / 2 ** figures.step
            result = run.fit(batches(3), steps=3, on_step=halve)
            self.assertEqual([each.lr for each in result.steps], [0.25, 0.125, 0.0625])
            result = run.fit(batches(4), steps=4, lr=stowage.Schedule(1.0, steps=8, warmup=8))
            self.assertEqual([each.lr for each in result.steps], [0.5])  # of step 4
            result = run.fit(batches(5), steps=5, lr=0.125)
            self.assertEqual([each.lr for each in result.steps], [0.125])

    def test_a_skipped_step_changes_nothing_and_says_why(self):
        x, y = support.batch()
        bad = np.full_like(x, np.inf)
        with trainer() as by_hand, trainer() as run:
            by_hand.step(x, y)
            with self.assertLogs("stowage", "WARNING") as logged:
                result = run.fit([(x, y), (bad, y)], steps=2, on_nonfinite="skip")
            self.assertEqual(values(run), values(by_hand))
            self.assertIn("step 2", result.steps[1].skipped)
            self.assertEqual(result.steps[0].skipped, "")
            self.assertIn("step 2", logged.output[0])
        with trainer() as run:
            self.raises(stowage.NotFinite, "step 2", run.fit, [(x, y), (bad, y)], steps=2)


class ResumingTest(support.TestCase):
    def halves_are_the_whole(self, make_data, **options):
        """That N steps, resumed for N more, are 2 N, bit for bit."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            with trainer() as whole:
                expected = whole.fit(make_data(), steps=10, **options)
                bits = values(whole)
            with trainer() as first:
                before = first.fit(make_data(), steps=10, save=path, save_every=5, **options,
                                   on_step=lambda figures: figures.step == 5)
                self.assertEqual((before.stopped, before.last_step), ("callback", 5))
            with trainer() as second:
                after = second.fit(make_data(), steps=10, save=path, **options)
                self.assertEqual(before.losses + after.losses, expected.losses)
                self.assertEqual([each.step for each in after.steps], [6, 7, 8, 9, 10])
                self.assertEqual(values(second), bits)
            with trainer() as third:  # nothing is left to do
                done = third.fit(make_data(), steps=10, save=path, **options)
                self.assertEqual((done.losses, done.last_step), ([], 10))
                self.assertEqual(values(third), bits)

    def test_shuffled_arrays(self):
        self.halves_are_the_whole(lambda: data(29), lr=0.05, schedule="cosine", warmup=0.3)

    def test_arrays_in_their_order(self):
        self.halves_are_the_whole(lambda: data(29), shuffle=False)

    def test_batches_with_a_short_one(self):
        x, y = data(3 * BATCH + 2)
        cut = [(x[i:i + BATCH], y[i:i + BATCH]) for i in range(0, len(x), BATCH)]
        self.halves_are_the_whole(lambda: cut)

    def test_an_iterator(self):
        self.halves_are_the_whole(lambda: iter(batches(10)))

    def test_a_loader_with_a_generator_of_its_own(self):
        class Loader:
            def __init__(self):
                self.random = np.random.default_rng(7)

            def __len__(self):
                return 4

            def __iter__(self):
                for at in self.random.permutation(4):
                    yield support.batch(int(at))

        self.halves_are_the_whole(Loader)

    def test_a_function(self):
        self.halves_are_the_whole(lambda: support.batch)

    def test_an_iterator_goes_on_where_it_is_in_one_process(self):
        given = iter(batches(6))
        with trainer() as by_hand, trainer() as run:
            losses = [by_hand.step(*batch) for batch in batches(6)]
            first = run.fit(given, steps=2)
            self.assertEqual(first.losses + run.fit(given, steps=6).losses, losses)

    def test_a_list_goes_on_behind_the_steps_that_were_taken(self):
        with trainer() as by_hand, trainer() as run:
            losses = [by_hand.step(*batch) for batch in batches(6)]
            first = run.fit(batches(6), steps=2)
            self.assertEqual(first.losses + run.fit(batches(6), steps=6).losses, losses)

    def test_early_stopping_goes_on_over_a_checkpoint(self):
        held = data(BATCH, seed=5)
        options = {"lr": 0.0, "eval_data": held, "eval_every": 2, "patience": 3}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            with trainer() as run:
                run.fit(batches(20), steps=20, save=path, **options,
                        on_step=lambda figures: figures.step == 5)
            with trainer() as run:
                result = run.fit(batches(20), steps=20, save=path, **options)
        # Evaluated at 2, the best, and at 4, 6 and 8 without a lower loss.
        self.assertEqual((result.stopped, result.last_step, result.best_step),
                         ("patience", 8, 2))
        self.assertEqual([each.step for each in result.evaluations], [6, 8])

    def test_what_does_not_fit_the_checkpoint_is_refused_with_nothing_changed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            with trainer() as run:
                run.fit(batches(4), steps=4, save=path)
                with open(path, "rb") as file:
                    saved = file.read()
                run.step(*support.batch())
                before = values(run)
                self.raises(stowage.InvalidArgument, "is of step 4, and the trainer has taken 5",
                            run.fit, batches(9), steps=9, save=path)
                self.assertEqual(values(run), before)
            with trainer(seed=4) as other:
                before = values(other)
                self.raises(stowage.InvalidArgument, "is of a run with seed 3; this one has 4",
                            other.fit, batches(9), steps=9, save=path)
                self.assertEqual(values(other), before)
            with trainer() as run:
                self.raises(stowage.InvalidArgument, "taken 4 steps, and the run has 3;",
                            run.fit, batches(3), steps=3, save=path)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), saved)
            with trainer(seed=4) as other:
                result = other.fit(batches(2), steps=2, save=path, resume=False)
                self.assertEqual(len(result.steps), 2)


class EvaluationTest(support.TestCase):
    def test_the_validation_loss_is_that_of_all_examples(self):
        x, y = data(3 * BATCH + 5, seed=9)
        loader = [(x[:11], y[:11]), (x[11:], y[11:])]
        for held in ((x, y), {"y": y, "x": x}, loader):
            with trainer() as run:
                states = []
                result = run.fit(batches(6), steps=6, eval_data=held, eval_every=4,
                                 on_evaluation=lambda _: states.append(run.state_dict()))
            self.assertEqual([each.step for each in result.evaluations], [4, 6])
            for each, state in zip(result.evaluations, states):
                self.assertAlmostEqual(each.loss, loss_of(state, x, y), places=6)
            best = min(result.evaluations, key=lambda each: each.loss)
            self.assertEqual((result.best_step, result.best_loss), (best.step, best.loss))

    def test_the_best_checkpoint_is_kept_beside_the_newest(self):
        held = data(BATCH, seed=5)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            with trainer() as run:
                # Rates that make it worse behind step 4.
                result = run.fit(batches(8), steps=8, eval_data=held, eval_every=2, save=path,
                                 on_step=lambda each: setattr(run, "lr", 0.02 if each.step < 4
                                                              else 5.0), lr=0.02)
                losses = {each.step: each.loss for each in result.evaluations}
                best = min(losses, key=losses.get)
                self.assertEqual(result.best_step, best)
                self.assertLess(best, 8)
            with trainer() as best_of:
                self.assertEqual(best_of.resume(os.path.join(folder, "run.best.safetensors")), best)
                self.assertAlmostEqual(loss_of(best_of.state_dict(), *held), losses[best], places=6)

    def test_an_onnx_file_is_evaluated_with_its_loss(self):
        random = np.random.default_rng(2)
        with stowage.Trainer(VIT, batch=4, optimizer="sgd", device="cpu", threads=1) as run:
            arrays = examples_for(run, 8, random)
            result = run.fit(arrays, steps=2, eval_data=arrays)
            labels = arrays.pop("labels")
            (logits,) = run.evaluate(**arrays).values()
        logits = logits.astype(np.float64)
        expected = np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(8), labels])
        self.assertAlmostEqual(result.evaluations[0].loss, float(expected), places=5)

    def test_a_model_by_name_is_evaluated(self):
        random = np.random.default_rng(1)
        x = random.random((70, 64), np.float32)
        y = random.integers(0, 10, 70).astype(np.int32)
        with stowage.Trainer("mlp", 32, device="cpu", threads=1) as run:
            result = run.fit((x, y), steps=2, eval_data=(x, y))
            whole = [run.evaluate(x[i:i + 32], y[i:i + 32])["loss"] for i in (0, 32)]
            rest = stowage.Trainer("mlp", 6, device="cpu", threads=1)
            rest.load_state_dict(run.state_dict())
            last = rest.evaluate(x[64:], y[64:])["loss"]
            expected = (32 * (whole[0] + whole[1]) + 6 * last) / 70
            self.assertAlmostEqual(result.evaluations[0].loss, float(expected), places=5)

    def test_a_callback_of_evaluations_ends_the_run(self):
        with trainer() as run:
            result = run.fit(batches(9), steps=9, eval_data=data(8), eval_every=2,
                             on_evaluation=lambda each: each.step == 4)
            self.assertEqual((result.stopped, result.last_step), ("callback", 4))

    def test_a_model_without_a_loss_in_evaluations_is_refused(self):
        with support.trainer() as run:
            self.raises(stowage.Unsupported, 'has no output "loss"', run.fit, batches(1), steps=1,
                        eval_data=data(8))
        with support.trainer(evaluate=None) as run:
            self.raises(stowage.Unsupported, "give `evaluate`", run.fit, batches(1), steps=1,
                        eval_data=data(8))


def seven_classes(g, batch):
    x = g.input("x", "f32", (batch, FEATURES))
    y = g.input("y", "i64", (batch,))
    w = g.param("w", "f32", (FEATURES, 7), init="normal", scale=0.5)
    logits = ops.matmul(x, w)
    loss, _ = ops.cross_entropy(logits, y)
    g.output("loss", loss)
    g.output("logits", logits)


METRICS = ("accuracy", "top5", "f1_macro", "f1_micro", "mean_iou", "perplexity")


def metrics_of(logits, labels):
    """By sets of rows, as scikit-learn defines them."""
    predictions = logits.argmax(1)
    f1, iou = [], []
    for each in sorted({*predictions, *labels}):
        predicted, actual = ({*np.flatnonzero(rows == each)} for rows in (predictions, labels))
        f1.append(2 * len(predicted & actual) / (len(predicted) + len(actual)))
        iou.append(len(predicted & actual) / len(predicted | actual))
    own = logits[np.arange(len(labels)), labels]
    shares = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum(1))[:, None]
    hits = (predictions == labels).mean()
    return {"accuracy": hits, "top5": ((logits > own[:, None]).sum(1) < 5).mean(),
            "f1_macro": np.mean(f1), "f1_micro": hits, "mean_iou": np.mean(iou),
            "perplexity": np.exp(-shares[np.arange(len(labels)), labels].mean())}


class MetricsTest(support.TestCase):
    def test_metrics_are_those_of_all_examples(self):
        random = np.random.default_rng(4)
        x = random.standard_normal((29, FEATURES)).astype(np.float32)
        y = random.integers(0, 6, 29)  # no label is of class 6
        loader = [(x[:10], y[:10]), (x[10:], y[10:])]
        with stowage.Trainer(seven_classes, BATCH, evaluate=seven_classes, optimizer="sgd",
                             device="cpu", threads=1, lr=0.1) as run:
            seen = []
            result = run.fit((x, y), steps=4, eval_data=loader, eval_every=2, metrics=METRICS,
                             on_evaluation=lambda _: seen.append(run.read("w")))
            for each, w in zip(result.evaluations, seen):
                self.assertEqual(tuple(each.metrics), METRICS)
                for name, expected in metrics_of(x @ w, y).items():
                    self.assertAlmostEqual(each.metrics[name], expected, places=5, msg=name)
            again = run.validate((x, y), METRICS)
            self.assertEqual(again.step, 4)
            for name in METRICS:
                self.assertAlmostEqual(again.metrics[name], result.evaluations[-1].metrics[name],
                                       places=5)
            self.assertEqual(run.validate((x, y)).metrics, {})

    def test_metrics_of_a_model_by_name_and_of_an_onnx_file(self):
        random = np.random.default_rng(1)
        x = random.random((70, 64), np.float32)
        y = random.integers(0, 10, 70).astype(np.int32)
        with stowage.Trainer("mlp", 32, device="cpu", threads=1) as run:
            made = run.validate((x, y), ["accuracy"])
            predictions = run.evaluate(x[:64], y[:64])["predictions"]
            rest = run.evaluate(np.repeat(x[64:], 6, 0)[:32], np.repeat(y[64:], 6)[:32])
            right = np.sum(predictions == y[:64]) + np.sum(rest["predictions"][::6] == y[64:])
            self.assertAlmostEqual(made.metrics["accuracy"], right / 70, places=12)
        with stowage.Trainer(VIT, batch=4, optimizer="sgd", device="cpu", threads=1) as run:
            arrays = examples_for(run, 8, random)
            made = run.validate(arrays, ["accuracy", "f1_macro"])
            labels = arrays.pop("labels")
            (logits,) = run.evaluate(**arrays).values()
            expected = metrics_of(logits, labels)
            for name, value in made.metrics.items():
                self.assertAlmostEqual(value, expected[name], places=12)

    def test_metrics_that_a_model_does_not_have_are_refused(self):
        with trainer() as run:
            held = data(8)
            self.raises(stowage.InvalidArgument, 'there is no metric "f1"; expected accuracy',
                        run.validate, held, ["f1"])
            self.raises(stowage.InvalidArgument, "top5 is of 5 classes or more; the model has 3",
                        run.validate, held, ["top5"])
            self.raises(TypeError, "is no list", run.validate, held, "accuracy")
            self.raises(stowage.InvalidArgument, "there is no eval_data", run.fit, batches(1),
                        steps=1, metrics=["accuracy"])

        def squares(g, batch):
            x = g.input("x", "f32", (batch, FEATURES))
            w = g.param("w", "f32", (FEATURES,), init="ones")
            g.output("loss", ops.reduce_mean(ops.square(ops.mul(x, w)), axes=[]))

        with stowage.Trainer(squares, BATCH, evaluate=squares, optimizer="sgd", device="cpu",
                             threads=1) as run:
            x, _ = data(9)
            self.raises(stowage.Unsupported, "whose loss is a cross-entropy", run.validate, x,
                        ["accuracy"])
            made = run.validate(x, ["perplexity"])
            self.assertAlmostEqual(made.loss, float(np.mean(x.astype(np.float64) ** 2)), places=5)
            self.assertAlmostEqual(made.metrics["perplexity"], np.exp(made.loss), places=12)


class AveragesTest(support.TestCase):
    def test_params_are_the_averages_in_a_block(self):
        with trainer(ema=0.75) as run, trainer() as plain, \
                tempfile.TemporaryDirectory() as folder:
            with run.averaged():  # there are none yet
                self.assertEqual(run.read("w").tobytes(), plain.read("w").tobytes())
            expected = None
            for batch in batches(4):
                self.assertEqual(run.step(*batch), plain.step(*batch))
                w = plain.read("w").astype(np.float64)
                expected = w if expected is None else 0.75 * expected + 0.25 * w
            own = run.state_dict()
            x, y = support.batch()
            path = os.path.join(folder, "averages.npz")
            with run.averaged() as same:
                self.assertIs(same, run)
                np.testing.assert_allclose(run.read("w"), expected, atol=1e-6)
                b = run.read("b")
                np.testing.assert_allclose(run.evaluate(x, y)["logits"], x @ expected + b,
                                           atol=1e-5)
                run.save_weights(path)
                for change in (lambda: run.step(x, y), lambda: run.save(path + ".st"),
                               lambda: run.load_state_dict(own), lambda: run.fit(batches(9), steps=9),
                               run.averaged().__enter__):
                    self.raises(stowage.InvalidArgument, "values of their averages", change)
            np.testing.assert_allclose(np.load(path)["w"], expected, atol=1e-6)
            for name, value in own.items():
                np.testing.assert_array_equal(run.read(name), value)
            self.assertEqual(run.step(x, y), plain.step(x, y))
            with self.assertRaises(Marked), run.averaged():
                raise Marked
            self.assertEqual(run.read("w").tobytes(), plain.read("w").tobytes())
            with run.averaged():
                run.close()
            self.raises(stowage.InvalidArgument, "keeps no averages", plain.averaged().__enter__)

    def test_a_run_validates_with_the_averages(self):
        held = data(21, seed=9)
        with trainer(ema=0.9) as run:
            result = run.fit(batches(6), steps=6, eval_data=held, eval_every=3)
            own = run.state_dict()
            with run.averaged():
                averages = run.state_dict()
            self.assertAlmostEqual(result.evaluations[-1].loss, loss_of(averages, *held), places=6)
            self.assertNotAlmostEqual(result.evaluations[-1].loss, loss_of(own, *held), places=4)
            self.assertAlmostEqual(run.validate(held).loss, loss_of(own, *held), places=6)

    def test_a_run_with_averages_resumes_bit_for_bit(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            with trainer(ema=0.9) as whole:
                whole.fit(support.batch, steps=8)
                expected = whole.read("w.ema").tobytes()
            for last in (4, 8):
                with trainer(ema=0.9) as part:
                    part.fit(support.batch, steps=8, save=path,
                             on_step=lambda each: each.step == last)
            with trainer(ema=0.9) as part:
                part.resume(path)
                self.assertEqual(part.read("w.ema").tobytes(), expected)
            with trainer() as other:
                self.raises(stowage.InvalidArgument, "ema", other.fit, support.batch, steps=8,
                            save=path)

    def test_a_checkpoint_is_not_saved_while_averages_are_validated(self):
        with tempfile.TemporaryDirectory() as folder, trainer(ema=0.9) as run:
            path = os.path.join(folder, "run.safetensors")
            refused = []

            class Held:
                def __iter__(self):
                    try:
                        run.save(path)
                    except stowage.InvalidArgument as error:
                        refused.append(str(error))
                    yield data(8)

            run.fit(batches(2), steps=2, eval_data=Held())
            self.assertIn("values of their averages", refused[-1])
            self.assertFalse(os.path.exists(path))
            run.save(path)

    def test_a_decay_that_is_none_is_refused(self):
        for decay in (0, 1, float("nan")):
            self.raises(stowage.InvalidArgument, "expected a decay above 0 and below 1", trainer,
                        ema=decay)
        whole, plain = (stowage.plan("mlp", 32, device="cpu", ema=ema).regions["state"]
                        for ema in (0.9, None))
        self.assertGreater(whole, plain)


class LogTest(support.TestCase):
    def test_a_csv_has_the_figures_of_each_step(self):
        with tempfile.TemporaryDirectory() as folder:
            path, log = (os.path.join(folder, name) for name in ("run.st", "run.csv"))
            seen = []
            for last in (4, 9):  # stopped, and resumed
                with trainer(lr=0.1) as run:
                    result = run.fit(batches(6), steps=6, save=path, log=log, eval_data=data(8),
                                     eval_every=3, on_step=lambda each: each.step == last)
                    seen.append(result)
                    arena = run.arena_bytes
            with open(log, encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        steps = [each for result in seen for each in result.steps]
        evaluations = {each.step: each.loss for result in seen for each in result.evaluations}
        self.assertEqual([int(row["step"]) for row in rows], [1, 2, 3, 4, 5, 6])
        for row, step in zip(rows, steps):
            self.assertAlmostEqual(float(row["loss"]), step.loss, places=5)
            self.assertAlmostEqual(float(row["lr"]), step.lr, places=6)
            self.assertEqual(int(row["arena_bytes"]), arena)
            if step.step in evaluations:
                self.assertAlmostEqual(float(row["validation_loss"]), evaluations[step.step],
                                       places=5)
            else:
                self.assertEqual(row["validation_loss"], "")
        self.assertEqual(sorted(evaluations), [3, 6])

    def test_a_log_that_cannot_be_written_is_refused_before_the_first_step(self):
        with trainer() as run:
            self.raises(stowage.FileError, "cannot", run.fit, batches(1), steps=1,
                        log="/proc/none/")
            self.assertEqual(run.steps, 0)

    @unittest.skipUnless(importlib.util.find_spec("tensorboard"), "no tensorboard here")
    def test_tensorboard_reads_the_events(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        with tempfile.TemporaryDirectory() as folder, trainer(clip_norm=1.0) as run:
            result = run.fit(batches(6), steps=6, log=folder + "/", eval_data=data(8),
                             eval_every=3)
            events = EventAccumulator(folder).Reload()
            for name, values in (("loss", result.losses), ("lr", [s.lr for s in result.steps]),
                                 ("grad_norm", [s.grad_norm for s in result.steps]),
                                 ("validation_loss", [e.loss for e in result.evaluations])):
                made = events.Scalars(name)
                np.testing.assert_allclose([each.value for each in made], values, rtol=1e-6)
                self.assertEqual([each.step for each in made],
                                 [3, 6] if name == "validation_loss" else list(range(1, 7)))


class EndsTest(support.TestCase):
    def saved_behind(self, raised, last, **hooks):
        """That a run of 9 steps ends by `raised`, with step `last` saved, and goes on."""
        with tempfile.TemporaryDirectory() as folder, trainer() as by_hand, trainer() as run:
            path = os.path.join(folder, "run.safetensors")
            losses = [by_hand.step(*batch) for batch in batches(9)]
            given = hooks.pop("data", batches(9))
            with self.assertRaises(raised) as caught:
                run.fit(given, steps=9, save=path, **hooks)
            self.assertEqual(run.steps, last)
            with trainer() as other:
                self.assertEqual(other.resume(path), last)
                self.assertEqual(values(other), values(run))
            result = run.fit(batches(9), steps=9, save=path)
            self.assertEqual(result.losses, losses[last:])
            self.assertEqual(values(run), values(by_hand))
            return caught.exception

    def test_what_the_data_raises_reaches_the_user(self):
        def failing():
            yield from batches(4)
            raise Marked("of the data")
        error = self.saved_behind(Marked, 4, data=failing())
        self.assertEqual(str(error), "of the data")

    def test_what_a_callback_raises_reaches_the_user(self):
        def fail(figures):
            if figures.step == 3:
                raise Marked("of the callback")
        self.saved_behind(Marked, 3, on_step=fail)

        def fail_at(evaluation):
            raise Marked(f"at {evaluation.step}")
        error = self.saved_behind(Marked, 2, on_evaluation=fail_at, eval_data=data(8),
                                  eval_every=2)
        self.assertEqual(str(error), "at 2")

    def test_an_interrupt_ends_the_run_with_its_checkpoint(self):
        def interrupt(figures):
            if figures.step == 5:
                signal.raise_signal(signal.SIGINT)
        self.saved_behind(KeyboardInterrupt, 5, on_step=interrupt)

        def interrupted():
            given = batches(9)
            yield from given[:2]
            signal.raise_signal(signal.SIGINT)
            yield from given[2:]
        self.saved_behind(KeyboardInterrupt, 2, data=interrupted())

    def test_an_interrupt_in_a_step_ends_the_run_behind_it(self):
        program = """
import os, signal, threading, numpy as np, stowage
x = np.zeros((32, 64), np.float32); y = np.zeros(32, np.int32)
trainer = stowage.Trainer("mlp", 32, device="cpu", threads=1)
def interrupt(figures):
    if figures.step == 3:
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()
try:
    trainer.fit([(x, y)], steps=10**12, on_step=interrupt)
except KeyboardInterrupt:
    print("interrupted", trainer.steps >= 3, trainer.step(x, y) > 0)
"""
        made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              check=False, timeout=100)
        self.assertEqual(made.stdout, "interrupted True True\n", made.stderr)

    def test_data_that_ends_is_named_and_loses_nothing(self):
        error = self.saved_behind(stowage.InvalidArgument, 4, data=iter(batches(4)))
        self.assertIn("the data ended after 4 batches, and gives them once; step 5", str(error))

    def test_a_batch_that_does_not_fit_loses_nothing(self):
        wrong = [*batches(2), (np.zeros((BATCH, FEATURES + 1), np.float32), support.batch()[1])]
        error = self.saved_behind(stowage.InvalidArgument, 2, data=wrong)
        self.assertIn("f32(8, 6); expected f32(8, 5)", str(error))
        error = self.saved_behind(stowage.InvalidArgument, 2, data=[*batches(2), support.batch()[:1]])
        self.assertIn("a batch has 1 arrays; expected one for each of ['x', 'y']", str(error))

    def test_a_run_that_takes_no_step_replaces_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            with trainer() as run:
                run.fit(batches(2), steps=2, save=path)
            with open(path, "rb") as file:
                saved = file.read()
            with trainer() as run:
                self.raises(stowage.InvalidArgument, "the data ended after 0 batches", run.fit, [],
                            steps=5, save=path, resume=False)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), saved)

    def test_callbacks_may_read_and_not_change_what_the_run_does(self):
        with tempfile.TemporaryDirectory() as folder, trainer() as by_hand, trainer() as run:
            x, y = support.batch()
            path = os.path.join(folder, "own.safetensors")
            seen = []

            def look(figures):
                if figures.step != 2:
                    return
                seen.append(run.evaluate(x, y)["logits"])
                seen.append(run.state_dict())
                run.save(path)
                for change in (lambda: run.step(x, y), run.close, lambda: run.resume(path),
                               lambda: run.fit(batches(9), steps=9),
                               lambda: run.load_state_dict(seen[1])):
                    self.raises(stowage.InvalidArgument, "fit is taking steps", change)

            losses = [by_hand.step(*batch) for batch in batches(4)]
            self.assertEqual(run.fit(batches(4), steps=4, on_step=look).losses, losses)
            np.testing.assert_allclose(seen[0], x @ seen[1]["w"] + seen[1]["b"], atol=1e-5)
            with trainer() as other:
                self.assertEqual(other.resume(path), 2)


class RefusalsTest(support.TestCase):
    def test_arguments_are_refused_before_anything_is_done(self):
        held = data(8)
        with trainer() as run, tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            for error, words, options in (
                    (stowage.InvalidArgument, "expected one of them", {}),
                    (stowage.InvalidArgument, "expected one of them", {"steps": 1, "epochs": 1}),
                    (stowage.InvalidArgument, "the run has 0 steps", {"steps": 0}),
                    (TypeError, "no whole number", {"steps": 1.5}),
                    (stowage.InvalidArgument, "there is no eval_data",
                     {"steps": 1, "eval_every": 1}),
                    (stowage.InvalidArgument, "patience is 2, which counts",
                     {"steps": 1, "patience": 2, "eval_data": held}),
                    (stowage.InvalidArgument, "nothing is saved", {"steps": 1, "save_every": 2}),
                    (stowage.InvalidArgument, "0 checkpoints are to be kept",
                     {"steps": 1, "keep_last": 0, "save": path}),
                    (stowage.InvalidArgument, "shuffle is True", {"steps": 1, "shuffle": True}),
                    (stowage.InvalidArgument, "on_nonfinite", {"steps": 1, "on_nonfinite": "go"}),
                    (stowage.InvalidArgument, "leave out schedule",
                     {"steps": 1, "lr": stowage.Schedule(1.0, 2), "schedule": "linear"}),
                    (stowage.InvalidArgument, "min_lr is 2.0; expected a number from 0 to lr, 1.0",
                     {"steps": 1, "lr": 1.0, "schedule": "linear", "min_lr": 2}),
                    (stowage.InvalidArgument, "0 in f32", {"steps": 1, "lr": 1e-46}),
                    (stowage.InvalidArgument, "an iterator",
                     {"steps": 1, "eval_data": iter([held])})):
                rate, before = run.lr, values(run)
                self.raises(error, words, run.fit, batches(2), **options)
                self.assertEqual((run.lr, values(run), run.steps), (rate, before, 0))
                self.assertFalse(os.path.exists(path))
            self.raises(stowage.InvalidArgument, "does not know how many", run.fit,
                        iter(batches(2)), epochs=1)
            self.raises(stowage.InvalidArgument, "has no passes", run.fit, support.batch, epochs=1)
            self.raises(TypeError, "is no data", run.fit, 5, steps=1)
            x, y = data(9)
            self.raises(stowage.InvalidArgument, "{'x': 9, 'y': 8} examples", run.fit, (x, y[:8]),
                        steps=1)
            run.fit(batches(2), steps=2)
            self.raises(stowage.InvalidArgument, "taken 2 steps, and the run has 2;", run.fit,
                        batches(2), steps=2)


class CommandTest(support.TestCase):
    def test_a_run_has_the_bits_of_the_command(self):
        with stowage.Trainer(VIT, batch=4, optimizer="sgd", device="cpu", threads=1,
                             seed=5) as run, tempfile.TemporaryDirectory() as folder:
            arrays = examples_for(run, 10, np.random.default_rng(2))
            np.savez(os.path.join(folder, "data.npz"), **arrays)
            made = subprocess.run(
                ["tools/stowage", "train", "--onnx", VIT, "--data",
                 os.path.join(folder, "data.npz"), "--loss", "cross_entropy", "--shuffle", "none",
                 "--batch", "4", "--optimizer", "sgd", "--lr", "0.05", "--schedule", "linear",
                 "--warmup", "2", "--min-lr", "0.01", "--steps", "7", "--seed", "5", "--device",
                 "cpu", "--threads", "1", "--json", "--save-weights",
                 os.path.join(folder, "weights.npz")],
                capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stderr)
            lines = [json.loads(line) for line in made.stdout.splitlines()]
            steps = [line for line in lines if "loss" in line and "lr" in line]
            result = run.fit(arrays, steps=7, shuffle=False, lr=0.05, schedule="linear", warmup=2,
                             min_lr=0.01)
            self.assertEqual(result.losses, [line["loss"] for line in steps])
            self.assertEqual([each.lr for each in result.steps], [line["lr"] for line in steps])
            weights = np.load(os.path.join(folder, "weights.npz"))
            self.assertGreater(len(weights), 10)
            for name in weights:
                np.testing.assert_array_equal(run.read(name), weights[name])


if __name__ == "__main__":
    support.main()
