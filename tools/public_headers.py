#!/usr/bin/env python3
"""Copies a library's public headers into a folder, under a prefix.

    public_headers.py OUT PREFIX ROOTS HEADERS

HEADERS is a file with a line `name<TAB>path` for each header there is: the name by
which the repository includes it, and where it lies. Copied are the headers that
ROOTS names, one a line, and all that these include, directly or not. `ir/graph.h`
becomes OUT/PREFIX/ir/graph.h, and in it `#include "base/result.h"` becomes
`#include "PREFIX/base/check.h"`.
"""

import os
import re
import sys

INCLUDE = re.compile(r'^(\s*#\s*include\s*")([^"]+)"', re.MULTILINE)


def main():
    out, prefix, roots, headers = sys.argv[1:]
    with open(headers, encoding="utf-8") as lines:
        path_of = dict(line.rstrip("\n").split("\t") for line in lines)
    with open(roots, encoding="utf-8") as lines:
        waiting = [(root, "the rule's deps") for root in lines.read().split()]

    done = set()
    while waiting:
        name, reader = waiting.pop()
        if name in done:
            continue
        done.add(name)
        if name not in path_of:
            return (f'[public_headers] {reader}: includes "{name}", which no '
                    "dependency exports; add the target to its deps")
        with open(path_of[name], encoding="utf-8") as source:
            text = source.read()
        waiting += [(found, name) for _, found in INCLUDE.findall(text)]
        copy = os.path.join(out, prefix, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "w", encoding="utf-8") as target:
            target.write(INCLUDE.sub(rf'\1{prefix}/\2"', text))
    return None


if __name__ == "__main__":
    sys.exit(main())
