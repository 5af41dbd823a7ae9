"""Checks the Markdown pages against the tree.

    .ci/docs.py    prints each broken link, missing file, foreign code and unknown option

Links lead to files and headings that exist, and files named in backticks exist. Each
paragraph of a C or C++ block, except lines with "...", is in a source that is compiled: an
example, tests/docs/snippets.cc or the library. A block of Python parses; tests run those of
the README, the Python tutorial and importing.md. A `stowage` command has options of its
subcommand in docs/reference/options.md, which a test compares with the help. Of pages in
docs/archive/, only links are checked.
"""

import ast
import os
import re
import subprocess
import sys
import textwrap

LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`([\w-]+\.(?:h|cu\.cc|cc|def|py|sh|bzl))`")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:h|cc|cu\.cc|def|py|sh|bzl|md|ml|v|txt|js))`")
# What separates the parts of a block that are looked for: elisions, empty lines, includes.
SEPARATOR = r"^.*\.\.\..*$|\n\n|^#include .*$|^using namespace stowage;$"
INDENTED = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)
# Paths of examples that show how to add something, and of other programs.
NOT_OURS = re.compile(r"planner/fit/sink/|sink\.cc|nn/models/logistic\.cc|deepspeed/|stage3\.py|math\.h"
                      r"|stowage/|<")


def anchors_of(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found = {}
    for title in re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {name if not n else f"{name}-{n}" for name, last in found.items()
            for n in range(last + 1)}


def squeezed(code):
    """C++ without white space and comment marks, which clang-format may move."""
    return re.sub(r"\s+|//", "", code)


def options():
    """The options of each subcommand: {"plan": {"--model", ...}}."""
    found = {}
    with open("docs/reference/options.md", encoding="utf-8") as page:
        for names, commands in re.findall(r"^\| `([^`]*)` \| ([^|]*) \|", page.read(), re.MULTILINE):
            for command in commands.split(","):
                found.setdefault(command.strip(), set()).update(re.findall(r"--[a-z0-9-]+", names))
    return found


def broken_links(page, text, texts):
    for link in LINK.findall(BLOCK.sub("", text)):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        if not os.path.exists(path):
            yield f"links to {link}, which does not exist"
        elif anchor and path in texts and anchor not in anchors_of(texts[path]):
            yield f"links to {link}; {path} has no such heading"


def foreign_code(text, sources):
    for language, code in BLOCK.findall(text):
        if language in ("c", "cpp"):
            for part in re.split(SEPARATOR, code, flags=re.MULTILINE):
                if part.strip() and squeezed(part) not in sources:
                    yield f"has code that no source has:\n{textwrap.indent(part.strip(), '    ')}"
        elif language == "python":
            try:
                ast.parse(code)
            except SyntaxError as error:
                yield f"has Python that does not parse: {error}"


def unknown_options(text, known):
    code = INDENTED.findall(text) + [code for name, code in BLOCK.findall(text) if name == "sh"]
    code = "\n".join(code).replace("\\\n", " ")
    for line in re.findall(r"stowage (?!\.)([a-z-]+ .*)", code):
        line = re.split(r" #|\||&&|;| -- ", line)[0]
        words = line.split()
        command = " ".join(words[:2]) if " ".join(words[:2]) in known else words[0]
        if command in known:
            for option in re.findall(r"(?<=\s)--[a-z][a-z0-9-]*", line):
                if option not in known[command] | {"--help", "--version"}:
                    yield f"has `stowage {command}` with {option}, which it does not know"


def main():
    files = subprocess.run(["git", "ls-files"], check=True, capture_output=True,
                           text=True).stdout.split("\n")
    texts, sources = {}, []
    names = {os.path.basename(name) for name in files}
    for name in files:
        if name.endswith((".md", ".c", ".cc", ".h", ".def")) and os.path.exists(name):
            with open(name, encoding="utf-8") as file:
                text = file.read()
            if name.endswith(".md"):
                texts[name] = text
            else:
                sources.append(squeezed(text))
    sources, known = "\n".join(sources), options()
    wrong = 0
    for page, text in texts.items():
        found = list(broken_links(page, text, texts))
        if not page.startswith("docs/archive/"):
            found += [f"names {path}, which does not exist" for path in PATH.findall(text)
                      if not NOT_OURS.match(path) and not os.path.exists(path)]
            found += [f"names {name}, and no file is called so" for name in NAME.findall(text)
                      if name not in names and not NOT_OURS.match(name)]
            found += foreign_code(text, sources)
            found += unknown_options(text, known)
        for each in found:
            print(f"{page} {each}")
        wrong += len(found)
    print(f"docs: {len(texts)} pages, {wrong} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
