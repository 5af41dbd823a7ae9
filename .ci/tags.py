"""Checks that tests which may fail by chance are tagged "concurrent".

    .ci/tags.py          names the tests whose tag is missing, or has no reason
    .ci/tags.py --list   prints the tests that start such things, and by what

A test needs the tag where its sources, or those of a library of tests/ that it is linked
with, start threads, processes that run beside the test, sockets or signals, or look at a
clock. A tool that the test only waits for, by std::system, popen or subprocess.run, needs no
tag unless it has a time limit: a compiler, or a script that verifies a file. .ci/repeat runs the tests so tagged many
times, under load.
"""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

# What a source says that does it, by the file's ending.
CPP = {
    "threads": r"std::j?thread\b|std::async\b|\bThreadPool\b(?!\s+\w+\(1\))|\.threads = [2-9]\b|\bint threads :",
    "processes": r"\bv?fork\(|\bposix_spawnp?\(|\bexecv[pe]*\(",
    "sockets": r"\bsocket\(|\bsocketpair\(",
    "signals": r"\bkill\(|\braise\(|\bstd::signal\(|\bsigaction\(",
    "a clock": r"_clock::now\(|\bclock_gettime\(|\bsleep(_for|_until)?\(|\busleep\(",
}
SCRIPT = {
    "threads": r"\bthreading\b",
    "processes": r"\bPopen\b|\bmpirun\b|\bmultiprocessing\b|\bos\.fork\b"
                 r"|\bnbclient\b| &$",
    "sockets": r"\bsocket\b",
    "signals": r"\bkill\b|\bsignal\b",
    "a clock": r"\btime\.(time|monotonic|sleep|perf_counter)\b|\bsleep\b|\bSECONDS\b|\btimeout=",
}
TAG = "concurrent"


def query(expression):
    """The rules that Bazel finds: label -> (class, {attribute: list of text})."""
    out = subprocess.run(
        ["bazel", "query", "--output=xml", "--noimplicit_deps", expression],
        check=True, capture_output=True, text=True).stdout
    # ElementTree knows XML 1.0 alone.
    tree = ElementTree.fromstring(out.replace('version="1.1"', 'version="1.0"', 1))
    rules = {}
    for rule in tree.iter("rule"):
        lists = {each.get("name"): [item.get("value") for item in each]
                 for each in rule.iter("list")}
        rules[rule.get("name")] = (rule.get("class"), lists)
    return rules


def path_of(label):
    return label.removeprefix("//").replace(":", "/").removeprefix("/")


def reasons_in(label):
    """What a file of tests/ does: {"threads", ...}."""
    path = path_of(label)
    if not path.startswith("tests/") or not path.endswith((".cc", ".h", ".sh", ".py")):
        return set()
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return set()  # a file that is made
    if path.endswith((".cc", ".h")):
        text = re.sub(r"//.*", "", text)
        kinds = CPP
    else:
        text = re.sub(r"(?m)^\s*#.*", "", text)
        kinds = SCRIPT
    return {kind for kind, pattern in kinds.items()
            if re.search(pattern, text, re.MULTILINE)}


def main():
    rules = query("kind(rule, //tests/... except //tests/fuzz/...)")
    known = {}

    def reasons_of(label):
        if label in known:
            return known[label]
        known[label] = set()
        if label not in rules:
            known[label] = reasons_in(label)
            return known[label]
        _, lists = rules[label]
        files = [each for name in ("srcs", "hdrs", "data", "deps")
                 for each in lists.get(name, [])]
        known[label] = set().union(*map(reasons_of, files)) if files else set()
        return known[label]

    wrong = 0
    for label, (kind, lists) in sorted(rules.items()):
        if not kind.endswith("_test"):
            continue
        reasons = reasons_of(label)
        if "--list" in sys.argv:
            if reasons:
                print(f"{label}: {', '.join(sorted(reasons))}")
            continue
        is_tagged = TAG in lists.get("tags", [])
        if is_tagged == bool(reasons):
            continue
        wrong += 1
        if reasons:
            print(f'{label}: starts or looks at {", ".join(sorted(reasons))}, '
                  f'and lacks tags = ["{TAG}"]')
        else:
            print(f'{label}: is tagged "{TAG}", and nothing in it asks for that')
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
