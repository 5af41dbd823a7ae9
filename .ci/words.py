"""Refuses words of this project's own where the field has a standard term.

    .ci/words.py         prints each use of a retired word with the term to use instead

Names of files, identifiers and their parts count ("RemadeNodes", "kMostRows"), as do
comments, messages and documentation. What is history does not: docs/archive/.
"""

import re
import subprocess
import sys

# What names and sentences are made of, in lower case: the term instead.
RETIRED = {
    "lever": "memory optimization",
    "levers": "memory optimizations",
    "remade": "recomputed",
    "remake": "recompute",
    "remakes": "recomputes",
    "rehearsal": "simulation",
    "rehearse": "simulate",
    "rehearsed": "simulated",
    "foretell": "predict",
    "foretells": "predicts",
    "foretold": "predicted",
    "stash": "offload",
    "stashes": "offloads",
    "stashed": "offloaded",
    "trip": "iteration (a \"trip count\" is one)",
    "trips": "iterations",
    "picture": "image",
    "pictures": "images",
    "chooser": "autotuner",
    "bargain": "Pareto point",
    "bargains": "Pareto points",
    "facade": "umbrella header",
    "dear": "expensive",
    "dearer": "more expensive",
    "dearest": "most expensive",
}
# Prefixes of constants.
PREFIXES = {"kMost": "kMax", "kLeast": "kMin", "kFewest": "kMin"}

HISTORY = re.compile(r"^(docs/archive/|tests/goldens/|tests/fuzz/corpus/|examples/data/"
                     r"|\.ci/words\.py$"
                     r"|python/stowage/_former_names\.py$|tests/python/former_names_test\.py$"
                     r"|tests/ir/text_test\.cc$|CHANGELOG\.md$)")
# Former names of flags, which work for one release; what a test gives that is no choice.
ALLOWED = re.compile(r"--remake|\"stash(_update)?\"|\"trips\"|\"dear\"|round[ -]trips?"
                     r"|[tT]rip[ _]?[cC]ount\b")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def uses_in(text):
    """The retired words of `text`: [(word, term)]."""
    found = []
    for identifier in IDENTIFIER.findall(text):
        for prefix, term in PREFIXES.items():
            if re.match(rf"{prefix}([A-Z0-9]|$)", identifier):
                found.append((identifier, term))
        for part in PART.findall(identifier):
            if part.lower() in RETIRED:
                found.append((identifier, RETIRED[part.lower()]))
    return found


def main():
    files = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True,
                           text=True).stdout.split("\0")
    wrong = 0
    for name in filter(None, files):
        if HISTORY.match(name):
            continue
        try:
            with open(name, encoding="utf-8") as file:
                lines = file.read().split("\n")
        except (OSError, UnicodeDecodeError):
            lines = []  # removed, or no text
        for number, line in [(0, name), *enumerate(lines, 1)]:
            for word, term in uses_in(ALLOWED.sub("", line)):
                wrong += 1
                where = f"{name}:{number}" if number else f"the name of {name}"
                print(f"{where}: \"{word}\"; use {term}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
