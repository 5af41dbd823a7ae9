"""Counts the test cases of a `bazel test` run and prints "N passed, N failed".

    count_tests.py EVENTS STATUS
    count_tests.py --runs EVENTS STATUS   the runs of each test (--runs_per_test), not its
                                          cases

EVENTS is what --build_event_json_file wrote, STATUS bazel's exit status. Cases
come from the doctest summary in each test's log. A program also prints how many
cases it is about to run (tests/support/main.cc): those that a crash, a timeout or an
early exit left out count as failed, and all of them where there is no summary. A
target that did not build counts as one failure, a test that prints neither as one
case, and a build that broke without a failed test as one failure. What was built and
not asked to run, for its tags, counts for nothing. Exits 1 when something failed or
nothing ran.
"""

import json
import re
import sys
import urllib.parse

SUMMARY = re.compile(
    r"\[doctest\] test cases: *\d+ *\| *(\d+) passed *\| *(\d+) failed")
# --count of doctest 2.4.
ANNOUNCED = re.compile(
    r"\[doctest\] unskipped test cases passing the current filters: *(\d+)")


def read_events(path):
    with open(path, encoding="utf-8") as events:
        for line in events:
            if line.strip():
                yield json.loads(line)


def log_of(result):
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.log":
            uri = urllib.parse.urlparse(output.get("uri", ""))
            try:
                with open(urllib.parse.unquote(uri.path),
                          encoding="utf-8", errors="replace") as log:
                    return log.read()
            except OSError:
                return ""
    return ""


def cases_of(logs):
    """(passed, failed, announced but not run) over the logs of one target."""
    good = bad = announced = 0
    for log in logs:
        for passed, failed in SUMMARY.findall(log):
            good += int(passed)
            bad += int(failed)
        announced += sum(map(int, ANNOUNCED.findall(log)))
    return good, bad, max(announced - good - bad, 0)


def count(events):
    """(passed, failed, lines with failed targets) over all test targets."""
    tests = set()
    skipped = set()
    built = set()
    logs = {}
    statuses = {}
    for event in events:
        for kind, body in event.get("id", {}).items():
            label = body.get("label") if isinstance(body, dict) else None
            if kind == "targetConfigured":
                configured = event.get("configured", {})
                if configured.get("targetKind", "").endswith("_test rule"):
                    tests.add(label)
            elif kind == "targetCompleted":
                if event.get("aborted", {}).get("reason") == "SKIPPED":
                    skipped.add(label)  # not compatible with this machine
                if event.get("completed", {}).get("success"):
                    built.add(label)
            elif kind == "testResult":
                logs.setdefault(label, []).append(
                    log_of(event.get("testResult", {})))
            elif kind == "testSummary":
                statuses[label] = event.get("testSummary", {}).get(
                    "overallStatus", "NO_STATUS")
    passed = failed = 0
    failed_labels = []
    for label in sorted(tests - skipped - (built - statuses.keys())):
        status = statuses.get(label, "FAILED_TO_BUILD")
        good, bad, missing = cases_of(logs.get(label, []))
        passed += good
        if status in ("PASSED", "FLAKY") and missing == 0:
            passed += 0 if good or bad else 1
            continue
        failed += max(bad + missing, 1)
        left_out = f", {missing} cases were not run" if missing else ""
        failed_labels.append(f"{label} ({status}{left_out})")
    return passed, failed, failed_labels


def count_runs(events):
    """label -> [passed runs, other runs]; a target that did not run counts as one other."""
    runs = {}
    for event in events:
        for kind, body in event.get("id", {}).items():
            if kind == "testResult":
                status = event.get("testResult", {}).get("status")
                of = runs.setdefault(body["label"], [0, 0])
                of[0 if status == "PASSED" else 1] += 1
            elif kind == "targetCompleted":
                is_skipped = event.get("aborted", {}).get("reason") == "SKIPPED"
                if not is_skipped and not event.get("completed", {}).get("success"):
                    runs.setdefault(body["label"], [0, 1])
    return runs


def print_runs(events, status):
    runs = count_runs(events)
    for label, (passed, failed) in sorted(runs.items()):
        rate = 100 * failed / (passed + failed)
        print(f"{label}: {failed} of {passed + failed} failed, {rate:.1f} %")
    passed, failed = (sum(of[i] for of in runs.values()) for i in (0, 1))
    if status != 0 and failed == 0:
        failed = 1
        print(f"FAILED: bazel exited with status {status}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main():
    if sys.argv[1] == "--runs":
        return print_runs(read_events(sys.argv[2]), int(sys.argv[3]))
    status = int(sys.argv[2])
    passed, failed, labels = count(read_events(sys.argv[1]))
    if status != 0 and failed == 0:
        failed = 1
        labels = [f"bazel exited with status {status}"]
    for label in labels:
        print(f"FAILED: {label}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
