"""Arrays in and out: which are taken, and in which words the others are refused."""

import gc
import sys

import numpy as np

import stowage
import support


class ArraysTest(support.TestCase):
    def setUp(self):
        self.trainer = support.trainer()
        self.x, self.y = support.batch()

    def refuses(self, kind, words, x, y=None):
        """A step of x and y, with the words, and with nothing changed."""
        before = self.trainer.state_dict()
        self.raises(kind, words, self.trainer.step, x, self.y if y is None else y)
        self.assertEqual(self.trainer.steps, 0)
        for name, array in self.trainer.state_dict().items():
            np.testing.assert_array_equal(array, before[name])

    def test_other_dtypes_are_refused(self):
        self.refuses(stowage.WrongDType,
                     '[array] "x" is f64(8, 5); expected f32(8, 5)', self.x.astype(np.float64))
        self.refuses(stowage.WrongDType, '[array] "y" is i16(8); expected i32(8)', self.x,
                     self.y.astype(np.int16))
        self.refuses(stowage.WrongDType, '[array] "y" is f64(8); expected i32(8)', self.x,
                     self.y.astype(np.float64))
        self.refuses(stowage.WrongDType, 'elements of the format "Zf"',
                     self.x.astype(np.complex64))
        self.refuses(stowage.WrongDType, 'elements of the format ">f"',
                     self.x.astype(">f4"))

    def test_integers_of_64_bits_are_taken_where_they_fit(self):
        wide = self.y.astype(np.int64)
        for given in (wide, support.Tensor(wide)):
            with support.trainer() as trainer:
                self.assertEqual(trainer.step(self.x, given), self.trainer.step(self.x, self.y))
            self.trainer = support.trainer()
        with support.trainer(evaluate=support.softmax_net) as trainer:
            self.assertEqual(trainer.evaluate(self.x, wide)["loss"],
                             trainer.evaluate(self.x, self.y)["loss"])
        for number in (2**31, -2**31 - 1):
            wide[5] = number
            self.refuses(stowage.InvalidArgument,
                         f'[array] "y" is i64(8); expected i32(8), where element 5, {number}, '
                         "does not fit", self.x, wide)
        self.refuses(stowage.InvalidArgument, '"y" is i64(7); expected i32(8)', self.x,
                     wide[:7])

    def test_integers_of_32_bits_are_taken_for_those_of_64(self):
        def net(g, batch):
            x = g.input("x", "f32", (batch, 3))
            y = g.input("y", "i64", (batch,))
            w = g.param("w", "f32", (3, 4), init="normal")
            g.output("loss", stowage.ops.cross_entropy(stowage.ops.matmul(x, w), y)[0])
        x, y = np.ones((2, 3), np.float32), np.array([3, 1], np.int64)
        losses = []
        for labels in (y, y.astype(np.int32)):
            with stowage.Trainer(net, batch=2, device="cpu") as trainer:
                losses.append(trainer.step(x, labels))
        self.assertEqual(*losses)

    def test_a_wrong_dtype_is_a_type_error_and_a_value_error(self):
        for kind in (TypeError, ValueError, stowage.InvalidArgument):
            with self.assertRaises(kind):
                self.trainer.step(self.x.astype(np.float64), self.y)

    def test_other_shapes_are_refused(self):
        self.refuses(stowage.InvalidArgument, '"x" is f32(7, 5); expected f32(8, 5)',
                     self.x[:7])
        self.refuses(stowage.InvalidArgument, '"x" is f32(40); expected f32(8, 5)',
                     self.x.reshape(-1))
        self.refuses(stowage.InvalidArgument, "9 dimensions; expected at most 8",
                     self.x.reshape(8, 5, 1, 1, 1, 1, 1, 1, 1))

    def test_arrays_that_do_not_lie_row_by_row_are_refused(self):
        words = "does not lie row by row"
        self.refuses(stowage.InvalidArgument, words, np.asfortranarray(self.x))
        self.refuses(stowage.InvalidArgument, words, np.repeat(self.x, 2, 1)[:, ::2])
        self.refuses(stowage.InvalidArgument, words, self.x[::-1])
        self.refuses(stowage.InvalidArgument, words,
                     support.Tensor(np.asfortranarray(self.x)))

    def test_what_is_no_array_is_refused(self):
        self.refuses(TypeError, '"x" is a list, which is no array', self.x.tolist())
        self.refuses(TypeError, '"x" is a NoneType', None)

    def test_read_only_arrays_and_tensors_of_dlpack_are_taken(self):
        expected = support.trainer().step(self.x, self.y)
        fixed = self.x.copy()
        fixed.flags.writeable = False
        self.assertEqual(support.trainer().step(fixed, self.y), expected)
        self.assertEqual(support.trainer().step(support.Tensor(self.x),
                                                support.Tensor(self.y)), expected)
        self.assertEqual(support.trainer().step(memoryview(self.x), y=self.y), expected)

    def test_tensors_of_a_gpu_are_refused(self):
        self.refuses(stowage.InvalidArgument, '"x" lies on a device of DLPack\'s kind 2',
                     support.Tensor(self.x, device=(2, 0)))

    def test_what_an_arrays_own_library_refuses_is_told_in_its_words(self):
        class Refusing(support.Tensor):
            def __init__(self, array, raised):
                super().__init__(array)
                self.raised = raised

            def __dlpack__(self, stream=None):
                raise self.raised

        words = '"x" cannot be had by DLPack: '
        used = self.x.__dlpack__()
        np.from_dlpack(type("Once", (support.Tensor,), {"__dlpack__": lambda self: used})(self.x))
        self.refuses(stowage.InvalidArgument, words + "use detach()",
                     Refusing(self.x, BufferError("use detach()")))
        self.refuses(KeyboardInterrupt, "", Refusing(self.x, KeyboardInterrupt()))
        self.refuses(stowage.InvalidArgument, words, support.Tensor(self.x, device="cpu"))
        self.refuses(stowage.InvalidArgument, words + "its __dlpack__ gives a NoneType",
                     type("None", (support.Tensor,), {"__dlpack__": lambda self: None})(self.x))
        self.refuses(stowage.InvalidArgument, words + "its __dlpack__ gives a PyCapsule",
                     type("Used", (support.Tensor,), {"__dlpack__": lambda self: used})(self.x))

    def test_what_gives_no_buffer_may_still_have_dlpack(self):
        class Both(np.ndarray):
            """Of elements that no buffer can tell of."""

            def __dlpack__(self, stream=None):
                return given.__dlpack__()

            def __dlpack_device__(self):
                return 1, 0

        given = self.x
        dates = np.zeros(self.x.shape, "datetime64[s]")
        expected = support.trainer().step(self.x, self.y)
        self.assertEqual(support.trainer().step(dates.view(Both), self.y), expected)
        self.refuses(stowage.InvalidArgument, '"x" cannot be had by DLPack: ', dates)
        released = memoryview(self.x)
        released.release()
        self.refuses(stowage.InvalidArgument, '"x" cannot be had by its buffer: operation '
                     "forbidden on released memoryview", released)

    def test_an_evaluation_refuses_what_a_step_refuses(self):
        evaluate = self.trainer.evaluate
        expected = evaluate(self.x)["logits"]
        np.testing.assert_array_equal(evaluate(support.Tensor(self.x))["logits"], expected)
        for kind, words, x in [
            (stowage.WrongDType, "f64(8, 5); expected f32(8, 5)", self.x.astype(np.float64)),
            (stowage.InvalidArgument, "f32(8, 4); expected f32(8, 5)", self.x[:, :4].copy()),
            (stowage.InvalidArgument, "does not lie row by row", np.asfortranarray(self.x)),
            (stowage.InvalidArgument, "DLPack's kind 2", support.Tensor(self.x, (2, 0))),
            (TypeError, '"x" is a list, which is no array', self.x.tolist()),
            (stowage.InvalidArgument, "there are no examples", self.x[:0]),
            (stowage.InvalidArgument, "arrays of one number of examples, got [()]",
             np.float32(1).reshape(())),
        ]:
            self.raises(kind, words, evaluate, x)
        self.raises(stowage.InvalidArgument, '2 arrays are given; the evaluation has 1 inputs: '
                    '"x" f32(8, 5)', evaluate, self.x, self.x)
        self.raises(stowage.InvalidArgument, "0 arrays are given; the evaluation has 1", evaluate)

    def test_params_are_written_by_arrays_that_fit(self):
        before = self.trainer.state_dict()
        w = before["w"] + 1
        for kind, words, b in [
            (stowage.WrongDType, '"b" is f64(3); expected f32(3)', np.zeros(3)),
            (stowage.InvalidArgument, '"b" is f32(4); expected f32(3)', np.zeros(4, np.float32)),
            (stowage.InvalidArgument, "does not lie row by row", np.zeros(6, np.float32)[::2]),
            (TypeError, '"b" is a list', [0.0, 0.0, 0.0]),
        ]:
            self.raises(kind, words, self.trainer.load_state_dict, {"b": b}, strict=False)
            np.testing.assert_array_equal(self.trainer.state_dict()["b"], before["b"])
            # Nor is what fits taken beside what does not, whichever comes first.
            self.raises(kind, words, self.trainer.load_state_dict, {"b": b, "w": w})
            np.testing.assert_array_equal(self.trainer.state_dict()["w"], before["w"])
        before["b"][0] = 2
        self.trainer.load_state_dict({"w": w, "b": before["b"]})
        np.testing.assert_array_equal(self.trainer.state_dict()["w"], w)
        np.testing.assert_array_equal(self.trainer.state_dict()["b"], before["b"])
        self.raises(stowage.InvalidArgument, '"w" is f32(1)', self.trainer.load_state_dict,
                    {"b": before["b"] + 1, "w": np.zeros(1, np.float32)})
        np.testing.assert_array_equal(self.trainer.state_dict()["b"], before["b"])

    def test_params_of_bf16_are_read_and_written_as_float32(self):
        trainer = stowage.Trainer("mlp", 8, dtype="bf16", device="cpu", threads=1)
        name, before = next((name, array) for name, array in trainer.state_dict().items()
                            if array.ndim == 2)
        self.assertEqual(before.dtype, np.float32)
        w = np.random.default_rng(3).standard_normal(before.shape).astype(np.float32)
        w[0, :4] = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.5]
        trainer.load_state_dict({name: w}, strict=False)
        # The nearer of both neighbours of 8 bits; of two as near, the even one.
        low = (w.view(np.uint32) & 0xFFFF0000).view(np.float32)
        high = ((w.view(np.uint32) & 0xFFFF0000) + 0x10000).view(np.float32)
        below, above = (np.abs(w.astype(np.float64) - each) for each in (low, high))
        is_odd = (w.view(np.uint32) >> 16) & 1 == 1
        expected = np.where((above < below) | ((above == below) & is_odd), high, low)
        np.testing.assert_array_equal(expected[0, :4], [1, 1 + 2**-6, 1 + 2**-7, -3.5])
        np.testing.assert_array_equal(trainer.read(name), expected)
        trainer.load_state_dict(trainer.state_dict())
        np.testing.assert_array_equal(trainer.read(name), expected)
        self.raises(stowage.WrongDType, f'"{name}" is f64', trainer.load_state_dict,
                    {name: w.astype(np.float64)}, strict=False)
        self.raises(stowage.InvalidArgument, "expected f32", trainer.load_state_dict,
                    {name: w[:1]}, strict=False)
        self.raises(stowage.Unsupported, "bf16", trainer.view, name)

    def test_arrays_are_let_go_whether_they_are_taken_or_not(self):
        for array, given in [(self.x, True), (np.asfortranarray(self.x), False),
                             (self.x.astype(np.float64), False)]:
            for wrap in (support.Tensor, lambda a: a):
                before = sys.getrefcount(array)
                try:
                    self.trainer.step(wrap(array), self.y)
                    self.assertTrue(given)
                except stowage.InvalidArgument:
                    self.assertFalse(given)
                gc.collect()
                self.assertEqual(sys.getrefcount(array), before)

    def test_as_many_arrays_as_inputs(self):
        words = '1 arrays are given; the step has 2 inputs: "x" f32(8, 5), "y" i32(8)'
        self.raises(stowage.InvalidArgument, words, self.trainer.step, self.x)
        self.raises(stowage.InvalidArgument, 'no array is given for the input "y"',
                    self.trainer.step, self.x, z=self.y)

    def test_a_label_out_of_range_is_told_and_changes_nothing(self):
        self.y[3] = support.CLASSES
        self.refuses(stowage.InvalidArgument, "", self.x, self.y)


if __name__ == "__main__":
    support.main()
