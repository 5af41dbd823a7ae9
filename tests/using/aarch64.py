"""Runs the command of a build for AArch64 by qemu, beside that of this x86-64 machine.

    python3 tests/using/aarch64.py NATIVE AARCH64

NATIVE and AARCH64 are `stowage` as the default build and --config=aarch64 have it. The last
line counts what passed and failed.
"""

import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/goldens"))
from make_processor_goldens import GOLDEN, losses

NATIVE = []
ARM = [str(ROOT / "tools/aarch64/emulated.sh")]
# Of a loss, which is about 5: what processors that round differently may differ by.
TOLERANCE = 1e-5


def run(command, *arguments):
    return subprocess.run([*command, *arguments], check=False, capture_output=True, text=True)


class AArch64Test(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(GOLDEN, encoding="ascii") as file:
            self.golden = {int(row["step"]): float(row["loss"]) for row in csv.DictReader(file)}

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def close(self, found, steps):
        self.assertEqual(sorted(found), list(steps))
        for step, loss in found.items():
            self.assertLess(abs(loss - self.golden[step]), TOLERANCE, f"step {step}")

    def test_it_runs_the_target_of_the_architecture(self):
        said = run(ARM, "--version")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("\nCPU kernels: armv8 (NEON)\n", said.stdout)

    def test_targets_of_the_other_architecture_are_refused(self):
        refused = run(ARM, "plan", "--model", "mlp", "--cpu-target", "v3")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("expected armv8 (v3 is for x86-64, this build for AArch64)", refused.stderr)
        refused = run(NATIVE, "plan", "--model", "mlp", "--cpu-target", "armv8")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("(armv8 is for AArch64, this build for x86-64)", refused.stderr)

    def test_losses_are_those_of_x86_64(self):
        self.close(losses(NATIVE), range(1, 21))
        self.close(losses(ARM), range(1, 21))

    def test_a_budget_changes_no_bit(self):
        self.assertEqual(losses(ARM, "--fit", "none"),
                         losses(ARM, "--fit", "recompute,offload,order", "--budget", "9MB"))

    def test_a_resumed_run_has_the_bits_of_one(self):
        whole = losses(ARM)
        saved = self.path("run.safetensors")
        first = losses(ARM, "--stop-at", "10", "--save", saved)
        rest = losses(ARM, "--resume", saved)
        self.assertEqual(first | rest, whole)

    def test_checkpoints_are_read_by_either(self):
        for writer, reader in [(NATIVE, ARM), (ARM, NATIVE)]:
            saved = self.path(f"by_{len(writer)}.safetensors")
            self.close(losses(writer, "--stop-at", "10", "--save", saved), range(1, 11))
            self.close(losses(reader, "--resume", saved), range(11, 21))

    def test_plans_are_read_by_either(self):
        for writer, reader in [(NATIVE, ARM), (ARM, NATIVE)]:
            plan = self.path(f"by_{len(writer)}.plan")
            made = run(writer, "plan", "--model", "gpt-nano", "--no-plan-cache", "-o", plan)
            self.assertEqual(made.returncode, 0, made.stderr)
            read = run(reader, "check", plan)
            self.assertEqual(read.returncode, 0, read.stderr)



def main():
    NATIVE.append(sys.argv[1])
    ARM.append(sys.argv[2])
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(AArch64Test)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
