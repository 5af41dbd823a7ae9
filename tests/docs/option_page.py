#!/usr/bin/env python3
"""Makes docs/reference/options.md from the help of the command.

    tests/docs/option_page.py STOWAGE > docs/reference/options.md
    tests/docs/option_page.py STOWAGE --check docs/reference/options.md
"""

import re
import subprocess
import sys

COMMANDS = ["plan", "compile", "time", "train", "finetune", "export-onnx", "pack", "check", "report",
            "lock", "lock write", "lock check", "run", "ledger",
            "tokens", "tokens encode", "tokens decode", "tokens count", "models"]
OPTION = re.compile(r"^  (?P<names>(?:-\w,)?--[a-z-]+(?:,--[a-z-]+)*|[a-z][a-z_]*) ?(?P<rest>.*)$")

HEAD = """# Options

This page lists all options of the command, with their subcommands and the options that they
exclude. `stowage SUBCOMMAND --help` prints the same:

    stowage plan --help

`tests/docs/option_page.py` makes this page from the help.
"""


def rows(stowage, command):
    """(group, names, type, help, excluded) of each option, as the help has them."""
    text = subprocess.run([stowage, *command.split(), "--help"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    group = None
    found = []
    for line in text.split("\n"):
        if line.startswith("Example:"):
            break
        if re.match(r"^[A-Za-z][a-z ]*:$", line):
            group = line[:-1]
        elif line.startswith("    ") and found and line.strip():
            found[-1][2] += " " + line.strip()
        elif match := OPTION.match(line):
            found.append([group, match["names"], match["rest"].strip()])
    for group, names, rest in found:
        parts = re.split(r"  +", rest, maxsplit=1)
        left, says = (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
        excluded = ""
        # "TEXT=f32 Excludes: --a --b" and, on the next line, what the option means.
        match = re.match(r"^(.*?) ?Excludes: ((?:--[a-z-]+ ?)+)(.*)$", rest)
        if match:
            left, excluded, says = match[1], match[2].strip(), match[3].strip()
        elif not re.match(r"^(TEXT|INT|FLOAT)", rest):
            left, says = "", rest
        elif len(parts) == 1:
            match = re.match(r"^(\S+(?: \.\.\.)?)\s*(.*)$", rest)
            left, says = match[1], match[2]
        yield group, names, left, says, excluded


def cell(text):
    return text.replace("|", "\\|")


def page(stowage):
    groups = {}
    for command in COMMANDS:
        for group, names, kind, says, excluded in rows(stowage, command):
            if names == "-h,--help":
                continue
            key = (names, kind, says, excluded)
            groups.setdefault(group, {}).setdefault(key, []).append(command)
    out = [HEAD]
    for group, options in groups.items():
        out.append(f"## {'General' if group == 'Options' else group.capitalize()}\n")
        out.append("| option | subcommands | meaning | excludes |")
        out.append("| --- | --- | --- | --- |")
        for (names, kind, says, excluded), commands in options.items():
            name = " ".join(each for each in (names, kind) if each)
            out.append(f"| `{cell(name)}` | {', '.join(commands)} | {cell(says)} | "
                       f"{' '.join(f'`{each}`' for each in excluded.split())} |")
        out.append("")
    return "\n".join(out)


def main():
    made = page(sys.argv[1])
    if sys.argv[2:3] != ["--check"]:
        sys.stdout.write(made)
        return 0
    with open(sys.argv[3], encoding="utf-8") as file:
        if file.read() == made:
            return 0
    print(f"{sys.argv[3]} differs from the help; run tests/docs/option_page.py again")
    return 1


if __name__ == "__main__":
    sys.exit(main())
