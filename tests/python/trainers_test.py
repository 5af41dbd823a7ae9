"""Trainers: what a step computes, and what a process may do to one."""

import ctypes
import gc
import logging
import operator
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import numpy as np

import stowage
from stowage import ops
import support


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status.read())[1])


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]


def heap_bytes():
    """That malloc has given out."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Mallinfo
    now = mallinfo()
    return now.uordblks + now.hblkhd


class TrainersTest(support.TestCase):
    def test_steps_are_those_of_numpy(self):
        with support.trainer() as trainer:
            state = trainer.state_dict()
            net = support.SoftmaxOfNumpy(state["w"], state["b"])
            for step in range(20):
                x, y = support.batch(step)
                self.assertAlmostEqual(trainer.step(x, y), net.step(x, y, 0.1), places=5)
            np.testing.assert_allclose(trainer.state_dict()["w"], net.w, atol=1e-5)
            x, _ = support.batch(99, examples=21)  # no multiple of the batch
            logits = trainer.evaluate(x)["logits"]
            self.assertEqual(logits.shape, (21, 3))
            np.testing.assert_allclose(logits, net.logits(x), atol=1e-5)

    def test_the_learning_rate_is_set_between_steps(self):
        trainer = support.trainer()
        state = trainer.state_dict()
        trainer.lr = 0
        trainer.step(*support.batch())
        np.testing.assert_array_equal(trainer.state_dict()["w"], state["w"])
        for bad in (float("nan"), float("inf")):
            self.raises(stowage.InvalidArgument, "is not finite", setattr, trainer, "lr", bad)
        for rate, words in ((1e39, "is not finite in f32"), (1e-46, "is 0 in f32")):
            self.raises(stowage.InvalidArgument, words, setattr, trainer, "lr", rate)
            self.raises(stowage.InvalidArgument, words, setattr, trainer, "lr",
                        stowage.Schedule(peak=rate, steps=4, kind="constant"))
        self.assertEqual(trainer.lr, 0)

    def test_values_are_offloaded_to_disk(self):
        disk = {"recompute": "auto", "offload": "disk"}
        smallest = stowage.plan("mlp", 32, optimizations=disk, device="cpu",
                                threads=1).smallest_budget_bytes
        rng = np.random.default_rng(1)
        batches = [(rng.normal(size=(32, 64)).astype(np.float32),
                    rng.integers(0, 10, 32).astype(np.int32)) for _ in range(3)]
        with tempfile.TemporaryDirectory() as folder, \
                stowage.Trainer("mlp", 32, device="cpu", threads=1, seed=3) as resident, \
                stowage.Trainer("mlp", 32, smallest, disk, device="cpu", threads=1, seed=3,
                                offload_dir=folder) as trainer:
            self.assertGreater(trainer.plan.host_bytes, 0)
            self.assertEqual(trainer.plan.regions["weights"], 0)
            self.assertLess(trainer.plan.arena_bytes, resident.plan.arena_bytes)
            for x, y in batches:
                self.assertEqual(trainer.step(x, y), resident.step(x, y))
            for name, value in resident.state_dict().items():
                np.testing.assert_array_equal(trainer.state_dict()[name], value)
            self.assertEqual(os.listdir(folder), [])
        with self.assertRaisesRegex(stowage.StowageError, "nothing is offloaded to disk"):
            stowage.Trainer("mlp", 32, device="cpu", offload_dir="/tmp")

    def test_a_schedule_gives_each_step_its_learning_rate(self):
        schedule = stowage.Schedule(peak=0.4, steps=10, warmup=4, final_factor=0.1)

        def expected(step):
            if step <= 4:
                return 0.4 * step / 4
            falling = (1 + np.cos(np.pi * min(1, (step - 4) / 6))) / 2
            return 0.4 * (0.1 + 0.9 * falling)

        for step in (1, 4, 5, 7, 10, 11, 1000):
            self.assertAlmostEqual(schedule.at(step), expected(step), places=12)
        x, y = support.batch()
        with support.trainer(lr=schedule) as trainer, tempfile.TemporaryDirectory() as folder:
            net = support.SoftmaxOfNumpy(trainer.read("w"), trainer.read("b"))
            for step in range(1, 7):
                self.assertAlmostEqual(trainer.lr, expected(step), places=12)
                self.assertAlmostEqual(trainer.step(x, y), net.step(x, y, expected(step)),
                                       places=5)
            # A run that goes on has the rates of the steps to come.
            trainer.save(os.path.join(folder, "run"))
            with support.trainer(lr=schedule) as again:
                again.resume(os.path.join(folder, "run"))
                self.assertAlmostEqual(again.lr, expected(7), places=12)
            trainer.lr = 0.25
            self.assertEqual(trainer.lr, 0.25)
            np.testing.assert_allclose(trainer.read("w"), net.w, atol=1e-5)

    def test_schedules_of_every_kind(self):
        # By hand: a rise of 2 steps to 0.8, then 8 steps.
        def rates(kind, **more):
            schedule = stowage.Schedule(0.8, steps=10, warmup=2, kind=kind, **more)
            return [schedule.at(step) for step in (1, 2, 4, 6, 10, 20)]

        half = (1 + np.cos(np.pi / 2)) / 2
        quarter = (1 + np.cos(np.pi / 4)) / 2
        for kind, more, expected in (
                ("constant", {}, (0.4, 0.8, 0.8, 0.8, 0.8, 0.8)),
                ("linear", {}, (0.4, 0.8, 0.6, 0.4, 0, 0)),
                ("linear", {"final_factor": 0.5}, (0.4, 0.8, 0.7, 0.6, 0.4, 0.4)),
                ("cosine", {}, (0.4, 0.8, 0.8 * quarter, 0.8 * half, 0, 0)),
                ("wsd", {}, (0.4, 0.8, 0.8, 0.8, 0, 0)),
                ("wsd", {"decay_share": 0.8}, (0.4, 0.8, 0.8 * quarter, 0.8 * half, 0, 0)),
                ("polynomial", {"power": 2}, (0.4, 0.8, 0.45, 0.2, 0, 0)),
                ("inverse_sqrt", {}, (0.4, 0.8, 0.8 / np.sqrt(2), 0.8 / np.sqrt(3),
                                      0.8 / np.sqrt(5), 0.8 / np.sqrt(5)))):
            with self.subTest(kind=kind, **more):
                np.testing.assert_allclose(rates(kind, **more), expected, rtol=0, atol=1e-12)

    def test_schedules_that_are_none(self):
        for wrong, words in (({"peak": float("nan")}, "peak is nan"), ({"steps": 0},
                             "steps is 0; expected a number of at least 1"),
                             ({"warmup": -1}, "warmup is -1"),
                             ({"final_factor": float("inf")}, "final_factor is inf"),
                             ({"kind": "step"}, "no schedule \"step\"; expected constant, "),
                             ({"kind": "constant", "final_factor": 0.1}, "stays at its peak"),
                             ({"power": 2}, "a polynomial rate reads and a cosine one does not"),
                             ({"decay_share": 0.5}, "a wsd rate reads and a cosine one does not"),
                             ({"kind": "polynomial", "power": 0}, "power is 0; expected"),
                             ({"kind": "wsd", "decay_share": 2}, "above 0 and at most 1")):
            self.raises(stowage.InvalidArgument, words, stowage.Schedule,
                        **{"peak": 1, "steps": 2, **wrong})
        self.raises(stowage.InvalidArgument, "there is no step 0",
                    stowage.Schedule(1, 2).at, 0)

    def test_groups_have_a_decay_and_a_share_of_the_learning_rate(self):
        x, y = support.batch()
        trainer = support.trainer(groups=[{"pattern": "w", "decay": 0.3},
                                          {"pattern": "*", "lr_scale": 0.5}])
        before = trainer.state_dict()
        net = support.SoftmaxOfNumpy(before["w"], before["b"])
        trainer.step(x, y)
        net.step(x, y, 0.1)
        after = trainer.state_dict()
        np.testing.assert_allclose(after["w"], net.w - 0.1 * 0.3 * before["w"], atol=1e-6)
        np.testing.assert_allclose(after["b"], before["b"] + 0.5 * (net.b - before["b"]),
                                   atol=1e-6)
        frozen = support.trainer(freeze=["w"], groups=[{"pattern": "*", "decay": 0.3}])
        frozen.step(x, y)
        np.testing.assert_array_equal(frozen.read("w"), before["w"])
        self.assertFalse(np.array_equal(frozen.read("b"), before["b"]))

    def test_gradients_are_clipped_by_their_norm(self):
        # The step is as long as the norm that is allowed, in the direction of NumPy's.
        x, y = support.batch()
        trainer = support.trainer(clip_norm=0.01, lr=1.0)
        before = trainer.state_dict()
        net = support.SoftmaxOfNumpy(before["w"], before["b"])
        trainer.step(x, y)
        net.step(x, y, 1.0)
        after = trainer.state_dict()
        moved = np.concatenate([(after[n] - before[n]).ravel() for n in ("w", "b")])
        whole = np.concatenate([(net.w - before["w"]).ravel(), net.b - before["b"]])
        np.testing.assert_allclose(moved, 0.01 * whole / np.linalg.norm(whole), atol=1e-6)

    def test_f16_trains_with_a_scale_that_moves(self):
        tokens = np.arange(4 * 32, dtype=np.int32).reshape(4, 32) % 60
        with stowage.Trainer("gpt-nano", batch=4, seq=32, dtype="f16", device="cpu", threads=1,
                             seed=3) as trainer:
            self.assertEqual(trainer.read("loss_scale"), 65536)
            before = trainer.read("ln_f.weight")
            first = trainer.step(tokens, tokens)
            skipped = int(trainer.read("loss_scale.skipped"))
            self.assertEqual(trainer.read("loss_scale"), 65536 / 2**skipped)
            after = trainer.read("ln_f.weight")
            self.assertEqual(np.array_equal(before, after), skipped == 1)
            for _ in range(30):
                last = trainer.step(tokens, tokens)
            self.assertLess(last, 0.8 * first)

    def test_a_model_made_before_trains_in_its_own_type(self):
        given = {"batch": 2, "seq": 8, "dtype": "f16"}
        made = stowage.model("gpt-nano", **given)
        with stowage.Trainer(made, device="cpu", threads=1) as trainer:
            self.assertEqual(trainer.read("loss_scale"), 65536)
        self.assertEqual(stowage.plan(made, device="cpu", threads=1).arena_bytes,
                         stowage.plan("gpt-nano", device="cpu", threads=1, **given).arena_bytes)

    def test_a_step_whose_gradients_are_not_finite_updates_nothing(self):
        x, y = support.batch()
        with support.trainer(loss_scale=1) as trainer, support.trainer() as plain:
            self.assertEqual(trainer.step(x, y), plain.step(x, y))
            kept = trainer.read("w")
            np.testing.assert_array_equal(kept, plain.read("w"))
            bad = x.copy()
            bad[0, 0] = np.inf
            trainer.step(bad, y)
            np.testing.assert_array_equal(trainer.read("w"), kept)
            self.assertEqual(trainer.read("loss_scale.skipped"), 1)
            trainer.step(x, y)
            self.assertFalse(np.array_equal(trainer.read("w"), kept))
        with support.trainer(loss_scale="dynamic") as trainer:
            self.assertEqual(trainer.read("loss_scale"), 65536)
        for given, words in ((0, '"0.0" is neither dynamic'), ("large", '"large" is neither')):
            self.raises(stowage.InvalidArgument, words, support.trainer, loss_scale=given)
        self.raises(TypeError, "[loss_scale] [1] is no number", support.trainer, loss_scale=[1])

    def test_initial_values_are_drawn_by_the_seed(self):
        first, same, other = (support.trainer(seed=seed).read("w") for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, same)
        self.assertFalse(np.array_equal(first, other))

    def test_loaded_state_is_what_is_read(self):
        trainer, other = support.trainer(seed=1), support.trainer(seed=2)
        other.load_state_dict(trainer.state_dict())
        x, y = support.batch()
        self.assertEqual(trainer.step(x, y), other.step(x, y))
        self.raises(stowage.InvalidArgument, "missing: ['w']; unknown: ['v']",
                    other.load_state_dict, {"b": np.zeros(3, np.float32), "v": x})
        self.raises(stowage.InvalidArgument, "missing: none; unknown: ['v']",
                    other.load_state_dict, {**trainer.state_dict(), "v": x})
        self.raises(stowage.InvalidArgument, "missing: ['w']; unknown: none",
                    other.load_state_dict, {"b": np.zeros(3, np.float32)})
        self.raises(stowage.WrongDType, '"b" is f64(3); expected f32(3)',
                    other.load_state_dict, {"b": np.zeros(3)}, strict=False)

    def test_a_resumed_run_goes_on_bit_for_bit(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.safetensors")
            whole = support.trainer(optimizer="adamw")
            losses = [whole.step(*support.batch(i)) for i in range(6)]
            first = support.trainer(optimizer="adamw")
            for i in range(3):
                first.step(*support.batch(i))
            first.save(path)
            again = support.trainer(optimizer="adamw", seed=7)
            self.assertEqual(again.resume(path), 3)
            self.assertEqual([again.step(*support.batch(i)) for i in range(3, 6)], losses[3:])
            # Its states have the names and types of AdamW's.
            adam = support.trainer(optimizer="adam")
            self.raises(stowage.InvalidArgument,
                        'is of a run with optimizer="adamw", this trainer has "adam"',
                        adam.resume, path)
            self.assertEqual(adam.steps, 0)
            self.raises(stowage.NotFound, "none.safetensors", again.resume,
                        os.path.join(folder, "none.safetensors"))
            self.raises(stowage.FileError, "", again.save, "/proc/none/run.safetensors")
            again.view("w")[0, 0] = np.nan
            self.raises(stowage.NotFinite, '"w"', again.save, path)

    def test_views_are_the_arena_itself(self):
        trainer = support.trainer()
        view = trainer.view("w")
        x, y = support.batch()
        trainer.step(x, y)
        np.testing.assert_array_equal(view, trainer.read("w"))
        view[...] = 0
        trainer.view("b")[...] = 0
        self.assertAlmostEqual(trainer.step(x, y), np.log(3), places=6)
        self.raises(stowage.InvalidArgument, "only params and states", trainer.view, "x")
        self.raises(stowage.NotFound, 'no value "v"', trainer.view, "v")

    def test_views_go_out_by_dlpack_without_a_copy(self):
        trainer = support.trainer()
        shared = np.from_dlpack(trainer.view("w"))
        np.testing.assert_array_equal(shared, trainer.read("w"))
        trainer.step(*support.batch())
        np.testing.assert_array_equal(shared, trainer.read("w"))
        self.raises(BufferError, "1 view of the arena", trainer.close)
        del shared
        trainer.close()

    def test_a_view_keeps_its_trainer_open_and_its_bytes_there(self):
        trainer = support.trainer()
        view = trainer.view("w")
        part = view[1:]
        self.raises(BufferError, "1 view of the arena would outlive it", trainer.close)
        self.assertFalse(trainer.closed)
        trainer.step(*support.batch())
        expected = part.copy()
        del view, trainer
        gc.collect()
        np.testing.assert_array_equal(part, expected)

    def test_a_closed_trainer_is_refused(self):
        trainer = support.trainer()
        view = trainer.view("w")
        del view
        trainer.close()
        trainer.close()
        self.assertTrue(trainer.closed)
        for call in (lambda: trainer.step(*support.batch()), lambda: trainer.state_dict(),
                     lambda: trainer.view("w"), lambda: trainer.read("w"),
                     lambda: trainer.evaluate(support.batch()[0]),
                     lambda: trainer.save("/tmp/none"), lambda: trainer.inputs,
                     lambda: trainer.resume("/tmp/none"), lambda: trainer.arena_bytes):
            self.raises(stowage.Closed, "[trainer] the trainer is closed", call)
        self.assertIn("closed", repr(trainer))

    def test_two_trainers_in_two_threads(self):
        x, y = support.batch()

        def losses():
            trainer = support.trainer(threads=2)
            return [trainer.step(x, y) for _ in range(200)]

        expected, found = losses(), [None, None]

        def run(i):
            found[i] = losses()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [expected, expected])

    def test_threads_take_turns_with_one_trainer(self):
        trainer = support.trainer()
        failures = []

        def run():
            try:
                for i in range(100):
                    trainer.step(*support.batch(i))
                    trainer.evaluate(support.batch(i)[0])
                    trainer.read("w")
            except Exception as error:  # whatever it is, it is told below
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(trainer.steps, 300)

    def test_closed_in_the_midst_of_other_threads_steps(self):
        for _ in range(20):
            trainer = support.trainer()
            stopped = []

            def run(trainer=trainer, stopped=stopped):
                try:
                    while True:
                        trainer.step(*support.batch())
                        trainer.evaluate(support.batch()[0])
                except stowage.Closed as error:
                    stopped.append(str(error))

            threads = [threading.Thread(target=run) for _ in range(2)]
            for thread in threads:
                thread.start()
            while trainer.steps < 3:
                time.sleep(0)
            trainer.close()
            for thread in threads:
                thread.join()
            self.assertEqual(len(stopped), 2)
            for words in stopped:
                self.assertIn("closed", words)

    def test_a_program_ends_in_the_midst_of_a_threads_steps(self):
        # By a thread that Python does not wait for, and that is never given the GIL again.
        code = textwrap.dedent("""
            import threading
            import support
            trainer = support.trainer(threads=2)
            x, y = support.batch()

            def run():
                while True:
                    trainer.step(x, y)

            threading.Thread(target=run, daemon=True).start()
            while trainer.steps < 3:
                pass
        """)
        for _ in range(20):
            done = subprocess.run([sys.executable, "-c", code], check=False, timeout=120,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_other_threads_run_during_steps(self):
        trainer = stowage.Trainer("gpt-nano", batch=8, seq=64, device="cpu", threads=1)
        tokens = np.zeros((8, 64), np.int32)
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
                time.sleep(0)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            before = counted[0]
            trainer.step(tokens, tokens)
            self.assertGreater(counted[0] - before, 10)
        finally:
            done.set()
            thread.join()

    def test_an_interrupt_ends_between_steps(self):
        trainer = support.trainer()
        x, y = support.batch()
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            while True:
                trainer.step(x, y)
        timer.join()
        steps = trainer.steps
        trainer.step(x, y)
        self.assertEqual(trainer.steps, steps + 1)

    def test_a_forked_child_is_refused_in_words(self):
        trainer = support.trainer(threads=2)
        view = trainer.view("w")
        trainer.step(*support.batch())
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                trainer.step(*support.batch())
                words = "nothing was raised"
            except stowage.Forked as error:
                words = str(error)
            try:
                trainer.close()
                words += " nothing was raised"
            except stowage.Forked:
                pass
            del trainer, view
            gc.collect()
            os.write(write, words.encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as said:
            words = said.read()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIn(f"the trainer is of process {os.getpid()}", words)
        self.assertNotIn("nothing was raised", words)
        trainer.step(*support.batch())

    def test_a_forked_child_lets_go_beside_a_trainer_of_its_own(self):
        # Whose threads lie where the parent's lay, and would be waited for in their stead.
        held = [support.trainer(threads=2) for _ in range(2)]
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            own = support.trainer(threads=2)
            loss = own.step(*support.batch())
            held.clear()
            gc.collect()
            os._exit(0 if own.step(*support.batch()) < loss else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_steps_take_no_memory(self):
        # Of Python's blocks, of its objects, of malloc's bytes, and of the process's pages.
        def used():
            gc.collect()
            return (sys.getallocatedblocks(), len(gc.get_objects()), heap_bytes(),
                    resident_bytes())

        trainer = support.trainer(threads=2)
        x, y = support.batch()
        ways = [lambda: trainer.step(x, y), lambda: trainer.step(support.Tensor(x), y=y)]
        for way in ways:
            for _ in range(200):
                way()
            before = used()
            for _ in range(10_000):
                way()
            for more, allowed in zip(map(operator.sub, used(), before),
                                     (200, 200, 1 << 14, 1 << 19)):
                self.assertLessEqual(more, allowed)

    def test_what_is_refused_takes_no_memory(self):
        trainer = support.trainer()
        x, y = support.batch()

        def refuse():
            for bad in (x[1:], x.astype(np.float64), np.asfortranarray(x), x.tolist(),
                        support.Tensor(np.asfortranarray(x)),
                        support.Tensor(x.astype(np.float64)), support.Tensor(x, (2, 0))):
                with self.assertRaises((stowage.InvalidArgument, TypeError)):
                    trainer.step(bad, y)
            with self.assertRaises(stowage.NotFound):
                trainer.view("none")
            trainer.load_state_dict(trainer.state_dict())
            trainer.evaluate(x)

        for _ in range(20):
            refuse()
        gc.collect()
        before = sys.getallocatedblocks(), heap_bytes()
        for _ in range(2000):
            refuse()
        gc.collect()
        # A block a round would be 2,000; lists of what is free come and go.
        self.assertLessEqual(sys.getallocatedblocks() - before[0], 1000)
        self.assertLessEqual(heap_bytes() - before[1], 1 << 14)

    def test_a_batch_is_copied_once(self):
        # Into the arena, which is there before the step: a second copy would take room for
        # a batch, and the first cannot be left out.
        def wide(g, batch):
            x = g.input("x", "f32", (batch, 1 << 14))
            w = g.param("w", "f32", (1 << 14, 1), init="normal", scale=0.1)
            g.output("loss", ops.reduce_mean(
                ops.matmul(x, w, transpose_a=False, transpose_b=False), axes=[0, 1],
                keep=False))

        with stowage.Trainer(wide, batch=512, optimizer="sgd", lr=0.1, device="cpu",
                             threads=1, optimizations="none") as trainer:
            x = np.full((512, 1 << 14), 0.5, np.float32)  # 32 MiB
            trainer.step(x)
            for given in (x, support.Tensor(x)):
                forget_peak()
                before = peak_bytes()
                trainer.step(given)
                self.assertLess(peak_bytes() - before, x.nbytes // 8)
            x[...] = 2
            self.assertEqual(trainer.read("x").max(), 0.5)

    def test_planning_and_the_device_are_logged(self):
        with self.assertLogs("stowage", logging.INFO) as logs:
            support.trainer(device="auto")
        self.assertTrue(any("device: " in line for line in logs.output), logs.output)
        self.assertTrue(any("planned softmax_net" in line for line in logs.output))

    def test_what_a_step_takes_is_told(self):
        trainer = support.trainer()
        self.assertEqual(trainer.inputs, {"x": ("f32", (8, 5)), "y": ("i32", (8,))})
        self.assertEqual(list(trainer.inputs), ["x", "y"])
        self.assertEqual(trainer.inputs["x"].shape, (8, 5))

    def test_an_evaluation_takes_inputs_by_name(self):
        trainer = support.trainer()
        x, _ = support.batch(3, examples=21)
        expected = trainer.evaluate(x)["logits"]
        np.testing.assert_array_equal(trainer.evaluate(x=x)["logits"], expected)
        self.raises(stowage.InvalidArgument, "no input for ['z']; the inputs are ['x']",
                    trainer.evaluate, z=x)
        self.raises(stowage.InvalidArgument, "no input for ['x']", trainer.evaluate, x, x=x)

    def test_numbers_that_are_none(self):
        for kind, words, options in [
            (TypeError, "[seed] 'one' is no whole number", {"seed": "one"}),
            (TypeError, "[seed] 1.0 is no whole number", {"seed": 1.0}),
            (stowage.InvalidArgument, "[seed] -1 is not from 0 to", {"seed": -1}),
            (stowage.InvalidArgument, "is not from 0 to 18446744073709551615",
             {"seed": 1 << 64}),
            (TypeError, "[threads] None is no whole number", {"threads": None}),
            (stowage.InvalidArgument, "[threads] -1 is not from 0 to", {"threads": -1}),
            (TypeError, "[batch] '8' is no whole number", {"batch": "8"}),
            (stowage.InvalidArgument, "[batch] -8 is not from 0 to", {"batch": -8}),
            (TypeError, "[lr] 'fast' is no number", {"lr": "fast"}),
            (TypeError, "[clip_norm] [1] is no number", {"clip_norm": [1]}),
        ]:
            self.raises(kind, words, support.trainer, **options)
        self.assertEqual(support.trainer(seed=np.int64(3)).read("w")[0, 0],
                         support.trainer(seed=3).read("w")[0, 0])

    def test_models_print_themselves(self):
        model = stowage.model(support.softmax_net, batch=4)
        self.assertEqual(repr(model), '<stowage.Model "softmax_net", batch 4>')
        self.assertEqual(str(model).splitlines(), [
            f"softmax_net, batch 4: 2 params of {support.FEATURES * support.CLASSES + support.CLASSES}"
            " elements",
            f"  input x f32(4, {support.FEATURES})", "  input y i32(4)",
            f"  param w f32({support.FEATURES}, {support.CLASSES})",
            f"  param b f32({support.CLASSES})"])

        def wrong(builder, batch):
            raise ZeroDivisionError("of the user's")

        with self.assertRaises(stowage.InvalidArgument) as caught:
            str(stowage.model(wrong))
        self.assertIsInstance(caught.exception.__cause__, ZeroDivisionError)
        self.assertIn('"wrong"', repr(stowage.model(wrong)))

    def test_devices_and_models_that_there_are_not(self):
        self.raises(stowage.InvalidArgument, 'no device "tpu"', support.trainer, device="tpu")
        self.raises(stowage.NotFound, '"gpt-pico"', stowage.Trainer, "gpt-pico")
        self.raises(stowage.Unsupported, "dtype f64", stowage.Trainer, "mlp", dtype="f64")

    def test_an_optimizer_of_the_models_formula_has_its_learning_rate(self):
        for name, expected in [("adamw", 2e-3), ("adamw8bit", 2e-3), ("sgd", 0.1)]:
            with stowage.Trainer("mlp", batch=4, optimizer=name, device="cpu",
                                 threads=1) as trainer:
                self.assertEqual(trainer.lr, expected)

    def test_settings_as_torch_calls_them(self):
        def after(**given):
            with support.trainer(**given) as trainer:
                for seed in range(3):
                    trainer.step(*support.batch(seed))
                return trainer.lr, trainer.read("w")

        ours = after(optimizer={"name": "nesterov", "momentum": 0.5, "decay": 0.2})
        rate, theirs = after(optimizer={"name": "SGD", "nesterov": True, "lr": 0.1}, lr=None,
                             momentum=0.5, weight_decay=0.2)
        self.assertEqual(rate, 0.1)
        np.testing.assert_array_equal(ours[1], theirs)
        ours = after(optimizer={"name": "adam", "beta1": 0.5, "beta2": 0.7, "eps": 1e-3})
        theirs = after(optimizer={"name": "Adam", "betas": (0.5, 0.7), "eps": 1e-3})
        np.testing.assert_array_equal(ours[1], theirs[1])
        self.raises(stowage.InvalidArgument, "lr is given twice: 0.1, and by the optimizer, 0.2",
                    support.trainer, optimizer={"name": "SGD", "lr": 0.2})

    def test_an_evaluation_takes_inputs_that_have_no_examples(self):
        def net(g, batch):
            # Of 3 steps and a table that all examples share; as many as there are examples.
            x = g.input("x", "f32", (3, batch, 2))
            table = g.input("table", "f32", (4, 2))
            scale = g.input("scale", "f32", ())
            w = g.param("w", "f32", (2, 2), init="normal")
            y = ops.matmul(ops.reshape(ops.permute(x, order=[1, 0, 2]), shape=[3 * batch, 2]), w)
            rows = ops.matmul(y, ops.permute(table, order=[1, 0]))
            return ops.reshape(ops.mul(rows, scale), shape=[batch, 3, 4])

        def train(g, batch):
            g.output("loss", ops.reduce_mean(net(g, batch), axes=[0, 1, 2], keep=False))

        def evaluate(g, batch):
            g.output("y", net(g, batch))

        with stowage.Trainer(train, batch=4, evaluate=evaluate, optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            random = np.random.default_rng(0)
            table = random.standard_normal((4, 2)).astype(np.float32)
            for count in (4, 1, 10):
                x = random.standard_normal((3, count, 2)).astype(np.float32)
                y = trainer.evaluate(x, table, np.float32(2.0))["y"]
                right = np.einsum("tbi,ij,kj->btk", x, trainer.read("w"), table) * 2
                np.testing.assert_allclose(y, right, atol=1e-5)
            self.raises(stowage.InvalidArgument, "arrays of one number of examples, got [(4, 2)",
                        trainer.evaluate, table, table, np.float32(2.0))

    def test_a_file_that_fixes_its_batch_evaluates_any_number_of_examples(self):
        x = np.random.default_rng(0).standard_normal((9, 3, 16, 16)).astype(np.float32)
        with stowage.Trainer("tests/goldens/onnx/vit_dynamo.onnx", optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            self.assertEqual(trainer.plan.batch, 4)
            each = np.concatenate([trainer.evaluate(np.repeat(x[i:i + 1], 4, 0))["y"][:1]
                                   for i in range(9)])
            for count in (1, 4, 9):
                np.testing.assert_allclose(trainer.evaluate(x[:count])["y"], each[:count],
                                           rtol=1e-4, atol=1e-5)

    def test_a_file_of_one_example_evaluates_each_alone(self):
        def field(number, content):  # a field of a protobuf message
            if isinstance(content, int):
                return bytes([number << 3, content])
            content = content.encode() if isinstance(content, str) else content
            return bytes([number << 3 | 2, len(content)]) + content

        def tensor_type(name, *dims):
            shape = b"".join(field(1, field(1, dim)) for dim in dims)
            return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

        # y = softmax(x w) along the batch, which the file fixes at 1: 1 for each example.
        w = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
        axis = field(1, "axis") + field(3, 0) + bytes([20 << 3 & 0x7F | 0x80, 1, 2])
        graph = b"".join([
            field(1, field(1, "x") + field(1, "w") + field(2, "z") + field(4, "MatMul")),
            field(1, field(1, "z") + field(2, "y") + field(4, "Softmax") + field(5, axis)),
            field(2, "g"),
            field(5, field(1, 2) + field(1, 3) + field(2, 1) + field(8, "w")
                  + field(9, w.tobytes())),
            field(11, tensor_type("x", 1, 2)),
            field(12, tensor_type("y", 1, 3)), field(12, tensor_type("z", 1, 3))])
        model = field(1, 8) + bytes([7 << 3 | 2, len(graph) & 0x7F | 0x80, len(graph) >> 7]) \
            + graph + field(8, field(2, 17))
        x = np.random.default_rng(1).standard_normal((3, 2)).astype(np.float32)
        with stowage.Trainer(model, loss="mse:z", optimizer="sgd", device="cpu",
                             threads=1) as trainer:
            got = trainer.evaluate(x)
            np.testing.assert_allclose(got["z"], x @ w, rtol=1e-5)
            np.testing.assert_array_equal(got["y"], np.ones((3, 3)))

    def test_a_model_by_name_evaluates_its_loss(self):
        with stowage.Trainer("gpt-nano", batch=4, seq=32, device="cpu", threads=1,
                             seed=3) as trainer:
            tokens = np.arange(8 * 32, dtype=np.int32).reshape(8, 32) % 60
            halves = [trainer.evaluate(tokens[i:i + 4], tokens[i:i + 4])["loss"]
                      for i in (0, 4)]
            whole = trainer.evaluate(tokens, tokens)["loss"]
            self.assertAlmostEqual(float(whole), float(np.mean(halves)), places=6)
            self.assertAlmostEqual(float(halves[0]), trainer.step(tokens[:4], tokens[:4]),
                                   places=5)
            self.raises(stowage.InvalidArgument, "whole batches of 4", trainer.evaluate,
                        tokens[:6], tokens[:6])


if __name__ == "__main__":
    support.main()
