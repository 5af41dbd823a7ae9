"""A name that is local to a source is local to its library.

Some sources of a library are compiled as one (unity_library.bzl): two functions, types
or constants of one name in their unnamed namespaces would be one name twice, or, where
they are overloads, be taken for each other. Names every such pair.
"""

import collections
import os
import re
import subprocess
import sys

LIBRARY = re.compile(r'unity_(?:library|binary)\(\s*name = "([^"]+)"')
NAMED = [re.compile(each) for each in (
    r"(?:constexpr|const|static|volatile|thread_local|inline|std::).*?\b(\w+)(?:\[\w*\])?(?: =|\{|;)",
    r"(?:struct|class|union|enum(?: class)?) (?:alignas\(\w+\) )?(\w+)",
    r"using (\w+) =",
    r"namespace (\w+) =",
    r"[A-Za-z_][\w:<>,&*. ]*?[ &*>](\w+)\(",
    r"[\w:]+<.*> (\w+)\(",
)]
# Not the start of what follows.
OTHERS = re.compile(r"(?:template|return|namespace|static_assert|extern|#|//|\}|public|private|"
                    r"STOWAGE_|using [\w:]+;|using namespace|requires|friend)")


def names(path):
    """(name, line, whether it is local) of what the source declares."""
    found = []
    local = False
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for i, line in enumerate(lines):
        if line == "namespace {":
            local = True
        elif line == "}  // namespace":
            local = False
        elif line and not line[0].isspace() and not OTHERS.match(line):
            for pattern in NAMED:
                match = pattern.match(line)
                if match and "::" + match.group(1) + "(" not in line:
                    found.append((match.group(1), i + 1, local, line))
                    break
    return found


def library_of(path, packages):
    """The innermost package with a library of several sources."""
    folder = os.path.dirname(path)
    while folder:
        if folder in packages:
            return folder
        folder = os.path.dirname(folder)
    return None


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    files = subprocess.run(["git", "ls-files", "*BUILD", "*.cc"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.split()
    packages = set()
    for build in files:
        if os.path.basename(build) == "BUILD" and os.path.exists(build):
            with open(build, encoding="utf-8") as file:
                if LIBRARY.search(file.read()):
                    packages.add(os.path.dirname(build))
    places = collections.defaultdict(list)
    for path in files:
        if not path.endswith(".cc") or not os.path.exists(path):
            continue
        library = library_of(path, packages)
        # Kernels are compiled alone.
        if library is None or "/kernels/" in path or path.endswith(".cu.cc"):
            continue
        for name, line, local, text in names(path):
            places[library, name].append((path, line, local, text))
    twice = 0
    for (library, name), where in sorted(places.items()):
        if len({path for path, _, _, _ in where}) == 1 or not any(w[2] for w in where):
            continue
        # The same short name for the same thing.
        if len({text for _, _, _, text in where}) == 1 and where[0][3].startswith(
                ("using ", "namespace ")):
            continue
        twice += 1
        print(f"{name} of {library}: " +
              ", ".join(f"{path}:{line}" for path, line, _, _ in where))
    if not twice:
        print("unity: names that are local to a source are local to its library")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
