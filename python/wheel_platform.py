"""The oldest Linux that a wheel's files run on, by the symbols that they require.

    platform_tag(needed_versions(files))     # "manylinux_2_35_x86_64"

A tag names a version of glibc, and promises that the wheel runs wherever there is one no
older (PEP 600). Not glibc's symbols alone tell that: each version of g++ gives its libraries
new ones, and a system of that glibc must have them, too.
"""

import re
import subprocess

# Of each version of glibc, what the libraries of g++ have at least on the systems that came
# with it: the manylinux policies (https://github.com/pypa/auditwheel).
POLICIES = [
    {"GLIBC": (2, 17), "GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 8)},
    {"GLIBC": (2, 24), "GLIBCXX": (3, 4, 22), "CXXABI": (1, 3, 10), "GCC": (4, 8)},
    {"GLIBC": (2, 27), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0)},
    {"GLIBC": (2, 31), "GLIBCXX": (3, 4, 28), "CXXABI": (1, 3, 12), "GCC": (7, 0)},
    {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0)},
    {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0)},
    {"GLIBC": (2, 39), "GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14, 0)},
]

REFERENCES = re.compile(r"^Version References:\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
VERSION = re.compile(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)*)$", re.MULTILINE)


def needed_versions(files):
    """The newest symbol version of each library that any of the files requires."""
    newest = {}
    for file in files:
        headers = subprocess.run(["objdump", "-p", file], check=True, capture_output=True,
                                 text=True).stdout
        references = REFERENCES.search(headers)
        for library, numbers in VERSION.findall(references.group(1) if references else ""):
            version = tuple(map(int, numbers.split(".")))
            newest[library] = max(version, newest.get(library, ()))
    return newest


def platform_tag(needed, machine="x86_64"):
    """The tag of a wheel whose files need these versions, for machines of `uname -m`'s name."""
    for policy in POLICIES:
        if all(version <= policy[library] for library, version in needed.items()
               if library != "GLIBC"):
            glibc = max(policy["GLIBC"], needed.get("GLIBC", (0, 0)))
            return f"manylinux_{glibc[0]}_{glibc[1]}_{machine}"
    raise ValueError(f"no system is known that has {needed}; the newest has {POLICIES[-1]}")
