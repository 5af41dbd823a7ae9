"""Writes stowage/ops.py, a function for each op of ir/ops.def.

    make_ops.py ir/ops.def > stowage/ops.py

An op's signature is the comment on its line, "a, b -> y {transpose_a}"; ops of one or two
operands that say no more are listed by macros of their own. Ops of backward graphs and of
optimizers, which Stowage makes itself, are left out, and so are loops and branches, whose
bodies are graphs and no attributes.
"""

import re
import sys

LINE = re.compile(r'^STOWAGE_(UNARY_|BINARY_|UNARY_GRAD_)?OP\((\w+), "(\w+)"\)\s*(?://\s*(.*))?$')
SIGNATURE = re.compile(r"^(.*?)\s*->\s*(.*?)(?:\s*\((.*)\))?\s*(?:\{(.*)\})?$")
HAS_BODIES = {"loop", "cond"}
MADE_BY_STOWAGE = re.compile(
    r"_(grad|grad_add|update)$|^(assign|stand_in|fetch|stash|constant|fused_\w+|"
    r"all_reduce|reduce_scatter|all_gather|own_block)$")

# What the attributes of every op so called are, for Python's signatures.
LISTS = {"shape", "order", "sizes", "axes", "stride", "padding", "dilation", "size",
         "kernel", "pad_before", "pad_after", "before", "after"}
LISTS_BUT = {("local_response_norm", "size")}
REALS = {"value", "slope", "alpha", "scale", "min", "max", "p", "eps", "beta", "bias",
         "base"}
FLAGS = {"exclusive", "reverse", "keep", "transpose_a", "transpose_b", "descending",
         "causal", "interleaved", "inverse", "ceil_mode", "count_include_pad",
         "align_corners"}

HEAD = '''"""The ops of graphs that are built in Python, a function each.

Made from ir/ops.def by python/make_ops.py. Operands are values of one GraphBuilder, and
so are results: one, or a tuple where an op has several. Attributes are given by name.
Binary ops broadcast their operands as NumPy does. What does not fit raises
stowage.InvalidArgument, which names the op, the operands and their shapes; docs/ops.md
says what each op computes.

    h = ops.relu(ops.add(ops.matmul(x, w1), b1))
"""

from __future__ import annotations

from typing import List, Sequence, Tuple

from stowage import _core
from stowage._core import Value


def _emit(op: str, operands: Sequence[Value], **attributes: object) -> List[Value]:
    return operands[0].builder.emit(op, list(operands), attributes)
'''


def kind_of(op, attribute):
    if attribute in ("dtype",):
        return "str"
    if attribute in LISTS and (op, attribute) not in LISTS_BUT:
        return "Sequence[int]"
    if attribute in REALS:
        return "float"
    return "bool" if attribute in FLAGS else "int"


def words(text):
    return [part.strip() for part in text.split(",") if part.strip()]


def function(op, macro, comment):
    """The text of an op's function, or nothing for one that takes no operand."""
    if macro:
        comment = "x -> y" if macro == "UNARY_" else "a, b -> y"
    given = SIGNATURE.match(comment.replace("[, ", ", [").strip())
    if not given:
        raise ValueError(f"ir/ops.def: {op} has no signature: {comment!r}")
    operands = words(given.group(1))
    results = words(given.group(2))
    attributes = words(given.group(4) or "")
    if not operands:
        return None
    many = operands[0].endswith("...")
    required = [name for name in operands if not name.startswith("[")]
    optional = [name.strip("[]") for name in operands if name.startswith("[")]
    name = {"pow": "power", "round": "round_", "abs": "absolute"}.get(op, op)
    parameters = ["parts: Sequence[Value]"] if many else [f"{n}: Value" for n in required]
    parameters += [f"{n}: Value | None = None" for n in optional]
    if attributes:
        parameters.append("*")
        for attribute in attributes:
            parameters.append(f"{attribute}: {kind_of(op, attribute)}")
    several = any(r.endswith("...") for r in results) or len(results) > 1
    returned = "Tuple[Value, ...]" if several else "Value"
    lines = [f"def {name}({', '.join(parameters)}) -> {returned}:"]
    lines.append(f'    """{op}: {comment.strip()}"""')
    passed = []
    for attribute in attributes:
        kind = kind_of(op, attribute)
        value = {"Sequence[int]": f"[int(i) for i in {attribute}]",
                 "float": f"float({attribute})",
                 "bool": f"int({attribute})",
                 "int": f"int({attribute})"}.get(kind, attribute)
        passed.append(f"{attribute}={value}")
    if macro == "BINARY_":
        lines.append("    a, b = _core.broadcast(a, b)")
    taken = "list(parts)" if many else f"[{', '.join(required)}]"
    if optional:
        taken += f" + [v for v in ({', '.join(optional)},) if v is not None]"
    call = ", ".join([f'"{op}"', taken] + passed)
    if several:
        lines.append(f"    return tuple(_emit({call}))")
    else:
        lines.append(f"    return _emit({call})[0]")
    return "\n".join(lines)


def main():
    functions = []
    with open(sys.argv[1], encoding="utf-8") as source:
        for line in source:
            found = LINE.match(line.strip())
            if not found or found.group(1) == "UNARY_GRAD_":
                continue
            macro, op, comment = found.group(1) or "", found.group(3), found.group(4) or ""
            if op in HAS_BODIES or MADE_BY_STOWAGE.search(op):
                continue
            text = function(op, macro, comment)
            if text:
                functions.append(text)
    print(HEAD + "\n\n" + "\n\n\n".join(functions))


if __name__ == "__main__":
    main()
