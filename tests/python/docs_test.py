"""The examples of docs/tutorials/python.md and of the README, as they stand there, and what the
tables of that page name. Where torch is not installed, the module of an example is torchvision's as torch
has exported it (tests/goldens/make_resnet18_goldens.py)."""

import builtins
import contextlib
import importlib
import importlib.util
import os
import re
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy as np

import resnet18
import stowage
import support

HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))
GOLDENS = os.path.abspath("tests/goldens/torch")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def examples(path):
    return re.findall(r"^```python\n(.*?)^```", text_of(path), re.MULTILINE | re.DOTALL)


@contextlib.contextmanager
def stand_ins():
    """For what an example imports that is not installed here, and does with torch."""
    with contextlib.ExitStack() as stack:
        def install(name, **contents):
            stack.enter_context(mock.patch.dict(
                sys.modules, {name: types.SimpleNamespace(**contents)}))

        if not importlib.util.find_spec("pandas"):
            install("pandas", DataFrame=list)
        if not HAS_TORCH:
            install("torch", randn=lambda *shape: shape)
            install("torchvision", models=types.SimpleNamespace(
                resnet18=lambda num_classes: f"resnet18 of {num_classes} classes"))
            stack.enter_context(mock.patch.object(
                stowage, "from_torch",
                lambda net, shape: stowage.model(resnet18.exported(GOLDENS), batch=shape[0])))
            stack.enter_context(mock.patch.object(
                stowage.Trainer, "to_torch", lambda trainer, net: trainer.state_dict()))
        yield


class DocsTest(support.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        self.page = text_of("docs/tutorials/python.md")
        self.examples = examples("docs/tutorials/python.md")
        self.of_readme = examples("README.md")
        os.chdir(folder.name)

    def run_example(self, text, **names):
        """The names that there are once the example has run with these."""
        with stand_ins():
            names["stowage"] = stowage
            for module in ("torch", "pandas"):
                if f"{module}." in text:
                    names[module] = importlib.import_module(module)
            exec(compile(text, "example", "exec"), names)
        return names

    def example(self, words):
        (found,) = [each for each in self.examples if words in each]
        return found

    def test_there_is_a_test_for_each(self):
        self.assertEqual(len(self.examples), 6)
        self.assertEqual(len(self.of_readme), 1)

    def test_a_torch_module_is_trained(self):
        x, y = resnet18.batch()
        done = self.run_example(self.example("import torch, torchvision"), batches=[(x, y)])
        self.assertAlmostEqual(done["loss"], np.log(10), delta=1)
        self.assertEqual(done["trainer"].plan.budget_bytes, done["whole"].arena_bytes * 6 // 10)

    def test_the_readmes_module_is_trained(self):
        x, y = resnet18.batch()
        done = self.run_example(self.of_readme[0], x=x, y=y)
        self.assertAlmostEqual(done["loss"], np.log(10), delta=1)

    def test_a_function_builds_a_net(self):
        trainer = self.run_example(self.example("from stowage import ops"))["trainer"]
        x, y = np.ones((32, 64), np.float32), np.arange(32, dtype=np.int32) % 10
        self.assertGreater(trainer.step(x, y), trainer.step(x, y))

    def test_a_plan_is_looked_at(self):
        done = self.run_example(self.example("plan.arena_bytes, plan.lower_bound_bytes"),
                                model=support.softmax_net,
                                other=stowage.plan(support.softmax_net, 32, device="cpu"))
        self.assertEqual(done["plan"].batch, 64)
        self.assertTrue(os.path.exists("step.json"))

    def test_a_plan_is_asked_for_more(self):
        def model(g, batch):
            x = g.input("x", "f32", (batch, 4))
            w = g.param("fc.bias", "f32", (4,), init="ones")
            h = stowage.ops.relu(stowage.ops.mul(x, w))
            g.name("h1", h)
            g.output("loss", stowage.ops.reduce_mean(h, axes=[0, 1], keep=False))

        self.run_example(self.example('recompute_keep=["h1"]'), model=model)

    def test_a_run_is_taken_and_resumed(self):
        random = np.random.default_rng(0)
        x, y = random.random((70, 64), np.float32), random.integers(0, 10, 70)
        names = {"x": x, "y": y, "x_test": x[:9], "y_test": y[:9]}
        text = self.example("trainer.fit(")
        result = self.run_example(text, **names)["result"]
        self.assertEqual(result.last_step, 11)  # 350 examples in batches of 32
        self.assertEqual(len(result.losses), 11)
        self.assertTrue(os.path.exists("digits.safetensors"))
        again = self.run_example(text, **names)["result"]
        self.assertEqual((again.last_step, again.losses), (11, []))

    def test_buffers_are_packed(self):
        frame = {"lower": [0, 0, 2], "upper": [2, 5, 5], "size": [100, 50, 100]}
        packed = self.run_example(self.example("stowage.pack("), frame=frame)["packed"]
        self.assertEqual((packed.height, packed.violations), (150, []))

    def test_what_the_tables_name_there_is(self):
        methods = set(re.findall(r"trainer\.(\w+)", self.page))
        self.assertGreater(len(methods), 8)
        for method in methods:
            self.assertTrue(hasattr(stowage.Trainer, method), method)
        for name in set(re.findall(r"\bstowage\.(\w+)\(", self.page)):
            self.assertIn(name, stowage.__all__)
        errors = dict(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ((?:`\w+`(?:, )?)+) \|", self.page,
                                 re.MULTILINE))
        raised = 0
        for names, bases in errors.items():
            for name in re.findall(r"\w+", names):
                for base in re.findall(r"\w+", bases):
                    kind = getattr(stowage, base, None) or getattr(builtins, base)
                    self.assertTrue(issubclass(getattr(stowage, name), kind), (name, base))
                    raised += 1
        self.assertGreater(raised, 9)


if __name__ == "__main__":
    support.main()
