"""Losses that are sums and quotients over a batch, against NumPy: in micro-batches, by budgets
and in evaluations."""

import numpy as np
import support

import stowage
from stowage import ops

BATCH = 64


def masked(g, batch):
    """sum(errors * mask) / sum(mask) of a net with a hidden layer."""
    x, y = g.input("x", "f32", (batch, 16)), g.input("y", "f32", (batch, 4))
    mask = g.input("mask", "f32", (batch, 1))
    h = ops.tanh(ops.matmul(x, g.param("w1", "f32", (16, 64), init="normal", scale=0.2)))
    d = ops.sub(ops.matmul(h, g.param("w2", "f32", (64, 4), init="normal", scale=0.2)), y)
    errors = ops.mul(ops.reduce_sum(ops.square(d), axes=[1], keep=True), mask)
    g.output("loss", ops.div(ops.reduce_sum(errors), ops.reduce_sum(mask)))


def summed(g, batch):
    x = g.input("x", "f32", (batch, 16))
    w = g.param("w", "f32", (16, 4), init="normal", scale=0.2)
    g.output("loss", ops.reduce_sum(ops.square(ops.matmul(x, w))))
    g.output("largest", ops.reduce_max(ops.matmul(x, w)))


def by_batch(g, batch):
    """Normalized by the batch by hand."""
    x = g.input("x", "f32", (batch, 16))
    h = ops.matmul(x, g.param("w", "f32", (16, 64), init="normal", scale=0.2))
    mean = ops.reduce_mean(h, axes=[0], keep=True)
    g.output("loss", ops.reduce_mean(ops.square(ops.tanh(ops.sub(h, mean)))))


def with_exp(g, batch):
    """A mean, and an output that is not the micro-batches'."""
    x = g.input("x", "f32", (batch, 16))
    h = ops.tanh(ops.matmul(x, g.param("w", "f32", (16, 64), init="normal", scale=0.2)))
    loss = ops.reduce_mean(ops.square(h))
    g.output("loss", loss)
    g.output("exp", ops.exp(loss))


def contrastive(g, batch):
    """Pairs of x and y find each other, among all of the batch."""
    w = g.param("w", "f32", (16, 256), init="normal", scale=0.2)
    out = g.param("out", "f32", (256, 8), init="normal", scale=0.1)
    z = [ops.matmul(ops.tanh(ops.matmul(g.input(n, "f32", (batch, 16)), w)), out)
         for n in ("x", "y")]
    scores = ops.matmul(z[0], ops.permute(z[1], order=[1, 0]))
    own = ops.reduce_sum(ops.mul(z[0], z[1]), axes=[1])
    g.output("loss", ops.reduce_mean(ops.sub(ops.log(ops.reduce_sum(ops.exp(scores), axes=[1])),
                                             own)))


def data():
    random = np.random.default_rng(0)
    x = random.standard_normal((BATCH, 16)).astype(np.float32)
    y = random.standard_normal((BATCH, 4)).astype(np.float32)
    mask = np.zeros((BATCH, 1), np.float32)
    mask[:40:7] = 1  # most micro-batches have one or none
    mask[48:] = 1
    return x, y, mask


class MicroBatchesTest(support.TestCase):

    def masked_by_numpy(self, w1, w2, lr):
        """The loss, and the params after a step."""
        x, y, mask = (a.astype(np.float64) for a in data())
        w1, w2 = w1.astype(np.float64), w2.astype(np.float64)
        h = np.tanh(x @ w1)
        d = h @ w2 - y
        loss = ((d**2).sum(1, keepdims=True) * mask).sum() / mask.sum()
        dd = 2 * d * mask / mask.sum()
        dh = dd @ w2.T * (1 - h**2)
        return loss, w1 - lr * x.T @ dh, w2 - lr * h.T @ dd

    def check_masked(self, trainer):
        weights = trainer.state_dict()
        loss, w1, w2 = self.masked_by_numpy(weights["w1"], weights["w2"], 0.1)
        self.assertAlmostEqual(trainer.step(*data()), loss, places=4)
        after = trainer.state_dict()
        np.testing.assert_allclose(after["w1"], w1, atol=1e-5)
        np.testing.assert_allclose(after["w2"], w2, atol=1e-5)

    def test_a_masked_mean_is_the_batchs_at_every_budget(self):
        options = {"batch": BATCH, "optimizer": "sgd", "device": "cpu", "threads": 1}
        whole = stowage.plan(masked, **options).arena_bytes
        micro_batches = set()
        for share in (1.0, 0.8, 0.6):
            with self.subTest(share=share):
                with stowage.Trainer(masked, lr=0.1, budget=int(whole * share),
                                     **options) as trainer:
                    self.check_masked(trainer)
                    micro_batches.add(trainer.plan.micro_batches)
        self.assertGreater(max(micro_batches), 1)

    def test_micro_batches_without_an_example_that_counts(self):
        for micro_batches in (1, 2, 8, 64):
            with self.subTest(micro_batches=micro_batches):
                with stowage.Trainer(masked, BATCH, optimizer="sgd", lr=0.1, device="cpu",
                                     threads=1,
                                     optimizations={"micro_batches": micro_batches}) as trainer:
                    self.check_masked(trainer)

    def test_a_sum_is_a_sum(self):
        x = data()[0]
        for micro_batches in (1, 4):
            with stowage.Trainer(summed, BATCH, optimizer="sgd", lr=0.01, device="cpu",
                                 threads=1,
                                 optimizations={"micro_batches": micro_batches}) as trainer:
                w = trainer.state_dict()["w"].astype(np.float64)
                product = x.astype(np.float64) @ w
                self.assertAlmostEqual(trainer.step(x), (product**2).sum(), places=2)
                np.testing.assert_allclose(trainer.state_dict()["w"],
                                           w - 0.01 * 2 * x.T.astype(np.float64) @ product,
                                           rtol=1e-4, atol=1e-5)

    def test_what_mixes_examples_is_not_split_unasked(self):
        options = {"optimizer": "sgd", "device": "cpu", "threads": 1}
        whole = stowage.plan(with_exp, BATCH, **options)
        with self.assertRaisesRegex(stowage.Unsupported, "would change \"exp\""):
            stowage.plan(with_exp, BATCH, optimizations={"micro_batches": 4}, **options)
        with self.assertRaisesRegex(stowage.BudgetTooSmall, "in one micro-batch, since"):
            stowage.plan(with_exp, BATCH, budget=whole.arena_bytes // 16, **options)
        allowed = stowage.plan(with_exp, BATCH, optimizations={"micro_batches": 4},
                               allow_batch_change=True, **options)
        self.assertEqual(allowed.micro_batches, 4)

    def test_a_contrastive_loss_is_the_batchs_in_micro_batches(self):
        options = {"batch": BATCH, "optimizer": "sgd", "device": "cpu", "threads": 1}
        x, y = (np.random.default_rng(s).standard_normal((BATCH, 16)).astype(np.float32)
                for s in (1, 2))
        for model in (contrastive, by_batch):
            inputs = (x, y)[:1 if model is by_batch else 2]
            arenas, losses, weights = [], [], []
            for micro_batches in (1, 2, 16):
                with stowage.Trainer(model, lr=0.1,
                                     optimizations={"micro_batches": micro_batches},
                                     **options) as trainer:
                    arenas.append(trainer.plan.arena_bytes)
                    losses.append([trainer.step(*inputs) for _ in range(3)])
                    weights.append(trainer.state_dict())
            for k in (1, 2):
                np.testing.assert_allclose(losses[k], losses[0], rtol=1e-5)
                for name, values in weights[0].items():
                    np.testing.assert_allclose(weights[k][name], values, rtol=1e-4, atol=1e-6)
            if model is contrastive:
                self.assertLess(arenas[2], 0.5 * arenas[0])
                planned = stowage.plan(model, budget=int(0.6 * arenas[0]), **options)
                self.assertGreater(planned.micro_batches, 1)

    def test_evaluations_of_many_batches(self):
        x, y, mask = data()
        with stowage.Trainer(summed, 16, evaluate=summed, optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            product = x.astype(np.float64) @ trainer.state_dict()["w"].astype(np.float64)
            of_all = trainer.evaluate(x)
            self.assertAlmostEqual(float(of_all["loss"]), (product**2).sum(), places=2)
            self.assertAlmostEqual(float(of_all["largest"]), product.max(), places=5)
        with stowage.Trainer(masked, 16, evaluate=masked, optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            trainer.evaluate(x[:16], y[:16], mask[48:])
            with self.assertRaisesRegex(stowage.Unsupported, "64 examples does not follow"):
                trainer.evaluate(x, y, mask)

    def test_evaluations_put_examples_together_where_they_are(self):
        def rows(g, batch):
            x = g.input("x", "f32", (batch, 5, support.FEATURES))
            y = ops.matmul(x, g.param("w", "f32", (support.FEATURES, 3), init="normal"))
            g.output("flat", ops.reshape(y, shape=[batch * 5, 3]))
            g.output("behind", ops.permute(y, order=[2, 0, 1]))
            g.output("twice", ops.concat([y, ops.neg(y)], axis=0))
            g.output("inside", ops.reshape(ops.permute(y, order=[1, 0, 2]), shape=[5 * batch, 3]))
            g.output("loss", ops.reduce_mean(y, axes=[]))

        x = np.random.default_rng(2).standard_normal((9, 5, support.FEATURES)).astype(np.float32)
        with stowage.Trainer(rows, 4, evaluate=rows, optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            y = x @ trainer.state_dict()["w"]
            with self.assertRaisesRegex(stowage.InvalidArgument, "whole batches of 4"):
                trainer.evaluate(x[:3])  # of which the loss is a mean
            for count in (4, 8):
                of, got = y[:count], trainer.evaluate(x[:count])
                self.assertAlmostEqual(float(got["loss"]), of.mean(), places=5)
                for name, expected in (("flat", of.reshape(-1, 3)),
                                       ("behind", of.transpose(2, 0, 1)),
                                       ("twice", np.concatenate([of, -of])),
                                       ("inside", of.transpose(1, 0, 2).reshape(-1, 3))):
                    np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-6)

    def test_evaluations_of_fewer_examples_have_all_their_rows(self):
        def flat(g, batch):
            x = g.input("x", "f32", (batch, 5, support.FEATURES))
            y = ops.matmul(x, g.param("w", "f32", (support.FEATURES, 3), init="normal"))
            g.output("flat", ops.reshape(y, shape=[batch * 5, 3]))
            g.output("twice", ops.concat([y, ops.neg(y)], axis=0))

        def train(g, batch):
            x = g.input("x", "f32", (batch, 5, support.FEATURES))
            y = ops.matmul(x, g.param("w", "f32", (support.FEATURES, 3), init="normal"))
            g.output("loss", ops.reduce_mean(y, axes=[]))

        x = np.random.default_rng(3).standard_normal((9, 5, support.FEATURES)).astype(np.float32)
        with stowage.Trainer(train, 4, evaluate=flat, optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            y = x @ trainer.state_dict()["w"]
            for count in (1, 3, 4, 9):
                got = trainer.evaluate(x[:count])
                np.testing.assert_allclose(got["flat"], y[:count].reshape(-1, 3), rtol=1e-5,
                                           atol=1e-6)
                np.testing.assert_allclose(got["twice"], np.concatenate([y[:count], -y[:count]]),
                                           rtol=1e-5, atol=1e-6)

    def test_examples_that_are_normed_in_groups_come_in_whole_batches(self):
        def grouped(g, batch):
            x = ops.matmul(g.input("x", "f32", (batch, 16)), g.param("w", "f32", (16, 3)))
            size = size_of(batch)
            x = ops.reshape(x, shape=[batch // size, size, 3])
            y = ops.sub(x, ops.reduce_mean(x, axes=[1], keep=True))
            g.output("y", ops.reshape(y, shape=[batch, 3]))
            g.output("loss", ops.reduce_mean(y, axes=[]))

        def judged(g, batch):
            size = size_of(batch)
            x = ops.reshape(g.input("x", "f32", (batch, 16)), shape=[batch // size, size, 16])
            y = ops.sub(x, ops.reduce_mean(x, axes=[1], keep=True))
            g.output("y", ops.reshape(y, shape=[batch, 16]))
            g.param("w", "f32", (16, 3))

        x = data()[0]
        groups = x[:16].reshape(4, 4, 16)
        # The second has no groups where four do not divide the batch.
        for size_of in (lambda batch: 4, lambda batch: 1 if batch % 4 else 4):
            with stowage.Trainer(grouped, 8, evaluate=judged, optimizer="sgd", device="cpu",
                                 threads=1) as trainer:
                np.testing.assert_allclose(
                    trainer.evaluate(x[:16])["y"],
                    (groups - groups.mean(1, keepdims=True)).reshape(16, 16), rtol=1e-5,
                    atol=1e-6)
                with self.assertRaisesRegex(stowage.Unsupported, "give a multiple of 8"):
                    trainer.evaluate(x[:6])

    def test_a_sum_beside_what_counts_once_is_not_put_together(self):
        def penalized(g, batch):
            x = g.input("x", "f32", (batch, 16))
            w = g.param("w", "f32", (16, 3), init="normal")
            g.output("loss", ops.add(ops.reduce_sum(ops.matmul(x, w), axes=[]),
                                     ops.sum_squares(w)))

        x = data()[0]
        with stowage.Trainer(penalized, 16, evaluate=penalized, optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            w = trainer.state_dict()["w"].astype(np.float64)
            self.assertAlmostEqual(float(trainer.evaluate(x[:16])["loss"]),
                                   (x[:16] @ w).sum() + (w**2).sum(), places=3)
            with self.assertRaisesRegex(stowage.Unsupported, "what counts once"):
                trainer.evaluate(x)

    def test_a_function_that_refuses_a_batch_is_taken_whole(self):
        def of_four(g, batch):
            if batch != 4:
                raise stowage.Unsupported(f"[net] a batch of {batch}")
            support.softmax_net(g, batch)

        plan = stowage.plan(of_four, batch=4, optimizations="auto", budget="1MB", device="cpu",
                            threads=1)
        self.assertEqual(plan.micro_batches, 1)
        self.raises(stowage.Unsupported, "a batch of 5", stowage.plan, of_four, batch=5,
                    device="cpu")


if __name__ == "__main__":
    support.main()
