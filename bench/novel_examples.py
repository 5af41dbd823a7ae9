#!/usr/bin/env python3
"""Writes examples for `stowage finetune --data FILE.jsonl` from a novel.

    python3 bench/novel_examples.py > novel.jsonl
    python3 bench/novel_examples.py --form messages --count 200 > talk.jsonl

Each paragraph but a chapter's first is learnt once, and the one before it is read. What
has no letter, as a line of stars, and headings such as "Chapter 1" end a chapter, and what
stands before the first heading is left out. Lines of a paragraph become one. The
same text gives the same bytes.
"""

import argparse
import json
import pathlib
import re

NOVEL = pathlib.Path(__file__).resolve().parent.parent / "examples/data/pride_and_prejudice.txt"
HEADING = re.compile(r"Chapter \d+")


def chapters(text):
    """Lists of paragraphs."""
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text)]
    headings = [i for i, p in enumerate(paragraphs) if HEADING.fullmatch(p)]
    found = [[]]
    for paragraph in paragraphs[headings[0] if headings else 0:]:
        if HEADING.fullmatch(paragraph) or not any(map(str.isalpha, paragraph)):
            found.append([])
        else:
            found[-1].append(paragraph)
    return found


def example(first, second, form):
    if form == "messages":
        return {"messages": [{"role": "user", "content": first},
                             {"role": "assistant", "content": second}]}
    return {"prompt": first + "\n\n", "completion": second}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--text", type=pathlib.Path, default=NOVEL,
                        help="paragraphs with empty lines between them (default: Pride and Prejudice)")
    parser.add_argument("--form", choices=("completion", "messages"), default="completion")
    parser.add_argument("--count", type=int, help="at most so many, the first ones")
    options = parser.parse_args()
    pairs = [pair for chapter in chapters(options.text.read_text(encoding="utf-8"))
             for pair in zip(chapter, chapter[1:])]
    for first, second in pairs[:options.count]:
        print(json.dumps(example(first, second, options.form)))


if __name__ == "__main__":
    main()
