"""The notebooks of examples/notebooks: each runs from top to bottom in a kernel of Jupyter's,
as a user would run it, and what its cells show is looked at in a browser. Without nbclient
and ipykernel (tools/setup.sh --tests) this says so and tries nothing. torch is not needed:
the notebook that asks for it has a module that was exported beforehand."""

import importlib.util
import os
import tempfile
import unittest

import browser
import support

FOLDER = os.path.abspath("examples/notebooks")
HAS_JUPYTER = all(map(importlib.util.find_spec, ("nbclient", "nbformat", "ipykernel")))

FRAMES = """
tell('frames', [...document.querySelectorAll('iframe')].map(
    (frame) => frame.contentDocument.body.dataset.ready));
tell('maps', [...document.querySelectorAll('iframe')].map(
    (frame) => frame.contentDocument.querySelectorAll('figure canvas').length));
"""


@unittest.skipUnless(HAS_JUPYTER, "no nbclient and ipykernel here (tools/setup.sh --tests)")
class NotebooksTest(support.TestCase):
    def executed(self, name):
        """What the cells of a notebook have printed, and what they have shown as HTML."""
        import nbclient
        import nbformat

        with tempfile.TemporaryDirectory() as folder:
            for variable in ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR"):
                os.environ[variable] = folder
            os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # or it warns
            notebook = nbformat.read(os.path.join(FOLDER, name), as_version=4)
            nbformat.validate(notebook)
            for cell in notebook.cells:  # small, and nobody's machine in them
                self.assertFalse(cell.get("outputs"), "a notebook is kept without outputs")
            nbclient.NotebookClient(notebook, timeout=280, startup_timeout=280,
                                    kernel_name="python3",
                                    resources={"metadata": {"path": FOLDER}}).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        printed = "".join(each.text for each in outputs if each.output_type == "stream")
        shown = [each.data["text/html"] for each in outputs if "text/html" in
                 each.get("data", {})]
        return printed, shown

    def looked_at(self, shown, maps):
        if not browser.COMMAND:
            self.skipTest("executed, but there is no chromium here to look at it")
        answers = browser.ask("".join(shown), FRAMES)
        self.assertEqual(answers["errors"], [])
        self.assertEqual(answers["frames"], ["true"] * len(maps))
        self.assertEqual(answers["maps"], maps)

    def test_plan_a_resnet(self):
        printed, shown = self.executed("plan_a_resnet.ipynb")
        self.assertIn("nodes run again", printed)
        self.assertIn("[plan] budget 976.6 KiB is below", printed)
        self.looked_at(shown, maps=[1, 1])

    def test_fine_tune_a_language_model(self):
        printed, shown = self.executed("fine_tune_a_language_model.ipynb")
        self.assertIn("code: from", printed)
        self.looked_at(shown, maps=[3])  # of the step, evaluation and validation

    def test_compare_two_plans(self):
        printed, shown = self.executed("compare_two_plans.ipynb")
        self.assertIn("caching allocator", printed)
        self.assertEqual(sum(each.startswith("<svg") for each in shown), 1)
        self.looked_at(shown, maps=[2, 2])

    def test_there_is_a_test_for_each(self):
        for name in os.listdir(FOLDER):
            self.assertTrue(hasattr(self, "test_" + name.removesuffix(".ipynb")), name)


if __name__ == "__main__":
    support.main()
