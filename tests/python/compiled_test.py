"""Steps in C that plans write: compiled by the host's compiler, they train as NumPy and a Trainer
do."""

import ctypes
import os
import resource
import tempfile

import numpy as np

import stowage
import support
from compiled import Library
from support import BATCH, CLASSES, FEATURES


class CompiledTest(support.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name="step.c"):
        return os.path.join(self.folder, name)

    def plan(self, **options):
        return stowage.plan(support.softmax_net, BATCH, **{
            "evaluate": support.softmax_logits, "optimizer": "sgd", "device": "c", **options})

    def weights(self):
        random = np.random.default_rng(3)
        return {"w": random.standard_normal((FEATURES, CLASSES)).astype(np.float32),
                "b": random.standard_normal(CLASSES).astype(np.float32)}

    def test_a_step_trains_from_given_weights_as_numpy_does(self):
        weights = self.weights()
        plan = self.plan()
        step = plan.to_c(self.path(), weights=weights)
        self.assertEqual(step.source, self.path())
        self.assertEqual(step.header, self.path("step.h"))
        self.assertEqual(step.arena_bytes, plan.arena_bytes)
        self.assertEqual(step.flash_bytes, sum(x.nbytes for x in weights.values()))
        library = Library(step)
        library.call("init", ctypes.c_uint64(1))
        net = support.SoftmaxOfNumpy(**weights)
        for i in range(5):
            x, y = support.batch(i)
            library.value("input_x", x.shape)[:] = x
            library.value("input_y", y.shape, np.int32)[:] = y
            library.value("input_lr")[0] = 0.5
            self.assertEqual(library.call("step"), 0)
            self.assertAlmostEqual(library.value("output_loss")[0], net.step(x, y, 0.5), 5)
        np.testing.assert_allclose(library.value("param_w", net.w.shape), net.w, atol=1e-5)
        x, _ = support.batch(9)
        library.value("evaluate_input_x", x.shape)[:] = x
        self.assertEqual(library.call("evaluate"), 0)
        np.testing.assert_allclose(library.value("evaluate_output_logits", (BATCH, CLASSES)),
                                   net.logits(x), atol=1e-5)

    def test_a_built_in_model_goes_on_where_its_trainer_was(self):
        options = {"batch": 4, "optimizer": "sgd"}
        random = np.random.default_rng(5)
        y = np.arange(4, dtype=np.int32)
        with stowage.Trainer("mlp", device="cpu", threads=1, lr=0.1, **options) as trainer:
            x = random.random(trainer.inputs["x"].shape, np.float32)
            for _ in range(3):
                trainer.step(x, y)
            step = stowage.plan("mlp", device="c", **options).to_c(
                self.path("net.c"), weights=trainer.state_dict())
            library = Library(step, "net")
            library.call("init", ctypes.c_uint64(1))
            library.value("input_x", x.shape)[:] = x
            library.value("input_y", y.shape, np.int32)[:] = y
            library.value("input_lr")[0] = 0.1
            self.assertEqual(library.call("step"), 0)
            self.assertAlmostEqual(library.value("output_loss")[0], trainer.step(x, y), 5)

    def test_without_weights_a_step_starts_from_the_values_of_its_seed(self):
        step = self.plan().to_c(self.path("net.c"), prefix="of")
        self.assertEqual(step.flash_bytes, 0)
        library = Library(step, "of")
        library.call("init", ctypes.c_uint64(7))
        with support.trainer(seed=7) as trainer:
            for name, array in trainer.state_dict().items():
                np.testing.assert_array_equal(library.value(f"param_{name}", array.shape), array)

    def test_frozen_params_are_constants_outside_of_the_arena(self):
        weights = self.weights()
        whole, frozen = self.plan(), self.plan(freeze=["w"])
        self.assertEqual(whole.regions["weights"] - frozen.regions["weights"],
                         -(-weights["w"].nbytes // 16) * 16)
        self.raises(stowage.InvalidArgument, 'param "w" outside of the arena', frozen.to_c,
                    self.path())
        step = frozen.to_c(self.path(), weights={"w": weights["w"]})
        self.assertEqual(step.flash_bytes, weights["w"].nbytes)
        with open(step.header, encoding="utf-8") as header:
            self.assertIn("const float *step_param_w(void)", header.read())
        library = Library(step)
        np.testing.assert_array_equal(library.value("param_w", (FEATURES, CLASSES)), weights["w"])

    def test_the_caller_may_provide_the_arena(self):
        step = self.plan().to_c(self.path(), arena="caller")
        with open(step.header, encoding="utf-8") as header:
            self.assertIn("int step_step(uint8_t *arena);", header.read())

    def test_files_stay_where_new_ones_do_not_fit(self):
        def contents():
            return {name: open(self.path(name), "rb").read() for name in os.listdir(self.folder)}

        self.plan().to_c(self.path())
        before = contents()
        other, old = self.plan(optimizer="adamw"), resource.getrlimit(resource.RLIMIT_FSIZE)
        for limit in (100, 4096):  # neither file fits, or the source does not
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
            try:
                self.raises(stowage.FileError, "cannot be written", other.to_c, self.path())
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, old)
            self.assertEqual(contents(), before)
        other.to_c(self.path())
        self.assertNotEqual(contents()["step.h"], before["step.h"])

    def test_what_cannot_be_written_is_refused(self):
        plan, weights = self.plan(), self.weights()
        for words, path, options in (
                ("a name that ends in .c", "step.cc", {}),
                ("C identifier", "2nd.c", {}),
                ("arena is 'heap'", "step.c", {"arena": "heap"}),
                ('given for "v"', "step.c", {"weights": {"v": weights["b"]}}),
                ("(5, 3)", "step.c", {"weights": {"w": weights["b"]}})):
            self.raises(stowage.InvalidArgument, words, plan.to_c, self.path(path), **options)
        self.raises(stowage.WrongDType, "f64", plan.to_c, self.path(),
                    weights={"b": weights["b"].astype(np.float64)})
        self.assertEqual(os.listdir(self.folder), [])
        self.raises(stowage.FileError, "cannot be written", plan.to_c, self.path("no/step.c"))
        self.raises(stowage.InvalidArgument, 'device="c"', self.plan(device="cpu").to_c,
                    self.path())
        self.raises(stowage.InvalidArgument, "threads are 2", self.plan, threads=2)
        self.raises(stowage.InvalidArgument, 'target is "v3"', self.plan, cpu_target="v3")
        self.raises(stowage.BudgetTooSmall, "smallest budget", self.plan, budget=100)


if __name__ == "__main__":
    support.main()
