#!/usr/bin/env python3
"""How tools/count_tests.py counts what `bazel test` reports.

    count_tests_test.py TOOLS/COUNT_TESTS.PY
"""

import json
import subprocess
import sys
import tempfile
import unittest

COUNT_TESTS = sys.argv.pop()


def announced(cases):
    return f"[doctest] unskipped test cases passing the current filters: {cases}\n"


def summary(passed, failed):
    return (f"[doctest] test cases: {passed + failed} | {passed} passed | {failed} failed"
            " | 0 skipped\n")


class Run:
    """What a run of Bazel's has reported."""

    def __init__(self):
        self.events = []
        self.logs = []

    def add(self, label, status, *logs):
        """A test that was run once for each log, and its status: of the last, and of all."""
        self.events.append({"id": {"targetConfigured": {"label": label}},
                            "configured": {"targetKind": "cc_test rule"}})
        self.events.append({"id": {"targetCompleted": {"label": label}},
                            "completed": {"success": True}})
        for i, log in enumerate(logs):
            self.logs.append(log)
            self.events.append({
                "id": {"testResult": {"label": label, "run": i + 1}},
                "testResult": {
                    "status": status if i + 1 == len(logs) else "PASSED",
                    "testActionOutput": [
                        {"name": "test.log", "uri": f"file://FOLDER/{len(self.logs)}"}]}})
        self.events.append({"id": {"testSummary": {"label": label}},
                            "testSummary": {"overallStatus": status}})
        return self

    def count(self, status, *, runs=False):
        """(the exit status, the lines that are printed)."""
        with tempfile.TemporaryDirectory() as folder:
            for i, log in enumerate(self.logs):
                with open(f"{folder}/{i + 1}", "w", encoding="utf-8") as file:
                    file.write(log)
            path = f"{folder}/events"
            with open(path, "w", encoding="utf-8") as file:
                for event in self.events:
                    file.write(json.dumps(event).replace("FOLDER", folder) + "\n")
            arguments = [*(["--runs"] if runs else []), path, str(status)]
            done = subprocess.run([sys.executable, COUNT_TESTS, *arguments],
                                  stdout=subprocess.PIPE, text=True, check=False)
        return done.returncode, done.stdout.splitlines()


class CountTests(unittest.TestCase):
    def test_cases_are_summed_and_a_test_without_any_is_one(self):
        run = Run().add("//a", "PASSED", announced(3) + summary(3, 0))
        run.add("//script", "PASSED", "done\n")
        self.assertEqual(run.count(0), (0, ["4 passed, 0 failed"]))

    def test_a_crash_counts_the_cases_that_were_not_run(self):
        run = Run().add("//a", "FAILED", announced(131) + summary(0, 1))
        run.add("//b", "PASSED", announced(2) + summary(2, 0))
        self.assertEqual(run.count(3), (1, [
            "FAILED: //a (FAILED, 130 cases were not run)", "2 passed, 131 failed"]))

    def test_without_a_summary_no_case_has_passed(self):
        run = Run().add("//a", "TIMEOUT", announced(7))
        self.assertEqual(run.count(3), (1, [
            "FAILED: //a (TIMEOUT, 7 cases were not run)", "0 passed, 7 failed"]))

    def test_a_program_that_ends_early_has_not_passed(self):
        run = Run().add("//a", "PASSED", announced(5))
        self.assertEqual(run.count(0), (1, [
            "FAILED: //a (PASSED, 5 cases were not run)", "0 passed, 5 failed"]))

    def test_cases_that_failed_are_not_counted_twice(self):
        run = Run().add("//a", "FAILED", announced(5) + summary(3, 2))
        self.assertEqual(run.count(3), (1, ["FAILED: //a (FAILED)", "3 passed, 2 failed"]))

    def test_a_build_that_broke_is_a_failure(self):
        run = Run().add("//a", "PASSED", announced(5) + summary(5, 0))
        self.assertEqual(run.count(1), (1, [
            "FAILED: bazel exited with status 1", "5 passed, 1 failed"]))

    def test_runs_are_counted_by_test(self):
        log = announced(5) + summary(5, 0)
        run = Run().add("//a", "PASSED", log, log).add("//b", "FAILED", log, log, log, log)
        self.assertEqual(run.count(3, runs=True), (1, [
            "//a: 0 of 2 failed, 0.0 %", "//b: 1 of 4 failed, 25.0 %",
            "5 passed, 1 failed"]))

    def test_of_runs_a_test_that_was_not_built_is_a_failure(self):
        run = Run()
        run.events.append({"id": {"targetCompleted": {"label": "//a"}},
                           "completed": {"success": False}})
        self.assertEqual(run.count(1, runs=True), (1, [
            "//a: 1 of 1 failed, 100.0 %", "0 passed, 1 failed"]))

    def test_of_runs_a_test_that_could_not_be_analysed_is_a_failure(self):
        run = Run().add("//a", "PASSED", announced(5) + summary(5, 0))
        run.events.append({"id": {"targetCompleted": {"label": "//b"}},
                           "aborted": {"reason": "ANALYSIS_FAILURE"}})
        run.events.append({"id": {"targetCompleted": {"label": "//c"}},
                           "aborted": {"reason": "SKIPPED"}})
        self.assertEqual(run.count(1, runs=True), (1, [
            "//a: 0 of 1 failed, 0.0 %", "//b: 1 of 1 failed, 100.0 %",
            "1 passed, 1 failed"]))

    def test_runs_of_a_bazel_that_failed_are_a_failure(self):
        run = Run().add("//a", "PASSED", announced(5) + summary(5, 0))
        self.assertEqual(run.count(1, runs=True), (1, [
            "//a: 0 of 1 failed, 0.0 %", "FAILED: bazel exited with status 1",
            "1 passed, 1 failed"]))


if __name__ == "__main__":
    unittest.main()
