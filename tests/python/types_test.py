"""Types: the stub of the module has what the module has, and mypy is content with the
package where it is installed."""

import ast
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest

import stowage
from stowage import _core
from stowage._optimizers import TORCH_NAMES, OptimizerName
import support

PACKAGE = os.path.dirname(stowage.__file__)

# As a user's program, whose types mypy shall know.
PROGRAM = '''
import stowage
plan: stowage.Plan = stowage.plan("mlp", 8, budget="1MB")
size: int = plan.arena_bytes
with stowage.Trainer("mlp", 8, optimizations={"micro_batches": 2}) as trainer:
    loss: float = trainer.step([1])
offsets = stowage.pack([(0, 1, 2)]).offsets
stowage.plan("gpt-nano", seq=4, sequence=4)  # type: ignore[call-arg]
stowage.plan("mlp", optimizer="AdamW", weight_decay=0.1, loss_scale="none", device="cpu")
stowage.plan("mlp", optimizer="adam-w")  # type: ignore[arg-type]
stowage.plan("mlp", optimizations="all")  # type: ignore[arg-type]
stowage.plan("mlp", dtype="f8")  # type: ignore[arg-type]
stowage.Trainer("mlp", device="gpu")  # type: ignore[arg-type]
stowage.Schedule(1.0, steps=2, kind="cosin")  # type: ignore[arg-type]
'''

# torch's own types take minutes to read, and where it is not installed there are none.
SETTINGS = """
[mypy]
strict = True
enable_incomplete_feature = Unpack
[mypy-torch.*]
follow_imports = skip
ignore_missing_imports = True
"""


def public(owner):
    return {name for name in vars(owner) if not name.startswith("_")}


def description(what):
    """Its words, for people; pybind11 has a line of types before them."""
    text = what.__doc__ or ""
    return text.partition("\n")[2].strip() if text.startswith(
        getattr(what, "__name__", "") + "(self: ") else text


class TypesTest(support.TestCase):
    def test_the_stub_has_what_the_module_has(self):
        with open(os.path.join(PACKAGE, "_core.pyi"), encoding="utf-8") as file:
            stub = ast.parse(file.read())
        named = {node.name: node for node in stub.body
                 if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        self.assertEqual(public(_core), set(named))
        for name, node in named.items():
            if isinstance(node, ast.ClassDef):
                members = {each.name if isinstance(each, ast.FunctionDef) else each.target.id
                           for each in node.body
                           if isinstance(each, (ast.FunctionDef, ast.AnnAssign))}
                self.assertEqual(public(getattr(_core, name)),
                                 {each for each in members if not each.startswith("_")}, name)

    def test_all_that_users_have_is_described(self):
        for name in set(stowage.__all__) - {"__version__"}:
            what = getattr(stowage, name)
            self.assertTrue(description(what), name)
            for member in public(what) if inspect.isclass(what) else []:
                self.assertTrue(description(vars(what)[member]), f"{name}.{member}")

    def test_the_types_name_every_optimizer(self):
        self.assertEqual({*stowage.optimizers(), *TORCH_NAMES},
                         set(typing.get_args(OptimizerName)))

    def test_what_users_call_says_what_it_takes(self):
        for name in stowage.__all__:
            what = getattr(stowage, name)
            if inspect.isfunction(what):
                self.assertTrue(what.__doc__, name)
                self.assertTrue(all(each in what.__annotations__ for each in
                                    inspect.signature(what).parameters), name)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "no mypy here")
    def test_mypy_is_content(self):
        with tempfile.TemporaryDirectory() as folder:
            # Where mypy does not take it for what is installed, and all beside it for its own.
            package = os.path.join(folder, "stowage")
            shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("bin", "libs"))
            path, settings = (os.path.join(folder, name) for name in ("program.py", "mypy.ini"))
            for name, text in ((path, PROGRAM), (settings, SETTINGS)):
                with open(name, "w", encoding="utf-8") as file:
                    file.write(text)
            checked = subprocess.run(
                [sys.executable, "-m", "mypy", "--config-file", settings,
                 "--cache-dir", folder, package, path], capture_output=True, text=True, check=False,
                env={**os.environ, "MYPYPATH": folder})
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    support.main()
