"""Weights of other programs' files, in and out."""

import json
import os
import struct
import tempfile

import numpy as np

import stowage
import support

TYPES = {"float32": "F32", "float16": "F16", "float64": "F64"}


def save_safetensors(path, arrays):
    """As https://github.com/huggingface/safetensors has it, written by hand."""
    header, data = {}, b""
    for name, array in arrays.items():
        header[name] = {"dtype": TYPES[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class WeightsTest(support.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        random = np.random.default_rng(7)
        self.w = random.standard_normal((5, 3)).astype(np.float32)
        self.b = random.standard_normal(3).astype(np.float32)
        self.trainer = support.trainer()

    def path(self, name):
        return os.path.join(self.folder, name)

    def has(self, w, b):
        np.testing.assert_array_equal(self.trainer.read("w"), w)
        np.testing.assert_array_equal(self.trainer.read("b"), b)

    def test_an_npz_and_a_safetensors_file(self):
        np.savez(self.path("a.npz"), w=self.w, b=self.b)
        self.assertEqual(self.trainer.load_weights(self.path("a.npz")), (2, [], []))
        self.has(self.w, self.b)
        save_safetensors(self.path("b"), {"w": self.w + 1, "b": self.b.astype(np.float64)})
        loaded = self.trainer.load_weights(self.path("b"))
        self.assertEqual((loaded.loaded, loaded.missing, loaded.unused), (2, [], []))
        self.has(self.w + 1, self.b)

    def test_the_loss_is_that_of_the_weights_that_were_loaded(self):
        np.savez(self.path("a.npz"), w=self.w, b=self.b)
        self.trainer.load_weights(self.path("a.npz"))
        x, y = support.batch()
        expected = support.SoftmaxOfNumpy(self.w, self.b).step(x, y, 0)
        self.assertAlmostEqual(self.trainer.step(x, y), expected, places=5)

    def test_rules_say_what_is_called_or_stored_otherwise(self):
        save_safetensors(self.path("a"), {"net.w": np.ascontiguousarray(self.w.T),
                                          "net.head": self.b})
        loaded = self.trainer.load_weights(
            self.path("a"), rename={"net.*": "*"}, transpose=["w"], allow_missing=["b"],
            allow_unused=["net.head"])
        self.assertEqual(loaded, (1, ["b"], ["net.head"]))
        self.has(self.w, np.zeros(3))
        self.trainer.load_weights(self.path("a"), rename={"net.head": "b", "net.*": "*"},
                                  transpose=["w"])
        self.has(self.w, self.b)

    def test_files_that_do_not_fit_change_nothing(self):
        before = self.trainer.state_dict()
        np.savez(self.path("other.npz"), w=self.w, v=self.b)
        np.savez(self.path("shape.npz"), w=self.w, b=self.b[:2])
        with open(self.path("none"), "wb") as file:
            file.write(b"no weights")
        for kind, words, name in [
            (stowage.InvalidArgument, "b", "other.npz"),
            (stowage.InvalidArgument, "f32(2)", "shape.npz"),
            (stowage.InvalidArgument, "none", "none"),
            (stowage.NotFound, "absent", "absent"),
        ]:
            self.raises(kind, words, self.trainer.load_weights, self.path(name))
            self.has(before["w"], before["b"])
        self.raises(stowage.InvalidArgument, "is no rename", self.trainer.load_weights,
                    self.path("shape.npz"), rename={"w": "*"})
        np.savez(self.path("nan.npz"), w=self.w * np.nan, b=self.b)
        self.raises(stowage.InvalidArgument, '"w"', self.trainer.load_weights, self.path("nan.npz"))
        # No step is made, and none is saved, of a mixture of these and those that were there.
        self.raises(stowage.InvalidArgument, "has no values yet", self.trainer.step,
                    *support.batch())
        self.raises(stowage.InvalidArgument, "has no values yet", self.trainer.save,
                    self.path("run"))
        self.trainer.load_state_dict(before)
        self.has(before["w"], before["b"])
        self.trainer.close()
        self.raises(stowage.Closed, "is closed", self.trainer.load_weights, self.path("none"))

    def test_what_is_saved_is_read_by_others(self):
        self.trainer.step(*support.batch())
        self.trainer.save_weights(self.path("out.npz"))
        saved = np.load(self.path("out.npz"))
        self.assertEqual(sorted(saved.files), ["b", "w"])
        self.has(saved["w"], saved["b"])
        self.trainer.save_weights(self.path("out"))
        other = support.trainer(seed=9)
        other.load_weights(self.path("out"))
        self.has(other.read("w"), other.read("b"))


if __name__ == "__main__":
    support.main()
