"""Checks where ops are defined.

A source of ir/ops that defines ops is a family, and its name is the family's:
ir/ops/indexing.cc, autodiff/vjps/indexing.cc. Families without any gradient share one
file of autodiff/vjps. Kernels are many lines an op, and a family has several files there;
each has ops of one family alone.
"""

import pathlib
import re
import subprocess
import sys

# Folder -> what defines an op there.
FOLDERS = {
    "ir/ops": r"\bOpDef (\w+)\b",
    "autodiff/vjps": r"\bVjp (\w+)Vjp\b|^STOWAGE_\w+\((\w+)",
    "cpu/kernels": r"\bCpuKernel (\w+)\b",
    "gpu/kernels": r"\bGpuKernel (\w+)\b",
}

NO_GRADIENT = "autodiff/vjps/non_differentiable.cc"


def sources(folder):
    """The folder's C++ sources, by name without what follows the first dot."""
    paths = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard",
         f"{folder}/*.cc"],
        check=True, capture_output=True, text=True).stdout.split()
    return {path: path.split("/")[-1].split(".")[0] for path in paths
            if pathlib.Path(path).exists()}


def defined(path, pattern, ops):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    for match in re.finditer(pattern, text, re.MULTILINE):
        name = next(filter(None, match.groups()))
        if name in ops:
            yield name


def complaints():
    ops = set(re.findall(r"^STOWAGE_(?:\w+_)?OP\((\w+),",
                         pathlib.Path("ir/ops.def").read_text(encoding="utf-8"),
                         re.MULTILINE))
    family_of = {op: name for path, name in sources("ir/ops").items()
                 for op in defined(path, FOLDERS["ir/ops"], ops)}
    for folder, pattern in FOLDERS.items():
        missing = set(ops)
        for path, name in sources(folder).items():
            found = sorted(set(defined(path, pattern, ops)))
            missing.difference_update(found)
            families = sorted({family_of[op] for op in found if op in family_of})
            if path == NO_GRADIENT:
                continue
            if len(families) > 1:
                yield f"{path}: defines ops of {', '.join(families)}; expected one family"
            if folder == "autodiff/vjps" and families not in ([], [name]):
                yield f"{path}: defines ops of {families[0]}; expected them in {families[0]}.cc"
        for op in sorted(missing):
            yield f"{folder}: {op} is not found; define it in a line of its own"


def main():
    found = list(complaints())
    print("\n".join(found) if found else "families: one a file")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
