"""Runs that offload to a disk that fails, fills up or is cut short, and runs that are killed.

    python3 tests/fuzz/disk_faults.py STOWAGE N [SEED]

A library that is loaded first stands between the command and the file of offloaded values:
at a drawn call it reads or writes a part only, ends with EIO or ENOSPC, or changes a byte on
its way back. Other runs are killed (SIGKILL) at a drawn moment. A run may

- end as an undisturbed one, with its losses, digit for digit: parts are read on, and a
  resumed run goes on where its checkpoint was saved;
- or end with an error that says what failed, and leave the last checkpoint, which resumes
  to the undisturbed losses.

Anything else is a failure: other losses, no message, a checkpoint that does not load, a file
left in the folder. The last line counts runs, "N passed, N failed".
"""

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

STEPS = 8
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether it is the file without a name in the folder of offloaded values. */
static int is_it(int fd) {
  char path[64], target[4096];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(path, target, sizeof(target) - 1);
  if (n < 0) return 0;
  target[n] = 0;
  const char* folder = getenv("FAULT_DIR");
  return strncmp(target, folder, strlen(folder)) == 0 && strstr(target, "(deleted)");
}

static int is_now(const char* what, long* calls) {
  const char* fault = getenv("FAULT");
  if (strcmp(fault, what) != 0) return 0;
  return ++*calls == atol(getenv("FAULT_AT"));
}

typedef ssize_t (*io)(int, void*, size_t, off_t);

static ssize_t read_it(int fd, void* to, size_t n, off_t at) {
  static io real;
  static long shorts, errors, flips;
  if (!real) real = (io)dlsym(RTLD_NEXT, "pread");
  if (!is_it(fd)) return real(fd, to, n, at);
  if (is_now("short-read", &shorts) && n > 1) n = n / 2;
  if (is_now("read-eio", &errors)) { errno = EIO; return -1; }
  const ssize_t done = real(fd, to, n, at);
  if (is_now("flip", &flips) && done > 0) ((char*)to)[done / 2] ^= 4;
  return done;
}
static ssize_t write_it(int fd, const void* from, size_t n, off_t at) {
  static io real;
  static long shorts, errors, full;
  if (!real) real = (io)dlsym(RTLD_NEXT, "pwrite");
  if (!is_it(fd)) return real(fd, (void*)from, n, at);
  if (is_now("short-write", &shorts) && n > 1) n = n / 2;
  if (is_now("write-eio", &errors)) { errno = EIO; return -1; }
  if (is_now("write-enospc", &full)) { errno = ENOSPC; return -1; }
  return real(fd, (void*)from, n, at);
}
ssize_t pread(int fd, void* to, size_t n, off_t at) { return read_it(fd, to, n, at); }
ssize_t pread64(int fd, void* to, size_t n, off_t at) { return read_it(fd, to, n, at); }
ssize_t __pread_chk(int fd, void* to, size_t n, off_t at, size_t room) {
  (void)room;
  return read_it(fd, to, n, at);
}
ssize_t __pread64_chk(int fd, void* to, size_t n, off_t at, size_t room) {
  (void)room;
  return read_it(fd, to, n, at);
}
ssize_t pwrite(int fd, const void* from, size_t n, off_t at) { return write_it(fd, from, n, at); }
ssize_t pwrite64(int fd, const void* from, size_t n, off_t at) { return write_it(fd, from, n, at); }
int posix_fallocate(int fd, off_t at, off_t n) {
  static long calls;
  static int (*real)(int, off_t, off_t);
  if (!real) real = (int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate");
  if (is_now("full", &calls)) return ENOSPC;
  return real(fd, at, n);
}
int posix_fallocate64(int fd, off_t at, off_t n) { return posix_fallocate(fd, at, n); }
"""
# Faults that a run goes on after, and those that end it.
PARTS = ["short-read", "short-write"]
ENDS = ["read-eio", "write-eio", "write-enospc", "flip", "full"]


class Runs:
    def __init__(self, stowage, seed):
        self.stowage, self.draw = os.path.abspath(stowage), random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        (self.folder / "text.txt").write_text(
            "".join(f"{i * i % 97} apples and {i % 13} pears; " for i in range(600)),
            encoding="utf-8")
        source = self.folder / "shim.c"
        source.write_text(SHIM, encoding="utf-8")
        self.shim = self.folder / "shim.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", self.shim, source, "-ldl"],
                       check=True)
        self.losses = self.losses_of(self.run([]).stdout)
        assert len(self.losses) == STEPS, self.losses

    def command(self, more):
        return [self.stowage, "train", "--model", "gpt-nano", "--data",
                str(self.folder / "text.txt"), "--batch", "4", "--seq", "32", "--budget", "2.6MB",
                "--fit", "auto", "--offload", "disk", "--offload-dir", str(self.disk), "--steps",
                str(STEPS), "--sample", "0", "--threads", "2", "--device", "cpu", "--json",
                "--plan-cache", str(self.folder / "plans"), *more]

    def run(self, more, **env):
        return subprocess.run(self.command(more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=300, check=False, env={**os.environ, **env})

    @staticmethod
    def losses_of(text):
        rows = [json.loads(line) for line in text.decode().splitlines() if line.startswith("{")]
        return {row["step"]: row["loss"] for row in rows if "loss" in row}

    # Resumes `checkpoint`, if it was saved, to the end, and says what is wrong with that.
    def resume(self, checkpoint):
        if not checkpoint.exists():
            return ""
        run = self.run(["--resume", str(checkpoint)])
        losses = self.losses_of(run.stdout)
        if b"nothing is left to do" in run.stderr:
            return ""
        if run.returncode != 0 or (max(losses, default=STEPS)) != STEPS:
            return f"the checkpoint does not resume: {run.returncode} {run.stderr.decode()[-300:]}"
        wrong = [step for step, loss in losses.items() if loss != self.losses[step]]
        return f"resumed steps {wrong} have other losses" if wrong else ""

    def check(self, losses, checkpoint):
        wrong = [step for step, loss in losses.items() if loss != self.losses[step]]
        if wrong:
            return f"steps {wrong} have other losses"
        left = list(self.disk.iterdir())
        if left:
            return f"{left} is left in the folder"
        return self.resume(checkpoint)

    def fault(self):
        kind = self.draw.choice(PARTS + ENDS)
        at = self.draw.choice([1, self.draw.randint(1, 60), self.draw.randint(1, 3000)])
        if kind == "full":
            at = 1
        checkpoint = self.folder / f"run{self.draw.random()}.st"
        run = self.run(["--save", str(checkpoint), "--save-every", "2"], LD_PRELOAD=str(self.shim),
                       FAULT=kind, FAULT_AT=str(at), FAULT_DIR=str(self.disk))
        losses, said = self.losses_of(run.stdout), run.stderr.decode()
        what = f"{kind} at call {at}"
        if run.returncode == 0:
            wrong = "" if len(losses) == STEPS else f"it ended at step {len(losses)} with 0"
        elif kind in PARTS:
            wrong = f"it ended with {run.returncode}: {said[-300:]}"
        elif "[offload]" not in said or run.returncode < 0:
            wrong = f"it ended with {run.returncode} and does not say why: {said[-300:]}"
        else:
            wrong = ""
        return what, wrong or self.check(losses, checkpoint), run.returncode

    def kill(self):
        checkpoint = self.folder / f"run{self.draw.random()}.st"
        process = subprocess.Popen(
            self.command(["--save", str(checkpoint), "--save-every", "1"]),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        steps = self.draw.randint(1, STEPS)
        lines = []
        while len(lines) < steps:
            line = process.stdout.readline()
            if not line:
                break
            lines.append(line)
        time.sleep(self.draw.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        lines.append(process.stdout.read())
        process.wait()
        whole = b"".join(lines).rpartition(b"\n")[0]
        return f"killed after step {steps}", self.check(self.losses_of(whole), checkpoint), -9


def main():
    stowage, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    runs = Runs(stowage, seed)
    failed = ended = 0
    for number in range(count):
        what, wrong, code = runs.kill() if number % 4 == 3 else runs.fault()
        ended += code != 0
        if wrong:
            failed += 1
            print(f"FAILED run {number} of seed {seed}, {what}: {wrong}", flush=True)
    print(f"{ended} of {count} runs ended early")
    if failed == 0:
        shutil.rmtree(runs.folder)
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
