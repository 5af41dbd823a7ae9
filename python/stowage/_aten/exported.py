"""Exports of a module by torch.export: one graph of ATen ops without side effects."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import traceback
from typing import Any, Container, Dict, List, Mapping, NamedTuple, Set, Tuple

from stowage._aten import ROWS
from stowage._aten.patches import patched
from stowage.errors import Unsupported

# Ops whose result depends only on an operand's shape and type; torch computes them when a graph
# is built.
OF_SHAPES = {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones",
             "new_full", "new_empty", "new_empty_strided", "sym_size", "sym_numel", "sym_stride",
             "sym_storage_offset", "_assert_tensor_metadata", "_assert_scalar",
             "sym_constrain_range_for_size", "sym_constrain_range"}
# Results that no gradient passes, and those whose gradient is zero.
CONSTANT_BY_OPERANDS = {"detach", "detach_copy", *OF_SHAPES}
PIECEWISE_CONSTANT = {"sign", "sgn", "floor", "ceil", "round", "trunc", "fix"}
# Ops that draw random numbers, even from constant operands.
DRAWS = {"rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm",
         "bernoulli", "normal", "normal_functional", "uniform", "multinomial", "exponential",
         "native_dropout", "dropout", "feature_dropout", "alpha_dropout",
         "rrelu_with_noise_functional"}


# Batch sizes; a guard that holds for all of these is assumed to hold for any.
SOME_SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 16, 61, 1024)
# Prefix of names: the user's module is a member of the one that is exported.
OUTER = "module."


class Exported(NamedTuple):
    """A module's graph, and the meaning of its inputs and outputs."""

    graph: Any
    params: Dict[str, str]      # by placeholder; tied ones by one name
    buffers: Dict[str, str]
    constants: Dict[str, Any]   # tensors by placeholder
    inputs: List[str]           # placeholders, in order
    outputs: List[Tuple[str, Any]]  # nodes by name
    # Buffers and frozen params, and the nodes that are their next content.
    written: List[Tuple[str, Any]]
    is_dynamic: bool            # else for one number of examples alone
    guards: List[Tuple[Any, Any]]  # symbols, and what has to hold for them

    def holds_for(self, batch: int) -> bool:
        """Returns whether the guards hold for this number of examples."""
        return all(bool(condition.subs({symbol: batch})) for symbol, condition in self.guards)

    def reached(self, output: Any, without: Container[str] = ()) -> List[str]:
        """Returns the params that a gradient of `output` reaches through ops of families other than
        `without`."""
        found, seen, left = [], set(), [output]
        while left:
            node = left.pop()
            if node in seen or not hasattr(node, "op"):
                continue
            seen.add(node)
            if node.op == "placeholder" and node.name in self.params:
                found.append(self.params[node.name])
            value = node.meta.get("val")
            has_gradient = (not hasattr(value, "is_floating_point") or value.is_floating_point()
                            or value.is_complex())
            family = family_of(node)
            if has_gradient and family not in CONSTANT_BY_OPERANDS and family not in without:
                left.extend(node.all_input_nodes)
        return found


def name_of(node: Any) -> str:
    """Returns the name of an op, such as "add.Tensor" for an ATen op, or of a function."""
    if node.op != "call_function":
        return ""
    return _op_name(node.target)


def _op_name(op: Any) -> str:
    schema = getattr(op, "_schema", None)
    if schema is None:
        return str(getattr(op, "__name__", op))
    return f"{schema.name.partition('::')[2]}.{schema.overload_name or 'default'}"


def family_of(node: Any) -> str:
    return name_of(node).partition(".")[0]


def _is_of_torch(path: str) -> bool:
    """Returns whether a source file is not one of the user's."""
    return any(other in path for other in ("/torch/", "/stowage/", "<eval_with_key>"))


def place_of(error: BaseException) -> str:
    """Returns the user's source line that raised, in parentheses."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if not _is_of_torch(frame.filename)]
    return f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""


def where(node: Any) -> str:
    """Returns the module and the user's source line of a node."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(path).removeprefix(OUTER) for path, _ in stack.values()
             if path and str(path) != OUTER[:-1]]
    found = f'"{paths[-1]}"' if paths else "the module"
    file, line = line_of(node)
    return f"{found} ({file.rpartition('/')[2]}:{line})" if file else found


def line_of(node: Any) -> Tuple[str, int]:
    """Returns the file and line of the user's source of a node, or "" and 0 if it has none."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()
             if line.strip().startswith("File ")]
    ours = [line for line in lines if not _is_of_torch(line)]
    if not ours:
        return "", 0
    file, _, rest = ours[-1][5:].partition(", line ")
    return file.strip('"'), int(rest.partition(",")[0])


def plain(torch: Any, output: Any) -> Any:
    """Returns the outputs as torch.export returns them. Dataclasses become dicts of their fields.
    Objects of other classes, such as a cache of keys and values, are omitted."""
    def fields(x: Any) -> Any:
        if dataclasses.is_dataclass(x):
            # That of a library may be a dict, too, whose fields without a value are not in it.
            named = x.items() if isinstance(x, Mapping) else [
                (each.name, getattr(x, each.name)) for each in dataclasses.fields(x)]
            return {name: plain(torch, value) for name, value in named}
        is_known = isinstance(x, (torch.Tensor, torch.fx.Node, int, float, str))
        return x if is_known else None
    return torch.utils._pytree.tree_map(fields, output, is_leaf=dataclasses.is_dataclass)


def leaves_of(torch: Any, output: Any) -> List[Tuple[str, Any]]:
    """Returns the outputs of a module by name. Names are keys of dicts, fields, or indices."""
    leaves, _ = torch.utils._pytree.tree_flatten_with_path(plain(torch, output))
    named = []
    for path, leaf in leaves:
        keys = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
                for key in path]
        if not keys or keys[0].isdigit():
            keys.insert(0, "output")
        named.append((".".join(keys), leaf))
    return named


def given_names(torch: Any, module: Any, args: Any, kwargs: Any) -> List[str]:
    """Returns the names of a module's tensor arguments, in the order of its inputs."""
    names: List[str] = []
    # The parameters that the positional arguments bind to come first.
    signature = inspect.signature(module.forward).parameters.values()
    places = [each.name for each in signature if each.kind in (
        inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for i, x in enumerate(args):
        names += _parts(torch, places[i] if i < len(places) else f"x{i}", x)
    for name, x in kwargs.items():
        names += _parts(torch, name, x)
    return names


def _parts(torch: Any, name: str, x: Any) -> List[str]:
    leaves = [(path, leaf) for path, leaf in torch.utils._pytree.tree_flatten_with_path(x)[0]
              if isinstance(leaf, torch.Tensor)]
    if len(leaves) == 1:
        return [name]
    return [".".join([name, *(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)])
            for path, _ in leaves]


def real_view(torch: Any, x: Any) -> Any:
    """Returns complex numbers as pairs of real numbers along a new last axis, and other tensors
    unchanged."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or [''])[0][:300]}"


def export(torch: Any, module: Any, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exported:
    """Returns the graph of a module in its current mode. Raises Unsupported, with the name of the
    function or module, for a custom backward and for a module that torch cannot export."""
    batch = batch_of(torch, args, kwargs)
    automatic = torch.export.Dim.AUTO

    def dims(x: Any, axes: str) -> Any:
        if not isinstance(x, torch.Tensor):
            return None
        if batch == 1 or x.dim() == 0 or axes == "none":
            return {}
        if x.shape[0] == batch:
            return {0: automatic}
        # The example axis may differ, as in the states of a recurrent layer.
        return {} if axes == "first" else {i: automatic for i, n in enumerate(x.shape)
                                           if n == batch}

    def shapes(axes: str) -> Any:
        of_args, of_kwargs = torch.utils._pytree.tree_map(lambda x: dims(x, axes),
                                                          (args, dict(kwargs)))
        return dict(inspect.signature(module.forward).bind(*of_args, **of_kwargs).arguments)

    def read(axes: str) -> Exported:
        flat, guards = _decomposed(torch, module, args, kwargs, shapes(axes))
        return _read(torch, module, flat, guards)

    def read_any() -> Exported:
        try:
            made = read("first")
        except Unsupported:
            raise
        except Exception:
            # The module may require a concrete batch, as NumPy's functions do.
            return read("none")
        if not made.is_dynamic and shapes("first") != shapes("any"):
            with contextlib.suppress(Exception):
                other = read("any")
                return other if other.is_dynamic else made
        return made

    try:
        with patched(torch) as called, torch.inference_mode(False), torch.enable_grad():
            made = read_any()
    except Unsupported:
        raise
    except Exception as error:
        raise Unsupported(f"[from_torch] torch cannot export the module: {first_line(error)}"
                          f"{place_of(error)}") from error
    if called:
        raise Unsupported(f"[from_torch] {', '.join(sorted(set(called)))} has a backward of its "
                          "own, which is not supported; write it by ops and detach")
    return made


def _decomposed(torch: Any, module: Any, args: Any, kwargs: Any, shapes: Any) -> Tuple[Any, Any]:
    """Decomposes the exported program to supported ops as far as possible; also returns its
    guards."""
    program = torch.export.export(module, args, dict(kwargs), strict=False, dynamic_shapes=shapes)
    _keep_no_grad(torch, program)
    guards = _guards(torch, program)
    table = torch.export.default_decompositions()
    for op in list(table):
        if _op_name(op) in ROWS:
            table.pop(op)
    return program.run_decompositions(table), guards


def _guards(torch: Any, program: Any) -> List[Tuple[Any, Any]]:
    """Returns the guards of the export on the number of examples: symbols and conditions."""
    conditions: Set[Tuple[Any, Any]] = set()
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or not isinstance(value, torch.Tensor):
            continue
        if not value.dim() or not isinstance(value.shape[0], torch.SymInt):
            continue
        of = value.shape[0].node.expr.free_symbols
        conditions.update((symbol, guard.expr) for symbol in of
                          for guard in value.shape[0].node.shape_env.guards
                          if guard.expr.free_symbols == {symbol})
    # The guard of at least two examples is trivial.
    return [(symbol, condition) for symbol, condition in conditions
            if not all(bool(condition.subs({symbol: n})) for n in SOME_SIZES)]


def batch_of(torch: Any, args: Any, kwargs: Any) -> int:
    """Returns the number of examples: the first axis of the first tensor that has one."""
    for x in torch.utils._pytree.tree_leaves((args, dict(kwargs))):
        if isinstance(x, torch.Tensor) and x.dim() > 0:
            return int(x.shape[0])
    return 1


def _keep_no_grad(torch: Any, program: Any) -> None:
    """Detaches values computed under no_grad, which torch.export would not record."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or name_of(node) != "wrap_with_set_grad_enabled":
            continue
        if node.args[0]:
            continue
        for part in list(node.users):
            if not isinstance(part.meta.get("val"), torch.Tensor):
                continue
            with graph.inserting_after(part):
                stopped = graph.call_function(torch.ops.aten.detach.default, (part,))
            stopped.meta = dict(part.meta)
            part.replace_all_uses_with(stopped,
                                       delete_user_cb=lambda user, s=stopped: user is not s)
    program.graph_module.recompile()


def _read(torch: Any, module: Any, program: Any, guards: Any) -> Exported:
    signature = program.graph_signature
    # The names of params and buffers, of those with several their first.
    first = {id(tensor): name for name, tensor in (*module.named_parameters(),
                                                   *module.named_buffers())}
    registered = dict(module.named_buffers(remove_duplicate=False))
    params = {}
    for placeholder, name in signature.inputs_to_parameters.items():
        params[placeholder] = first[id(module.get_parameter(name))].removeprefix(OUTER)
    nodes = {node.name: node for node in program.graph.nodes}
    buffers, constants = {}, {}
    for placeholder, name in signature.inputs_to_lifted_tensor_constants.items():
        constants[placeholder] = program.constants[name]
    for placeholder, name in signature.inputs_to_buffers.items():
        if name in registered:
            buffers[placeholder] = first[id(registered[name])].removeprefix(OUTER)
        else:
            constants[placeholder] = program.constants[name]
    inputs = [spec.arg.name for spec in signature.input_specs
              if spec.kind.name == "USER_INPUT" and spec.arg.name in nodes
              and isinstance(nodes[spec.arg.name].meta.get("val"), torch.Tensor)]
    outputs, written = [], []
    for spec in signature.output_specs:
        node = nodes.get(getattr(spec.arg, "name", ""))
        is_frozen = spec.kind.name == "PARAMETER_MUTATION" and spec.target is not None \
            and not module.get_parameter(spec.target).requires_grad
        if is_frozen:  # such as of a momentum encoder
            name = first[id(module.get_parameter(spec.target))]
            written.append((name.removeprefix(OUTER), node))
        elif spec.kind.name == "BUFFER_MUTATION":
            written.append((first[id(registered[spec.target])].removeprefix(OUTER), node))
        elif spec.kind.name == "USER_OUTPUT":
            outputs.append(node if node is not None else getattr(spec.arg, "value", None))
        else:
            if spec.target is None:
                continue  # of an op that has no row, which is refused by its name
            kind = "param" if spec.kind.name == "PARAMETER_MUTATION" else "input"
            by = f", by {name_of(node)} of {where(node)}" if name_of(node) else ""
            raise Unsupported(f"[from_torch] the module writes its {kind} "
                              f'"{str(spec.target).removeprefix(OUTER)}"{by}, which is not '
                              "supported")
    tree = torch.utils._pytree.tree_unflatten(outputs, program.call_spec.out_spec)
    named = [(name, leaf) for name, leaf in leaves_of(torch, tree)
             if hasattr(leaf, "op") and isinstance(leaf.meta.get("val"), torch.Tensor)]
    sizes = [nodes[name].meta["val"].shape for name in inputs]
    # A size that the module fixes is a symbol with a constant value.
    is_dynamic = not sizes or any(len(size) and isinstance(size[0], torch.SymInt)
                                  and size[0].node.expr.free_symbols for size in sizes)
    return Exported(program.graph, params, buffers, constants, inputs, named, written, is_dynamic,
                    guards)
