"""Converts an exported graph to a graph of Stowage, for one number of examples."""

from __future__ import annotations

import collections
import operator
from typing import Any, Dict, List, Mapping, Set, Tuple

from stowage import ops
from stowage._aten import ROWS
from stowage._aten.complex_numbers import row_of
from stowage._aten.exported import DRAWS, OF_SHAPES, Exported, family_of, line_of, name_of, where
from stowage._aten.table import Complex, Lowering, Traced
from stowage.errors import StowageError, Unsupported

MOST_NAMED = 12
# Ops that users call by another name.
SAID = {"_local_scalar_dense.default": "a number read from a tensor, as by item(),"}


def check_rows(exported: Exported) -> None:
    """Checks that every op that the step computes has a row. The error names all others."""
    written = {name for name, _ in exported.written}
    symbolic = {*exported.inputs, *exported.params,
                *(place for place, name in exported.buffers.items() if name in written)}
    depends: Set[Any] = set()
    lacking: Dict[str, List[Any]] = collections.defaultdict(list)
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name in symbolic:
            depends.add(node)
        if node.op != "call_function" or family_of(node) in OF_SHAPES:
            continue
        if family_of(node) not in DRAWS and not depends & set(node.all_input_nodes):
            continue
        if isinstance(node.meta.get("val"), (int, float, bool)):
            continue
        depends.add(node)
        if hasattr(node.meta.get("val"), "node") and not hasattr(node.target, "_schema"):
            continue  # arithmetic with a number that was read from a tensor, which is named itself
        if node.target is operator.getitem:
            continue
        if _is_complex(node) and row_of(name_of(node), True) is None:
            lacking[name_of(node) + " of complex numbers"].append(node)
        elif name_of(node) not in ROWS:
            lacking[name_of(node)].append(node)
    if not lacking:
        return
    most = sorted(lacking.items(), key=lambda item: -len(item[1]))
    said = [f"{SAID.get(name, name)} of {where(nodes[0])}"
            + (f", {len(nodes)} times" if len(nodes) > 1 else "")
            for name, nodes in most[:MOST_NAMED]]
    more = len(most) - len(said)
    raise Unsupported("[from_torch] not supported: " + "; ".join(said)
                      + (f"; and {more} more ops" if more else ""))


class Program:
    """Converts an exported graph node by node. torch computes the values that depend on no input
    and no param, which become constants."""

    def __init__(self, torch: Any, exported: Exported, lowering: Lowering,
                 leaves: Mapping[str, Traced]) -> None:
        self.torch = torch
        self.exported = exported
        self.lowering = lowering
        self.made: Dict[Any, Any] = {}
        graph = exported.graph
        for node in graph.nodes:
            if node.op == "placeholder":
                if node.name in leaves:
                    self.made[node] = leaves[node.name]
                elif node.name in exported.constants:
                    self.made[node] = exported.constants[node.name]
            elif node.op == "call_function":
                lowering.builder._set_source(*line_of(node))
                self._make(node)
        lowering.builder._set_source("", 0)

    def outputs(self) -> List[Tuple[str, Any]]:
        """Params, buffers and constants by name."""
        return [(name, self.made[node]) for name, node in self.exported.outputs]

    def write_buffers(self, states: Mapping[str, Traced]) -> None:
        """Updates buffers, after all their reads."""
        for name, node in self.exported.written:
            next_ = self.made.get(node)
            if name not in states or (node is not None and _is_update(node)):
                continue
            state = states[name]
            g = self.lowering
            value = g.value(next_, state.dtype)
            if tuple(value.shape) != state.shape:
                value = ops.broadcast(value, shape=list(state.shape))
            g.builder.emit("assign", [state.value, value], {})

    def _make(self, node: Any) -> None:
        args, kwargs = self._known(node.args), self._known(node.kwargs)
        if node.target is operator.getitem:
            self.made[node] = args[0][args[1]]
            if self.made[node] is None and node.users:
                raise Unsupported(f"[from_torch] result {args[1]} of {name_of(node.args[0])} of "
                                  f"{where(node)} is not supported")
            return
        leaves = self.torch.utils._pytree.tree_leaves((args, kwargs))
        name = name_of(node)
        if family_of(node) in OF_SHAPES:
            args, kwargs = self._stand_ins((args, kwargs))
        elif family_of(node) in DRAWS or any(isinstance(x, (Traced, Complex)) for x in leaves):
            self.made[node] = self._lowered(node, name, args, kwargs)
            return
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "cpu"}
        with self.torch.no_grad():
            self.made[node] = node.target(*args, **kwargs)

    def _lowered(self, node: Any, name: str, args: Any, kwargs: Any) -> Any:
        try:
            function = row_of(name, _is_complex(node))
            assert function is not None, name  # by check_rows
            made = function(self.lowering, *args, **kwargs)
        except StowageError as error:
            raise type(error)(f"{error}; {name} of {where(node)}") from error
        except TypeError as error:
            raise Unsupported(f"[from_torch] {name} of {where(node)} has arguments that are not "
                              f"supported: {error}") from error
        return made

    def _known(self, args: Any) -> Any:
        nodes = type(next(iter(self.exported.graph.nodes)))
        return self.torch.fx.node.map_aggregate(
            args, lambda x: self.made[x] if isinstance(x, nodes) else x)

    def _stand_ins(self, args: Any) -> Any:
        """Returns torch tensors with the shapes and types of the graph's values."""
        def stand_in(x: Any) -> Any:
            if not isinstance(x, (Traced, Complex)):
                return x
            return self.torch.empty((), dtype=self.lowering.dtype_of(x)).expand(x.shape)
        return self.torch.utils._pytree.tree_map(
            stand_in, args, is_leaf=lambda x: isinstance(x, Traced))


def _is_complex(node: Any) -> bool:
    """Returns whether an op has an operand or a result of complex numbers."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    return any(getattr(getattr(x, "dtype", None), "is_complex", False) for x in values)


def _is_update(node: Any) -> bool:
    """Returns whether a row has updated it in place."""
    return (node.op == "call_function" and node.target is operator.getitem
            and name_of(node.args[0]) == "_native_batch_norm_legit_functional.default")
