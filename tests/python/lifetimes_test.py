"""What a process may do to trainers, in any order: sequences of creating, stepping,
interrupting, threading, forking, closing and letting go. None may crash, and what is refused
is refused in words. There are 200, and 1,000 by night and under the address sanitizer
(tests/python/sanitized.sh)."""

import gc
import os
import random
import signal
import sys
import threading
import time

import numpy as np

import stowage
import support

SEQUENCES = 1000 if os.environ.get("STOWAGE_ALL_INSTANCES") else 200


# GCC 12's address sanitizer does not make its allocator ready for a fork, as the C library
# does: where another thread was in it, the child waits for that thread, which it does not
# have. Such children are ended, and counted.
SANITIZED = bool(os.environ.get("STOWAGE_SANITIZED"))
stuck = []


def status_of(child):
    """What the child ended with; it is waited for."""
    deadline = time.monotonic() + 20
    while SANITIZED and time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended == child:
            return status
        time.sleep(0.005)
    if SANITIZED:
        os.kill(child, signal.SIGKILL)
        stuck.append(child)
    status = os.waitpid(child, 0)[1]
    return 0 if SANITIZED else status


class Interrupted(Exception):
    pass


awaits_signal = False  # a signal may come later, by a thread that was not awake


def interrupt(signum, frame):
    if awaits_signal:
        raise Interrupted


class Sequence:
    """A few trainers, what was had of them, and a seed by which the next thing is drawn."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.x, self.y = support.batch(seed)
        self.trainers = {}
        self.held = {}
        self.views_of = {}  # of each name held, the id of its trainer
        self.made = 0

    def some(self):
        if not self.trainers:
            self.create()
        return self.draw.choice(list(self.trainers.values()))

    def keep(self, what, of=None):
        self.made += 1
        self.held[self.made] = what
        self.views_of[self.made] = of

    def create(self):
        self.made += 1
        self.trainers[self.made] = support.trainer(
            threads=self.draw.choice([1, 2]), seed=self.made, plan_cache=False)

    def step(self):
        self.keep(self.some().step(self.x, self.y))

    def evaluate(self):
        self.keep(self.some().evaluate(self.x[:self.draw.randrange(1, 9)])["logits"])

    def copy(self):
        self.some().load_state_dict(self.some().state_dict())

    def view(self):
        trainer = self.some()
        self.keep(trainer.view(self.draw.choice(["w", "b"]))[1:], of=id(trainer))

    def ask(self):
        trainer = self.some()
        self.keep([trainer.plan, repr(trainer), trainer.report()])

    def in_a_cycle(self):
        cycle = [self.some(), self.some().plan]
        cycle.append(cycle)

    def refused(self):
        trainer = self.some()
        for x in (self.x[1:], self.x.astype(np.float64), None, np.asfortranarray(self.x)):
            try:
                trainer.step(x, self.y)
                raise AssertionError("an array that does not fit was taken")
            except stowage.Closed:
                assert trainer.closed
            except (stowage.InvalidArgument, TypeError):
                pass

    def interrupted(self):
        global awaits_signal
        trainer = self.some()
        try:
            awaits_signal = True
            signal.setitimer(signal.ITIMER_REAL, self.draw.uniform(1e-5, 1e-3))
            while True:
                trainer.step(self.x, self.y)
        except Interrupted:
            pass
        finally:
            try:
                awaits_signal = False
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:  # after all
                awaits_signal = False

    def threaded(self):
        """Two threads at two trainers, or at one; the main thread meanwhile forks, closes one
        of them, or lets it go."""
        pair = [self.some(), self.some()]
        failures, rounds = [], self.draw.randrange(1, 20)

        def run(trainer):
            try:
                for _ in range(rounds):
                    trainer.step(self.x, self.y)
                    trainer.read("w")
            except stowage.InvalidArgument as error:
                if "closed" not in str(error):
                    failures.append(error)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(each,)) for each in pair]
        for thread in threads:
            thread.start()
        meanwhile = self.draw.choice([self.close, self.drop, self.forked, self.step])
        try:
            meanwhile()
        finally:
            for thread in threads:
                thread.join()
        assert not failures, failures

    def forked(self):
        """A child that is refused the trainers, makes one of its own, and lets go of all."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                self.refused_in_a_child()
                if self.draw.random() < 0.3:
                    with support.trainer(threads=2, plan_cache=False) as own:
                        own.step(self.x, self.y)
                while self.trainers or self.held:
                    self.drop()
                gc.collect()
                code = 0
            except BaseException as error:
                sys.stderr.write(f"in the child: {error!r}\n")
            finally:
                os._exit(code)
        status = status_of(child)
        assert status == 0, f"the child ended with {status:#x}"

    def refused_in_a_child(self):
        for trainer in self.trainers.values():
            for call in (lambda t: t.step(self.x, self.y), lambda t: t.view("w"),
                         lambda t: t.state_dict(), lambda t: t.evaluate(self.x)):
                try:
                    call(trainer)
                    raise AssertionError("a forked trainer went on")
                except stowage.Forked as error:
                    assert f"its forked child {os.getpid()}" in str(error), error
                except stowage.Closed:
                    assert trainer.closed

    def drop(self):
        for of in self.draw.sample([self.trainers, self.held], 2):
            if of:
                name = self.draw.choice(list(of))
                del of[name]
                break
        if self.draw.random() < 0.2:
            gc.collect(self.draw.randrange(3))

    def close(self):
        trainer = self.some()
        viewed = [name for name, of in self.views_of.items()
                  if of == id(trainer) and name in self.held]
        try:
            trainer.close()
            assert trainer.closed
        except BufferError as error:
            assert "would outlive it" in str(error)
            assert viewed

    def end(self):
        while self.trainers or self.held:
            for name, what in list(self.held.items()):
                if isinstance(what, np.ndarray) and self.views_of[name] is not None:
                    what[...] = 1  # the arena is there, whatever became of its trainer
            self.drop()


WAYS = [Sequence.create, Sequence.step, Sequence.step, Sequence.evaluate, Sequence.copy,
        Sequence.view, Sequence.ask, Sequence.in_a_cycle, Sequence.refused,
        Sequence.interrupted, Sequence.threaded, Sequence.forked, Sequence.drop,
        Sequence.drop, Sequence.close]


class LifetimesTest(support.TestCase):
    def test_in_any_order(self):
        taken = {way.__name__: 0 for way in WAYS}
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for seed in range(SEQUENCES):
                sequence = Sequence(seed)
                path = []
                for _ in range(sequence.draw.randrange(1, 10)):
                    way = sequence.draw.choice(WAYS)
                    path.append(way.__name__)
                    taken[way.__name__] += 1
                    with self.subTest(seed=seed, path=path):
                        try:
                            way(sequence)
                        except stowage.Closed:
                            self.assertTrue(any(each.closed for each in
                                                sequence.trainers.values()))
                sequence.end()
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertGreater(min(taken.values()), SEQUENCES // 10, taken)
        self.assertLessEqual(len(stuck), SEQUENCES // 100, "children that the sanitizer stopped")


if __name__ == "__main__":
    support.main()
