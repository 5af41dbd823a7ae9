"""Jobs that arrive, end and are killed at random on a device that they share.

    python3 tests/fuzz/admission.py STOWAGE N [SEED]

Each of N arrivals is `stowage run` of a shell that appends a line to a log when it starts and
another one before it ends. Jobs arrive alone or several at once; some do not wait, some are
killed before they start, some while they run. The verdict knows nothing of the ledger but
what a user sees, and works it out plainly:

- never over: by the log, the jobs that run at any moment fit the capacity together;
- none wrongly refused: a job that arrives alone is refused only if it does not fit or another
  one waits, and starts or waits otherwise; of those that arrive at once, one is refused only
  if all that may have been there leave too few bytes;
- first come, first served: whenever nothing changes, the first that waits does not fit;
- nobody waits for ever: in the end all that waited have started;
- the list is right: `stowage ledger --json` names the jobs that run and those that wait.

The last line counts arrivals, "N passed, N failed"; a failure is printed with its seed.
"""

import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CAPACITY = 1000
SECONDS = 60  # in which something that must happen has happened
# Starts and ends are one write each to a file that is appended to: their order is the true one.
SCRIPT = 'echo "start $0" >> "$1"; read word; echo "end $0" >> "$1"'


class Job:
    def __init__(self, name, size, waits):
        self.name, self.size, self.waits = name, size, waits
        self.process, self.order = None, 0


class Device:
    def __init__(self, stowage, seed):
        self.stowage, self.draw = os.path.abspath(stowage), random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.ledger, self.log = self.folder / "jobs.ledger", self.folder / "log"
        self.log.touch()
        self.ledger.touch()  # a ledger without jobs
        self.reader = open(self.log, encoding="utf-8")  # pylint: disable=R1732
        self.jobs, self.running, self.waiting = {}, {}, []
        self.used, self.faults, self.arrivals, self.order = 0, [], 0, 0
        self.counts = collections.Counter()

    def fault(self, text):
        self.faults.append(text)
        print(f"FAILED after {self.arrivals} arrivals: {text}", flush=True)

    def start(self, job):
        self.arrivals += 1
        self.order += 1
        job.order = self.order
        self.jobs[job.name] = job
        job.process = subprocess.Popen(
            [self.stowage, "run", "--ledger", self.ledger, "--device", "0", "--capacity",
             str(CAPACITY), "--bytes", str(job.size), "--name", job.name,
             *([] if job.waits else ["--wait", "none"]),
             "--", "/bin/sh", "-c", SCRIPT, job.name, self.log],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def new_job(self):
        size = self.draw.choice([self.draw.randint(1, 150), self.draw.randint(1, 600),
                                 self.draw.randint(900, 1000)])
        return Job(f"j{self.arrivals}", size, self.draw.random() < 0.6)

    # Brings the running jobs up to date with the log. A job that is killed ends, at the latest, where its kill was sent.
    def read_log(self):
        for line in self.reader.read().splitlines():
            word, name = line.split()
            if word == "start":
                job = self.jobs[name]
                self.running[name] = job
                self.used += job.size
                if job in self.waiting:
                    self.waiting.remove(job)
                if self.used > CAPACITY:
                    self.fault(f"{self.used} of {CAPACITY} bytes are held by "
                               f"{sorted(self.running)}")
            else:
                self.leave(self.jobs[name])

    def leave(self, job):
        if self.running.pop(job.name, None):
            self.used -= job.size

    def end(self, job, killed):
        """Ends a job, whatever it does, and waits until its process is gone."""
        self.read_log()
        if killed:
            self.leave(job)
            # Lines that it writes on the way count no more.
            job.size = 0
            job.process.send_signal(signal.SIGKILL)
        else:
            job.process.stdin.close()
        job.process.wait()
        self.read_log()
        self.leave(job)
        if job in self.waiting:
            self.waiting.remove(job)
        job.process.stderr.close()
        job.process.stdin.close()
        self.counts["killed" if killed else "ended"] += 1
        del self.jobs[job.name]

    def until(self, condition, what):
        end = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > end:
                self.fault(f"after {SECONDS} s {what}")
                return False
            time.sleep(0.001)
            self.read_log()
        return True

    def refused(self, job):
        """True where its process has ended without a start; takes it away then."""
        if job.process.poll() is None or job.name in self.running:
            return False
        self.read_log()
        if job.name in self.running:
            return False
        error = job.process.stderr.read().decode(errors="replace")
        if job.process.returncode != 3 or "free of" not in error:
            self.fault(f"{job.name} ends by {job.process.returncode}: {error}")
        job.process.stderr.close()
        job.process.stdin.close()
        del self.jobs[job.name]
        self.counts["refused"] += 1
        return True

    # The jobs that the list has, by state.
    def listed(self):
        done = subprocess.run([self.stowage, "ledger", self.ledger, "--json"], check=False,
                              capture_output=True)
        if done.returncode != 0:
            self.fault(f"the list ends by {done.returncode}: {done.stderr.decode()}")
            return set(), []
        jobs = [job for resource in json.loads(done.stdout)["resources"]
                for job in resource["jobs"]]
        return ({job["name"] for job in jobs if job["state"] == "held"},
                [job["name"] for job in jobs if job["state"] == "waiting"])

    def settle(self):
        """Waits until nothing changes any more: the first that waits does not fit."""
        def is_settled():
            return not self.waiting or self.waiting[0].size > CAPACITY - self.used
        self.until(is_settled, f"{[job.name for job in self.waiting]} still wait, and the first "
                   f"needs {self.waiting and self.waiting[0].size} of {CAPACITY - self.used} free")

    def arrive_alone(self):
        job = self.new_job()
        fits = not self.waiting and job.size <= CAPACITY - self.used
        self.start(job)
        if fits:
            self.until(lambda: job.name in self.running or job.process.poll() is not None,
                       f"{job.name} has not started")
            self.read_log()
            if job.name not in self.running:
                self.fault(f"{job.name} of {job.size} is refused, {CAPACITY - self.used} are free")
                self.refused(job)
            else:
                self.counts["started at once"] += 1
        elif job.waits:
            self.until(lambda: job.name in self.listed()[1], f"{job.name} is not in the list")
            self.waiting.append(job)
            self.counts["waited"] += 1
        else:
            self.until(lambda: job.process.poll() is not None, f"{job.name} is not refused")
            if not self.refused(job):
                self.fault(f"{job.name} of {job.size} starts, {CAPACITY - self.used} are free")

    def arrive_at_once(self):
        """Several arrive, and some are killed at once: before, while or after they reserve."""
        there = self.used + sum(job.size for job in self.waiting)
        someone_waited = bool(self.waiting)
        jobs = [self.new_job() for _ in range(self.draw.randint(2, 5))]
        for i, job in enumerate(jobs):
            job.name += f"_{i}"
            self.start(job)
        most = there + sum(job.size for job in jobs)
        killed = [job for job in jobs if self.draw.random() < 0.3]
        for job in killed:
            time.sleep(self.draw.random() * 0.02)
            self.end(job, True)
        left = [job for job in jobs if job not in killed]
        # Each of them has started, waits or is refused.
        state = {}

        def is_decided():
            waiting = self.listed()[1]
            for job in left:
                if job.name in state and state[job.name] != "waits":
                    continue
                if job.name in self.running:
                    state[job.name] = "runs"
                elif job.name in waiting:
                    state[job.name] = "waits"
                elif self.refused(job):
                    state[job.name] = "refused"
            return len(state) == len(left)

        self.until(is_decided, f"only {state} of {[job.name for job in left]} are decided")
        for job in left:
            if state.get(job.name) == "refused":
                if not someone_waited and most <= CAPACITY:
                    self.fault(f"{job.name} of {job.size} is refused, {most} of {CAPACITY} were "
                               "asked for in all")
                if job.waits:
                    self.fault(f"{job.name} would wait and is refused")
        # In the order that the list has them: only it knows who came first.
        order = self.listed()[1]
        came = [job for job in left if job.name in self.jobs and job.name not in self.running]
        came.sort(key=lambda job: order.index(job.name) if job.name in order else -1)
        self.waiting += [job for job in came if job not in self.waiting
                         and job.name not in self.running]
        self.read_log()
        self.waiting = [job for job in self.waiting if job.name not in self.running]
        self.counts["several at once"] += len(jobs)

    def check_list(self):
        held, waiting = self.listed()
        if held != set(self.running) or waiting != [job.name for job in self.waiting]:
            self.fault(f"the list has {sorted(held)} and {waiting}, and there are "
                       f"{sorted(self.running)} and {[job.name for job in self.waiting]}")

    def turn(self):
        deed = self.draw.random()
        there = list(self.running.values()) + self.waiting
        if deed < 0.35:
            self.arrive_alone()
        elif deed < 0.5:
            self.arrive_at_once()
        elif there:
            job = self.draw.choice(there)
            self.end(job, job in self.waiting or self.draw.random() < 0.5)
        if len(self.waiting) > 6:
            self.end(self.draw.choice(list(self.running.values()) or self.waiting), True)
        self.settle()
        self.check_list()

    def empty(self):
        """All that wait start, one after the other, as those before them end."""
        while self.running or self.waiting:
            if not self.running:
                self.fault(f"{[job.name for job in self.waiting]} wait, and nobody runs")
                for job in list(self.waiting):
                    self.end(job, True)
                break
            self.end(next(iter(self.running.values())), False)
            self.settle()
        self.check_list()


def main():
    stowage, count = sys.argv[1], int(sys.argv[2])
    seed = sys.argv[3] if len(sys.argv) > 3 else "1"
    device = Device(stowage, seed)
    try:
        while device.arrivals < count and len(device.faults) < 10:
            device.turn()
        device.empty()
    finally:
        for job in device.jobs.values():
            job.process.kill()
        shutil.rmtree(device.folder)
    print(f"seed {seed}:", ", ".join(f"{times} {what}"
                                     for what, times in sorted(device.counts.items())))
    failed = len(device.faults)
    print(f"{device.arrivals - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
