"""Writes stowage/ops.py, a function for each op of ir/ops.def.

    make_ops.py ir/ops.def ir/ops.h > stowage/ops.py

An op's signature is the comment on its line, "a, b -> y {transpose_a}"; ops of one or two
operands that say no more are listed by macros of their own. What an op computes, and what is
meant where an attribute is not given, ir/ops.h says of the function and the options that users
of C++ have. Ops of backward graphs and of optimizers, which Stowage makes itself, are left
out, and so are loops and branches, whose bodies are graphs and no attributes.
"""

import re
import sys
import textwrap

LINE = re.compile(r'^STOWAGE_(UNARY_|BINARY_|UNARY_GRAD_)?OP\((\w+), "(\w+)"\)\s*(?://\s*(.*))?$')
SIGNATURE = re.compile(r"^(.*?)\s*->\s*(.*?)(?:\s*\((.*)\))?\s*(?:\{(.*)\})?$")
HAS_BODIES = {"loop", "cond"}
MADE_BY_STOWAGE = re.compile(
    r"_(grad|grad_add|update)$|^(assign|stand_in|reload|offload|constant|fused_\w+|epilogue_matmul|"
    r"all_reduce|reduce_scatter|all_gather|own_block|join_weight|sum_partials)$")

# The Python types of attributes, by name.
LISTS = {"shape", "order", "sizes", "size", "before", "after"}
WINDOWS = {"stride", "padding", "dilation", "kernel", "pad_before", "pad_after"}
LISTS_BUT = {("local_response_norm", "size")}
REALS = {"value", "slope", "alpha", "scale", "min", "max", "p", "eps", "beta", "bias",
         "base", "softcap"}
FLAGS = {"exclusive", "reverse", "keep", "transpose_a", "transpose_b", "transpose_w",
         "descending", "causal", "interleaved", "inverse", "ceil_mode", "count_include_pad",
         "align_corners"}

# Functions or options with another name in C++.
FUNCTIONS = {"Lstm": "LstmSequence", "Broadcast": "BroadcastTo", "ReduceMean": "ReduceSum",
             "ReduceMax": "ReduceSum"}
OPTIONS = {"attention": "AttentionOptions", "rope": "RopeOptions", "conv": "ConvOptions",
           "conv_transpose": "ConvTransposeOptions", "max_pool": "PoolWindow",
           "avg_pool": "PoolWindow", "local_response_norm": "LocalResponse",
           "linear_cross_entropy": "LinearCrossEntropyOptions"}
# Of ops that ir/ops.h says nothing of, or declares by a macro, those whose name does not say
# it all.
FORMULAS = {
    "softmax": "e^x / the sum of e^x, along the last axis.",
    "log_softmax": "x - log(the sum of e^x), along the last axis.",
    "sign": "-1, 0 or 1", "silu": "x * sigmoid(x)", "gelu_tanh": "GELU by tanh, as GPT-2 has it",
    "gelu_erf": "x * Phi(x)", "mish": "x * tanh(softplus(x))",
    "hard_swish": "x * hard_sigmoid(x)", "round": "to the nearest, of two equally near the even",
    "relu": "x where it is above 0, else 0", "softplus": "log(1 + e^x)",
    "pow": "a^b, with gradients where a > 0", "remainder": "with the sign of b",
    "fmod": "the remainder with the sign of a",
    **{name: "true or false, of type bool" for name in (
        "equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
}
# Defaults that ir/ops.h states in prose or as structures.
DEFAULTS = {"axes": "()", "stride": "1", "dilation": "1", "padding": "0", "pad_before": "0",
            "pad_after": "0"}
OF_POOLS = {"stride": "None"}  # as the kernel
# Attributes that choose, and what they choose from, in the order of their numbers; by what
# ir/ops.h calls that.
CHOICES = {
    ("pad", "mode"): ("constant", "reflect", "edge"),
    ("resize", "mode"): ("nearest", "linear"),
    ("glu", "activation"): ("silu", "gelu_tanh", "gelu_erf"),
}
CHOSEN = {("pad", "mode"): "constant", ("resize", "mode"): "linear"}  # where nothing is said
# Attributes that users give in another form.
FORMS = {
    ("attention", "scale"): "float(scale) if scale > 0 else q.shape[-1] ** -0.5",
    ("rope", "dims"): "int(dims) or x.shape[-1]",
    ("reshape", "shape"): "_with_its_unknown(x, shape)",
    ("permute", "order"): "[_axis(x, i) for i in order]",
}

HEAD = '''"""The ops of graphs that are built in Python, a function each.

Made from ir/ops.def and ir/ops.h by python/make_ops.py. Operands are values of one
GraphBuilder, and so are results: one, or a tuple where an op has several. Shapes are
written (M, K); "..." is any number of leading dimensions. Attributes are given by name;
axes may be negative, counting from the end, and what is one number for each spatial
dimension may be one for all of them. Binary ops broadcast their operands as NumPy does. What
does not fit raises stowage.InvalidArgument, which names the op, the operands and their
shapes; docs/reference/ops.md has the types that each op takes.

    h = ops.relu(ops.add(ops.matmul(x, w1), b1))
"""

from __future__ import annotations

import math
from typing import Iterable, List, Sequence, Tuple

from stowage import _core
from stowage._core import Value
from stowage.errors import InvalidArgument


def _emit(op: str, operands: Sequence[Value], **attributes: object) -> List[Value]:
    return operands[0].builder.emit(op, list(operands), attributes)


def _axis(x: Value, axis: int) -> int:
    return int(axis) + (len(x.shape) if axis < 0 else 0)


def _axes(x: Value, axes: Sequence[int]) -> List[int]:
    return sorted(_axis(x, axis) for axis in axes) or list(range(len(x.shape)))


def _each(x: Value, numbers: int | Sequence[int], sides: int = 1) -> List[int]:
    """One per spatial dimension, repeated for each side."""
    spatial = len(x.shape) - 2
    listed = [int(i) for i in (numbers if isinstance(numbers, Iterable) else
                               [numbers] * spatial)]
    return listed * (sides if len(listed) == spatial else 1)


def _place(name: str, choice: str, choices: Sequence[str]) -> int:
    if choice not in choices:
        raise InvalidArgument(f"[graph] {name} is {choice!r}; expected one of {choices}")
    return choices.index(choice)


def _with_its_unknown(x: Value, shape: Sequence[int]) -> List[int]:
    """Replaces -1, if its value can be determined."""
    known = [int(i) for i in shape]
    if known.count(-1) == 1:
        rest = -math.prod(known)
        if rest > 0:
            known[known.index(-1)] = math.prod(x.shape) // rest
    return known
'''

# Attributes in which an op's operand has a say, as Python's signature and Emit have them.
OF_OPERAND = {
    "axis": ("int", "_axis({x}, axis)"),
    "axes": ("Sequence[int]", "_axes({x}, axes)"),
    "padding": ("int | Sequence[int]", "_each({x}, padding, sides=2)"),
    **{name: ("int | Sequence[int]", "_each({x}, %s)" % name)
       for name in WINDOWS - {"padding"}},
}


def words(text):
    return [part.strip() for part in text.split(",") if part.strip()]


class Header:
    """What ir/ops.h says of functions, of their parameters, and of structures' members."""

    def __init__(self, text):
        self.text = text

    def said_of(self, function):
        """The comment before a function's declaration, and its defaults by name."""
        found = re.search(r"((?:^ *///.*\n)*)^(?:[\w:<>]+) %s\(([^;]*)\);" % function, self.text,
                          re.MULTILINE)
        if not found:
            return "", {}
        return self.plain(found.group(1)), self.defaults(found.group(2), ",")

    def members_of(self, structure):
        """Their comments and defaults, by name."""
        body = re.search(r"^struct %s \{\n(.*?)^\};" % structure, self.text,
                         re.MULTILINE | re.DOTALL).group(1)
        said = {}
        for before, member, after in re.findall(
                r"((?:^ *///.*\n)*)^ *[\w:<>]+ (\w+)[^;]*;(?:\s*// (.*))?$", body, re.MULTILINE):
            if before or after:
                said[member] = self.plain(before) or after
        return said, self.defaults(body, ";")

    @staticmethod
    def plain(comment):
        return " ".join(re.findall(r"^ *///? ?(.*)$", comment, re.MULTILINE)).strip()

    @staticmethod
    def defaults(declarations, end):
        """Numbers and flags."""
        found = re.findall(r"\b(?:bool|double|int64_t) (\w+) = ([\w. /-]+?)\s*(?:%s|$)" % end,
                           declarations, re.MULTILINE)
        return {name: {"true": "True", "false": "False"}.get(value, value)
                for name, value in found}


def parameter(op, attribute, operand):
    """The Python type of an attribute, and the expression that is passed to the op."""
    if (op, attribute) in CHOICES:
        choices = CHOICES[op, attribute]
        return "str", f'_place("{attribute}", {attribute}, {choices!r})'
    if (op, attribute) in FORMS:
        kind = "Sequence[int]" if attribute in LISTS else (
            "float" if attribute in REALS else "int")
        return kind, FORMS[op, attribute]
    if attribute in OF_OPERAND:
        kind, given = OF_OPERAND[attribute]
        if op.endswith("_pool") and attribute == "stride":
            return f"{kind} | None", f"_each({operand}, kernel if stride is None else stride)"
        return kind, given.format(x=operand)
    if attribute == "dtype":
        return "str", attribute
    if attribute in LISTS and (op, attribute) not in LISTS_BUT:
        return "Sequence[int]", f"[int(i) for i in {attribute}]"
    if attribute in REALS:
        return "float", f"float({attribute})"
    return ("bool" if attribute in FLAGS else "int"), f"int({attribute})"


def description(op, kind, macro, named, header):
    """What is told of an op below its signature, and the defaults of its attributes, of
    those and the operands that are `named`."""
    if macro:
        of = "Of each element" if macro == "UNARY_" else "Of each pair of elements"
        formula = FORMULAS.get(op)
        return [f"{of}: {formula}." if formula else f"{of}."], {}
    said, defaults = header.said_of(FUNCTIONS.get(kind, kind))
    paragraphs = [said or FORMULAS.get(op)]
    if not paragraphs[0]:
        raise ValueError(f"ir/ops.h says nothing of {kind}; expected a comment before it")
    if op in OPTIONS:
        members, more = header.members_of(OPTIONS[op])
        defaults.update(more)
        paragraphs += [f"`{name}`: {text}" for name, text in members.items() if name in named]
    chosen = {attribute: repr(choice) for (of, attribute), choice in CHOSEN.items() if of == op}
    paragraphs += [f"`{attribute}` is one of {', '.join(map(repr, choices))}."
                   for (of, attribute), choices in CHOICES.items() if of == op]
    return [of_python(text) for text in paragraphs], {**defaults, **chosen}


def of_python(text):
    """Rewrites C++ notation to Python's."""
    text = text.replace("Value()", "None").replace("CrossEntropy of", "cross_entropy of")
    return re.sub(r"\bk([A-Z]\w*)", lambda name: repr(name[1].lower()), text)


def function(op, kind, macro, comment, header):
    """The source of an op's function; None for one without operands."""
    if macro:
        comment = "x -> y" if macro == "UNARY_" else "a, b -> y"
    given = SIGNATURE.match(comment.replace("[, ", ", [").strip())
    if not given:
        raise ValueError(f"ir/ops.def: {op} has no signature: {comment!r}")
    operands = words(given.group(1))
    results = words(given.group(2))
    listed = words((given.group(4) or "").replace("[, ", ", ["))
    attributes = [name.strip("[]") for name in listed]
    left_out = {name.strip("[]") for name in listed if name.startswith("[")}  # by default
    if not operands:
        return None
    many = operands[0].endswith("...")
    required = [name for name in operands if not name.startswith("[")]
    optional = [name.strip("[]") for name in operands if name.startswith("[")]
    name = {"pow": "power", "round": "round_", "abs": "absolute"}.get(op, op)
    of_pools = OF_POOLS if op.endswith("_pool") else {}
    paragraphs, of_header = description(op, kind, macro,
                                        {*optional, *attributes} - set(of_pools), header)
    defaults = {**DEFAULTS, **of_pools, **of_header}
    parameters = ["parts: Sequence[Value]"] if many else [f"{n}: Value" for n in required]
    parameters += [f"{n}: Value | None = None" for n in optional]
    passed = []
    if attributes:
        parameters.append("*")
    for attribute in attributes:
        python, value = parameter(op, attribute, "parts[0]" if many else required[0])
        default = f" = {defaults[attribute]}" if attribute in defaults else ""
        parameters.append(f"{attribute}: {python}{default}")
        passed.append(f'**({{"{attribute}": {value}}} if {attribute} != {defaults[attribute]} '
                      "else {})" if attribute in left_out else f"{attribute}={value}")
    several = any(r.endswith("...") for r in results) or len(results) > 1
    returned = "Tuple[Value, ...]" if several else "Value"
    lines = [f"def {name}({', '.join(parameters)}) -> {returned}:",
             f'    """{op}: {comment.strip()}']
    for paragraph in paragraphs:
        lines += ["", textwrap.indent(textwrap.fill(paragraph, 88), "    ")]
    lines.append('    """')
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
    with open(sys.argv[2], encoding="utf-8") as source:
        header = Header(source.read())
    with open(sys.argv[1], encoding="utf-8") as source:
        for line in source:
            found = LINE.match(line.strip())
            if not found or found.group(1) == "UNARY_GRAD_":
                continue
            macro, kind, op, comment = found.groups()
            if op in HAS_BODIES or MADE_BY_STOWAGE.search(op):
                continue
            text = function(op, kind, macro, comment or "", header)
            if text:
                functions.append(text)
    print(HEAD + "\n\n" + "\n\n\n".join(functions))


if __name__ == "__main__":
    main()
