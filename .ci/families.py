"""Checks that a family of ops has one name in every room.

A source of ir/ops that defines ops is a family, and its name is the family's:
ir/ops/embedding.cc, cpu/kernels/embedding.cc. What a room has of an op is in the
file of that op's family, or in one whose name goes on from there
(attention_simt.cu.cc). Sources with a header of their own are what several
families are made of; they define no ops.
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
    families = sorted(set(family_of.values()), key=len, reverse=True)
    for folder, pattern in FOLDERS.items():
        missing = set(ops)
        for path, name in sources(folder).items():
            family = next((f for f in families
                           if name == f or name.startswith(f + "_")), None)
            if family is None and not pathlib.Path(folder, name + ".h").exists():
                yield (f"{path}: is of no family of ops; begin its name with one "
                       f"of ir/ops/, or give it a header")
            for op in defined(path, pattern, ops):
                missing.discard(op)
                if family_of.get(op, family) != family:
                    yield (f"{path}: defines {op}, which is of the family "
                           f"{family_of[op]}")
        for op in sorted(missing):
            yield f"{folder}: {op} is not found; define it in a line of its own"


def main():
    found = list(complaints())
    print("\n".join(found) if found else "families: one name each")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
