"""Counts the test cases of a `bazel test` run and prints "N passed, N failed".

    count_tests.py EVENTS STATUS

EVENTS is what --build_event_json_file wrote, STATUS bazel's exit status. Cases
come from the doctest summary in each test's log. A target that did not build,
crashed or timed out counts as one failure, a test without a summary as one
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


def count(events):
    """(passed, failed, lines that name failed targets) over all test targets."""
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
        cases = [
            (int(p), int(f))
            for log in logs.get(label, [])
            for p, f in SUMMARY.findall(log)
        ]
        good = sum(p for p, _ in cases)
        bad = sum(f for _, f in cases)
        if status in ("PASSED", "FLAKY"):
            passed += good if cases else 1
        else:
            passed += good
            failed += max(bad, 1)
            failed_labels.append(f"{label} ({status})")
    return passed, failed, failed_labels


def main():
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
