"""Graphs that are built op by op."""

import inspect

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
                         levers="none", batch=len(arrays[0])) as trainer:
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

        plan = stowage.plan(build, 4, remake=["h"], device="cpu", threads=1)
        self.assertEqual([each["name"] for each in plan.remade], ["h"])
        self.raises(stowage.InvalidArgument, '[name] "h" for value "exp_2" is empty or taken',
                    stowage.plan, lambda g, batch: build(g, batch, times=2), 4)

    def test_an_exception_of_the_function_is_told(self):
        def build(g, batch):
            raise RuntimeError("no such net")

        self.raises(stowage.InvalidArgument, "no such net", stowage.plan, build, 4)

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
            self.assertIn("->", function.__doc__)

    def test_a_built_model_is_taken_in_pieces_like_any_other(self):
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
        for levers in ("none", {"pieces": 8}):
            with stowage.Trainer(wide, levers=levers, **options) as trainer:
                losses.append([trainer.step(x, y) for _ in range(5)])
                arena = trainer.arena_bytes
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
        self.assertLess(arena, stowage.plan(wide, 256, device="cpu", threads=1,
                                            optimizer="sgd").arena_bytes)


if __name__ == "__main__":
    support.main()
