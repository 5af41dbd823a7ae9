"""Graphs that are built op by op."""

import gc
import inspect
import traceback
import weakref

import numpy as np

import stowage
from stowage import ops
import support


def evaluate(build, *arrays):
    """The output "y" of a graph of inputs, whose loss is its mean."""

    def whole(g, batch):
        inputs = [g.input(f"x{i}", "f32" if a.dtype == np.float32 else "i32", a.shape)
                  for i, a in enumerate(arrays)]
        w = g.param("w", "f32", (1,), init="ones")
        y = build(g, *inputs)
        g.output("y", y)
        return w, y

    def train(g, batch):
        w, y = whole(g, batch)
        flat = ops.mul(ops.cast(y, dtype="f32") if y.dtype != "f32" else y, w)
        g.output("loss", ops.reduce_mean(flat, axes=list(range(len(flat.shape))),
                                         keep=False))

    with stowage.Trainer(train, evaluate=whole, device="cpu", threads=1,
                         optimizations="none", batch=len(arrays[0])) as trainer:
        return trainer.evaluate(*arrays)["y"]


class GraphsTest(support.TestCase):
    def setUp(self):
        random = np.random.default_rng(5)
        self.x = random.standard_normal((4, 6)).astype(np.float32)
        self.row = random.standard_normal((4, 1)).astype(np.float32)

    def test_ops_compute_what_numpy_does(self):
        x, row = self.x, self.row
        for build, expected in [
            (lambda g, a, b: ops.add(a, b), x + row),
            (lambda g, a, b: ops.maximum(b, a), np.maximum(row, x)),
            (lambda g, a, b: ops.exp(ops.neg(a)), np.exp(-x)),
            (lambda g, a, b: ops.reduce_sum(a, axes=[1], keep=True), x.sum(1, keepdims=True)),
            (lambda g, a, b: ops.concat([a, b], axis=1), np.concatenate([x, row], 1)),
            (lambda g, a, b: ops.clamp(a, min=-1, max=0.5), np.clip(x, -1, 0.5)),
            (lambda g, a, b: ops.split(a, axis=1, sizes=[2, 4])[1], x[:, 2:]),
            (lambda g, a, b: ops.mul(a, g.constant(np.full((1, 6), 2, np.float32))), 2 * x),
        ]:
            np.testing.assert_allclose(evaluate(build, x, row), expected, rtol=1e-6)

    def test_attributes_have_the_defaults_of_the_library(self):
        x = self.x
        image = np.arange(2 * 3 * 6 * 4, dtype=np.float32).reshape(2, 3, 6, 4)
        windows = image.reshape(2, 3, 3, 2, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(
            2, 3, 3, 2, 4)
        keys = np.random.default_rng(1).standard_normal((2, 5, 1, 4)).astype(np.float32)
        scores = np.einsum("bthd,bshd->bhts", keys, keys) / 2
        shares = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        deviation = np.sqrt(x.var(1, keepdims=True) + 1e-5)
        for build, array, expected in [
            (lambda g, a: ops.matmul(a, g.constant(x.T.copy())), x, x @ x.T),
            (lambda g, a: ops.matmul(a, g.constant(x), transpose_b=True), x, x @ x.T),
            (lambda g, a: ops.reshape(ops.reduce_sum(a), shape=[1]), x, [x.sum()]),
            (lambda g, a: ops.reduce_mean(a, axes=[-1]), x, x.mean(1)),
            (lambda g, a: ops.reduce_max(a, axes=[-1, 0], keep=True), x, [[x.max()]]),
            (lambda g, a: ops.cumsum(a, axis=-1), x, np.cumsum(x, 1)),
            (lambda g, a: ops.concat([a, a], axis=-1), x, np.concatenate([x, x], 1)),
            (lambda g, a: ops.permute(a, order=[-1, 0]), x, x.T),
            (lambda g, a: ops.reshape(a, shape=[2, -1]), x, x.reshape(2, -1)),
            (lambda g, a: ops.slice(a, axis=-1, start=1, end=5), x, x[:, 1:5]),
            (lambda g, a: ops.leaky_relu(a), x, np.where(x > 0, x, 0.01 * x)),
            (lambda g, a: ops.top_k(a, k=2)[0], x, -np.sort(-x, 1)[:, :2]),
            (lambda g, a: ops.softmax(a), x, np.exp(x) / np.exp(x).sum(1, keepdims=True)),
            (lambda g, a: ops.pad(a, before=[0, 1], after=[1, 0]), x,
             np.pad(x, [(0, 1), (1, 0)])),
            (lambda g, a: ops.pad(a, before=[2, 0], after=[0, 1], mode="reflect"), x,
             np.pad(x, [(2, 0), (0, 1)], mode="reflect")),
            (lambda g, a: ops.glu(a, a, activation="silu"), x, x * x / (1 + np.exp(-x))),
            (lambda g, a: ops.layer_norm(
                a, g.constant(np.ones(6, np.float32)), g.constant(np.zeros(6, np.float32)))[0],
             x, (x - x.mean(1, keepdims=True)) / deviation),
            (lambda g, a: ops.max_pool(a, kernel=2), image, windows.max(-1)),
            (lambda g, a: ops.avg_pool(a, kernel=[2, 2], stride=2), image, windows.mean(-1)),
            (lambda g, a: ops.resize(a, sizes=[3, 2], mode="nearest"), image,
             image[:, :, ::2, ::2]),
            (lambda g, a: ops.conv(a, g.constant(np.ones((1, 3, 3, 3), np.float32)), padding=1),
             image, sum(np.pad(image, [(0, 0), (0, 0), (1, 1), (1, 1)])
                          [:, :, i:i + 6, j:j + 4].sum(1, keepdims=True)
                          for i in range(3) for j in range(3))),
            (lambda g, a: ops.conv(a, g.constant(np.ones((1, 3, 1, 1), np.float32)),
                                   stride=[3, 2]), image,
             image[:, :, ::3, ::2].sum(1, keepdims=True)),
            (lambda g, a: ops.attention(a, a, a)[0], keys,
             np.einsum("bhts,bshd->bthd", shares, keys)),
        ]:
            np.testing.assert_allclose(evaluate(build, array), expected, rtol=1e-5, atol=1e-6)

        def chosen(g, batch):
            ops.pad(g.input("a", "f32", (batch, 6)), before=[0, 1], after=[0, 1], mode="wrap")

        self.raises(stowage.InvalidArgument, "mode is 'wrap'; expected one of ('constant', ",
                    stowage.plan, chosen, 4)

    def test_mistakes_name_the_op_and_the_shapes(self):
        def build(g, batch):
            a = g.input("a", "f32", (batch, 6))
            w = g.param("w", "f32", (5, 2))
            g.output("loss", ops.matmul(a, w, transpose_a=False, transpose_b=False))

        self.raises(stowage.InvalidArgument, '[matmul]', stowage.plan, build, 4)
        with self.assertRaises(stowage.InvalidArgument) as caught:
            stowage.plan(build, 4)
        line = inspect.getsourcelines(build)[1] + 3
        self.assertIn("graphs_test.py", str(caught.exception))
        self.assertIn(str(line), str(caught.exception))

    def test_a_value_is_called_what_the_plan_calls_it(self):
        def build(g, batch, times=1):
            x = g.input("x", "f32", (batch, 6))
            w = g.param("w", "f32", (6,), init="ones")
            for _ in range(times):
                h = g.name("h", ops.exp(ops.mul(x, w)))
            self.assertEqual(h.name, "h")
            g.output("loss", ops.reduce_mean(h, axes=[0, 1], keep=False))

        plan = stowage.plan(build, 4, recompute_always=["h"], device="cpu", threads=1)
        self.assertEqual([each["name"] for each in plan.recomputed], ["h"])
        self.raises(stowage.InvalidArgument, '[name] "h" for value "exp_2" is empty or taken',
                    stowage.plan, lambda g, batch: build(g, batch, times=2), 4)

    def test_an_exception_of_the_function_is_told(self):
        def build(g, batch):
            raise error

        error = RuntimeError("no such net")
        self.raises(stowage.InvalidArgument, "no such net", stowage.plan, build, 4)
        with self.assertRaises(stowage.InvalidArgument) as caught:
            stowage.plan(build, 4)
        self.assertIs(caught.exception.__cause__, error)
        lines = traceback.extract_tb(error.__traceback__)
        self.assertEqual([line.name for line in lines][-1], "build")
        # What is no error of the program goes through, as from any other function.
        for error in (KeyboardInterrupt(), SystemExit(3)):
            with self.assertRaises(type(error)) as caught:
                stowage.plan(build, 4)
            self.assertIs(caught.exception, error)

    def test_an_exception_is_let_go_of_with_what_it_saw(self):
        class Weights:
            pass

        seen = []

        def build(g, batch):
            weights = Weights()
            seen.append(weakref.ref(weights))
            raise RuntimeError("no such net")

        model = stowage.model(build, batch=4)
        with self.assertRaises(stowage.InvalidArgument):
            stowage.plan(model)
        gc.collect()  # the model is still there
        self.assertEqual({each() for each in seen}, {None})

    def test_values_end_with_their_graph(self):
        kept = []

        def build(g, batch):
            if kept:
                self.raises(stowage.InvalidArgument, "in another", g.output, "y", kept[0][1])
            x = g.input("x", "f32", (batch, 1))
            w = g.param("w", "f32", (1,))
            g.output("loss", ops.reduce_mean(ops.mul(x, w), axes=[0, 1], keep=False))
            kept.append((g, x))

        stowage.plan(build, 4, device="cpu", threads=1)
        self.assertGreater(len(kept), 1)
        value = kept[-1][1]
        self.raises(stowage.InvalidArgument, "is finished", ops.neg, value)
        self.raises(stowage.InvalidArgument, "is finished", getattr, value, "shape")

    def test_every_function_says_what_it_takes(self):
        functions = [f for _, f in inspect.getmembers(ops, inspect.isfunction)
                     if not f.__name__.startswith("_")]
        self.assertGreater(len(functions), 80)
        for function in functions:
            signature, _, words = function.__doc__.partition("\n\n")
            self.assertIn("->", signature)
            self.assertGreater(len(words.strip()), 10, function.__name__)
        words = " ".join(ops.attention.__doc__.split())
        self.assertIn("q (B, T, H, D), k and v (B, S, G, D)", words)
        self.assertIn("`causal`: If true, query t reads keys s <= t + (S - T)", words)
        self.assertNotIn("Value()", words)

    def test_a_built_model_is_taken_in_micro_batches_like_any_other(self):
        def wide(g, batch):
            x = g.input("x", "f32", (batch, 64))
            y = g.input("y", "i32", (batch,))
            w1 = g.param("w1", "f32", (64, 256), init="normal", scale=0.1)
            w2 = g.param("w2", "f32", (256, 10), init="normal", scale=0.1)
            h = ops.relu(ops.matmul(x, w1, transpose_a=False, transpose_b=False))
            loss, _ = ops.cross_entropy(
                ops.matmul(h, w2, transpose_a=False, transpose_b=False), y)
            g.output("loss", loss)

        options = {"batch": 256, "optimizer": "sgd", "lr": 0.1, "device": "cpu",
                   "threads": 1}
        random = np.random.default_rng(0)
        x = random.standard_normal((256, 64)).astype(np.float32)
        y = random.integers(0, 10, 256).astype(np.int32)
        losses = []
        for optimizations in ("none", {"micro_batches": 8}):
            with stowage.Trainer(wide, optimizations=optimizations, **options) as trainer:
                losses.append([trainer.step(x, y) for _ in range(5)])
                arena = trainer.arena_bytes
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
        self.assertLess(arena, stowage.plan(wide, 256, device="cpu", threads=1,
                                            optimizer="sgd").arena_bytes)


if __name__ == "__main__":
    support.main()
