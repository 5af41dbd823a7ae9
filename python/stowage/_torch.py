"""Models from torch modules. torch is imported only on use.

torch.export exports a module in its current mode, and its ATen ops are converted to ops of Stowage
(``stowage._aten``). The model is checked before it is returned. A step of the model and a step of a
copy of the module must agree in the loss, in the gradient of every param, and in the buffers that
the module writes.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
from typing import (Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence,
                    Set, Tuple, Union)

from stowage import _core, ops
from stowage._core import GraphBuilder, Model
from stowage.errors import InvalidArgument, StowageError, Unsupported

log = logging.getLogger("stowage")

Loss = Union[str, Callable[[Any, Any], Any]]

KINDS = ("cross_entropy", "mse", "bce")
IGNORED = -100  # a label that a cross-entropy leaves out
# What a step has of its own.
TAKEN = {"labels", "loss", "lr", "seed", "step"}


def from_torch(
    module: Any,
    example_inputs: Union[Any, Tuple[Any, ...]] = (),
    *,
    kwargs: Optional[Mapping[str, Any]] = None,
    loss: Loss = "cross_entropy",
    example_labels: Any = None,
    input_names: Optional[Sequence[str]] = None,
    labels_shape: Optional[Sequence[int]] = None,
    check: bool = True,
) -> Model:
    """Returns the model of a torch module in its current mode, built from Stowage's ops.

    `example_inputs`, a tensor or a tuple, and `kwargs` are the arguments of the module. The first
    axis of the first tensor is the batch, and its size is the batch of the model. Params keep their
    names. A trainer initializes them from the module, which it does not change. Tied params become
    one param. Params that do not require a gradient, or that no gradient reaches, are frozen.
    Buffers that the module writes become states, which every step updates. Other buffers, and
    tensors that forward creates, become constants. Dropout and other random ops draw new numbers in
    every step.

    `loss` is the training loss. It is "cross_entropy" (labels of -100 are ignored, as in torch),
    "mse" or "bce" (of logits) of the first output and of an additional input "labels". A name after
    a colon selects another output, as in "cross_entropy:logits". `loss` may also be the name of a
    scalar output, or a function of the module's outputs and of labels such as `example_labels`,
    like torch.nn.functional.cross_entropy. Outputs of a module that returns a dict or a dataclass
    are named after its keys. A single tensor is named "output", and the elements of a tuple
    "output.0" and so on. `labels_shape` is the shape of the labels if it differs from the shape of
    the output without its class axis. The class axis is the last of up to three axes, and the
    second of more.

    The model trains as the module does. To check this, one step of each runs on the examples
    without dropout. `check=False` skips the check, and the copy of the module that it needs.

    Requires torch 2.5 or later. Raises Unsupported for a function with a custom backward, for
    unsupported ops, which one message lists with their positions, and for a module whose step would
    differ from torch's.
    """
    try:
        import torch
    except ImportError as error:
        raise Unsupported("[from_torch] there is no torch here; pip install torch") from error
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"[from_torch] a {type(module).__name__} is no torch.nn.Module")
    if isinstance(module, torch.jit.ScriptModule):
        raise Unsupported(f"[from_torch] a {type(module).__name__} of TorchScript cannot be "
                          "exported by torch; give the module that it was made of")
    if isinstance(input_names, str):
        raise TypeError(f"[from_torch] input_names is {input_names!r}; expected a list of names")
    if example_labels is not None and not isinstance(example_labels, torch.Tensor):
        raise TypeError(f"[from_torch] example_labels is a {type(example_labels).__name__}; "
                        "expected a tensor")
    args = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    made = TorchModule(torch, module, args, _without_cache(module, dict(kwargs or {})),
                       _loss_of(loss, example_labels, labels_shape), input_names)
    _core.return_free_memory()
    model = made.model(is_random=True)
    if check:
        from stowage._torch_check import check_module
        check_module(made)
    return model


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Returns whether a function accepts a keyword of that name, or any."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(
        each.kind is each.VAR_KEYWORD for each in parameters.values())


def _without_cache(module: Any, kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """Switches off the returned keys and values of a transformers language model."""
    if (getattr(getattr(module, "config", None), "use_cache", False)
            and _takes(module.forward, "use_cache")
            and "use_cache" not in kwargs):
        log.info("[from_torch] %s is called with use_cache=False", type(module).__name__)
        kwargs["use_cache"] = False
    return kwargs


class _Loss(NamedTuple):
    kind: str      # of KINDS; "": an output; "call": a function
    output: str    # by name; "": the first
    call: Optional[Callable[[Any, Any], Any]]
    example_labels: Any
    labels_shape: Optional[List[int]]


def _loss_of(loss: Loss, example_labels: Any, labels_shape: Optional[Sequence[int]]) -> _Loss:
    shape = None if labels_shape is None else list(labels_shape)
    if callable(loss):
        if example_labels is None:
            raise InvalidArgument("[from_torch] the loss is a function, and there are no "
                                  "example_labels to call it with")
        return _Loss("call", "", loss, example_labels, shape)
    if not isinstance(loss, str):
        raise TypeError(f"[from_torch] loss is a {type(loss).__name__}; expected "
                        '"cross_entropy", "mse", "bce", the name of an output, or a function')
    kind, _, output = loss.partition(":")
    if kind in KINDS:
        return _Loss(kind, output, None, None, shape)
    return _Loss("", loss, None, None, shape)


def _apart(torch: Any, module: Any, examples: Any) -> Any:
    """Copies example tensors that are used twice or belong to the module, because torch.export
    would merge them into one input."""
    seen = {id(x) for x in [*module.parameters(), *module.buffers()]}

    def apart(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if id(x) in seen:
            x = x.detach().clone()
        seen.add(id(x))
        return x
    return torch.utils._pytree.tree_map(apart, examples)


def _expect_no_hooks(torch: Any, module: Any) -> None:
    everywhere = torch.nn.modules.module
    if everywhere._global_backward_hooks or everywhere._global_backward_pre_hooks:
        raise Unsupported("[from_torch] there is a hook that is called with the gradients of all "
                          "modules, which is not supported; remove it")
    for name, each in module.named_modules():
        if each._backward_hooks or each._backward_pre_hooks:
            raise Unsupported(f'[from_torch] the module "{name}" ({type(each).__name__}) has a '
                              "backward hook, which is not supported; remove it, and change the "
                              "loss or the optimizer instead")
    for name, param in module.named_parameters():
        if param._backward_hooks or getattr(param, "_post_accumulate_grad_hooks", None):
            raise Unsupported(f'[from_torch] the param "{name}" has a hook that is called with its '
                              "gradient, which is not supported; remove it, and change the loss "
                              "or the optimizer instead")


def _expect_free_names(module: Any) -> None:
    for kind, named in (("param", module.named_parameters()), ("buffer", module.named_buffers())):
        for name, _ in named:
            if name in TAKEN:
                raise Unsupported(f'[from_torch] the {kind} "{name}" has a name that a step uses for '
                                  f"itself ({', '.join(sorted(TAKEN))}); rename it")


class TorchModule:
    """A module, and the graphs built from it."""

    def __init__(self, torch: Any, module: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any],
                 loss: _Loss, input_names: Optional[Sequence[str]]) -> None:
        from stowage._aten.exported import PIECEWISE_CONSTANT, batch_of

        self.torch = torch
        self.module = module
        _expect_no_hooks(torch, module)
        self.args, self.kwargs, labels = _apart(torch, module, (args, kwargs, loss.example_labels))
        args, kwargs = self.args, self.kwargs
        self.loss = loss = loss._replace(example_labels=labels)
        self.batch = batch_of(torch, args, kwargs)
        self.input_names = input_names
        self.exports: Dict[Tuple[bool, bool, int], Any] = {}
        self.classes: List[int] = []  # of a cross-entropy, once a graph is built
        statistics = self._statistics()
        _expect_free_names(module)
        exported = self.exported(True, self.batch)
        self.states = {*(name for name, _ in exported.written),
                       *(name for name in exported.buffers.values() if name in statistics)}
        self.reached = set(exported.reached(self._judged(exported)))
        # Those that are trained, by a gradient of zero: decay and momentum apply to them.
        self.idle = self.reached - set(exported.reached(self._judged(exported),
                                                        PIECEWISE_CONSTANT))
        if not any(param.requires_grad and name in self.reached
                   for name, param in module.named_parameters()):
            raise InvalidArgument(
                "[from_torch] the loss reaches no param that wants a gradient: "
                f"{self._said(exported)}")

    def _statistics(self) -> Set[str]:
        """Returns the buffers of batch norms, which are states even if the module does not write
        them."""
        found: Set[str] = set()
        for name, each in self.module.named_modules():
            if not isinstance(each, self.torch.nn.modules.batchnorm._BatchNorm):
                continue
            found |= {f"{name}.{buffer}" if name else buffer
                      for buffer in ("running_mean", "running_var")}
        return found

    # --- Exports ---

    def exported(self, is_step: bool, batch: int, validates: bool = False) -> Any:
        """Returns the graph of a step, or of an evaluation, for that many examples. A step, and an
        evaluation that `validates`, include a loss that is a function."""
        from stowage._aten.exported import export
        from stowage._aten.program import check_rows

        calls = self.loss.call if is_step or validates else None
        for key in ((is_step, calls is not None, 0), (is_step, calls is not None, batch)):
            if key in self.exports:
                return self.exports[key]
        labels = self.loss.example_labels if calls else None
        args, kwargs, labels = self._cut((self.args, self.kwargs, labels), batch)
        with _mode(self.module, is_step):
            made = export(self.torch, _wrapped(self.torch, self.module, calls),
                          (args, kwargs, labels) if labels is not None else (args, kwargs), {})
        check_rows(made)
        self.exports[is_step, calls is not None, 0 if made.is_dynamic else batch] = made
        return made

    def _cut(self, examples: Any, batch: int) -> Any:
        """Extends the examples to another number by repeating them from the first."""
        if batch == self.batch:
            return examples
        at = self.torch.arange(batch) % self.batch

        def cut(x: Any) -> Any:
            is_batch = isinstance(x, self.torch.Tensor) and x.dim() > 0 and \
                x.shape[0] == self.batch
            return x.index_select(0, at.to(x.device)) if is_batch else x
        return self.torch.utils._pytree.tree_map(cut, examples)

    def draws(self, exported: Any) -> Set[str]:
        """Returns the random ops of a graph other than dropout."""
        from stowage._aten.exported import DRAWS, family_of

        return {family_of(node) for node in exported.graph.nodes if node.op == "call_function"
                and family_of(node) in DRAWS and "dropout" not in family_of(node)}

    # --- Graphs ---

    def model(self, is_random: bool) -> Model:
        """Returns the model. If not `is_random`, dropout keeps all elements, and other random ops
        return a constant."""
        def train(builder: GraphBuilder, batch: int) -> None:
            try:
                self._build(builder, batch, True, is_random)
            except StowageError as error:
                if batch == self.batch:
                    raise
                # So that the batch is taken whole.
                raise Unsupported(f"[from_torch] the module does not take {batch} examples: "
                                  f"{error}") from error

        def evaluate(builder: GraphBuilder, batch: int) -> None:
            self._build(builder, batch, False, False)

        def validate(builder: GraphBuilder, batch: int) -> None:
            try:
                self._build(builder, batch, False, False, validates=True)
            except Exception as error:  # of torch, too
                raise Unsupported(f"[from_torch] there is no loss in eval mode: {error}") from error

        # Exported when it is asked for: a module that draws in eval mode draws in training, too.
        is_judged = not (self.draws(self.exported(True, self.batch))
                         and self.draws(self.exported(False, self.batch)))
        made = _core.built_model(type(self.module).__name__, train,
                                 evaluate if is_judged else None, self.batch,
                                 canonicalize=True, validate=validate if is_judged else None)
        if self.loss.kind == "cross_entropy":
            made._ignored_label = IGNORED
            made._classes = self.classes
        made._frozen = self._frozen()
        made._initial = self._initial
        # By which an object of torch.optim is understood; kept, so that an id stays a param's.
        params = dict(self.module.named_parameters())
        names = {id(param): name for name, param in params.items()}
        made._name_of = lambda param: names.get(id(param))
        made._param_names = lambda: [name for name in params if name not in self.states]
        made._holds_for = lambda count: self.exported(False, self.batch).holds_for(count)
        return made

    def _frozen(self) -> List[str]:
        return [name for name, param in self.module.named_parameters() if name not in self.states
                and (not param.requires_grad or name not in self.reached)]

    def state_tensors(self, module: Any) -> Dict[str, Any]:
        """Returns the states of the module, or of a copy: buffers, and params that forward
        writes."""
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return {name: tensor for name, tensor in tensors.items() if name in self.states}

    def _judged(self, exported: Any) -> Any:
        """Returns the node at which the gradient starts."""
        if not exported.outputs:
            raise Unsupported(f"[from_torch] the {'loss' if self.loss.call else 'module'} returns "
                              "no tensor that depends on its inputs")
        if self.loss.kind == "call":
            return exported.outputs[0][1]
        wanted = self.loss.output or exported.outputs[0][0]
        for name, node in exported.outputs:
            # Also as the op is called that makes it.
            if wanted in (name, node.name):
                return node
        raise InvalidArgument(f'[from_torch] the module has no output "{wanted}"; '
                              f"{self._said(exported)}")

    def _said(self, exported: Any) -> str:
        """Returns the outputs, and the loss of one of them."""
        names = ", ".join(f'"{name}"' for name, _ in exported.outputs)
        last = exported.outputs[-1][0]
        return (f"its outputs are {names}; expected the one that is the loss by its name, or one "
                f'that is judged, as in "cross_entropy:{last}"')

    def _initial(self) -> Dict[str, Any]:
        """Returns initial values of params and states. They share the module's memory if it is
        contiguous."""
        from stowage._aten.exported import real_view

        tensors = {**dict(self.module.named_parameters()), **self.state_tensors(self.module)}
        return {name: real_view(self.torch, x.detach()).cpu().contiguous()
                for name, x in tensors.items()}

    def _build(self, builder: GraphBuilder, batch: int, is_step: bool, is_random: bool,
               validates: bool = False) -> None:
        from stowage._aten.complex_numbers import view_as_complex, view_as_real
        from stowage._aten.exported import real_view
        from stowage._aten.program import Program
        from stowage._aten.table import Complex, Lowering, Traced

        exported = self.exported(is_step, batch, validates)
        lowering = Lowering(self.torch, builder, is_random, is_stilled=is_step and not is_random)
        params = {}
        tensors = dict(self.module.named_parameters())
        for name, param in tensors.items():
            if name in self.states:
                continue
            pairs = real_view(self.torch, param)
            params[name] = Traced(builder.param(name, lowering.name_of(pairs.dtype),
                                                list(pairs.shape)))
        states = {name: Traced(builder.state(name, lowering.name_of(tensor.dtype),
                                             list(tensor.shape)))
                  for name, tensor in self.state_tensors(self.module).items()}
        leaves: Dict[str, Any] = {
            placeholder: view_as_complex(lowering, params[name])
            if tensors[name].is_complex() else {**params, **states}[name]
            for placeholder, name in exported.params.items()}
        buffers = dict(self.module.named_buffers())
        for placeholder, name in exported.buffers.items():
            if name in states:
                leaves[placeholder] = states[name]
            else:
                exported.constants[placeholder] = buffers[name].detach().clone()
        nodes = {node.name: node for node in exported.graph.nodes}
        for placeholder, name in zip(exported.inputs, self._names(exported)):
            value = nodes[placeholder].meta["val"]
            shape = [int(n) if isinstance(n, int) or not n.node.expr.free_symbols else batch
                     for n in value.shape]
            leaves[placeholder] = Traced(builder.input(name, lowering.name_of(value.dtype), shape))
        for name, state in states.items():
            of = name.rpartition("running_")[0] + "num_batches_tracked"
            if of in states:
                lowering.counts[id(state)] = states[of]
        program = Program(self.torch, exported, lowering, leaves)
        if is_step or validates:
            judged = program.made[self._judged(exported)]
            if not isinstance(judged, Traced):
                raise Unsupported("[from_torch] the loss is the same whatever the module is given")
            loss = self._loss_value(lowering, judged, validates)
            for name in sorted(self.idle):
                first = ops.slice(ops.reshape(params[name].value, shape=[-1]), axis=0, start=0,
                                  end=1)
                nothing = ops.mul(ops.reshape(first, shape=[]),
                                  lowering.scalar(0, params[name].dtype))
                loss = ops.add(loss, lowering.cast(nothing, loss.dtype))
            builder.output("loss", lowering.cast(loss, "f32"))
            if is_step:
                program.write_buffers(states)
            return
        taken = {*TAKEN - {"loss"}, *params, *states, *self._names(exported)}
        for name, output in program.outputs():
            if isinstance(output, Complex):
                output = view_as_real(lowering, output)
            builder.output(_free(name, taken), ops.copy(lowering.value(output)))

    def _names(self, exported: Any) -> List[str]:
        """Returns the names of inputs, as given or as forward names them."""
        count = len(exported.inputs) - (self.loss.example_labels is not None
                                        and len(exported.inputs) > len(self._given()))
        names = list(self.input_names or self._given())
        if len(names) != count:
            raise InvalidArgument(f"[from_torch] input_names has {len(names)} names for "
                                  f"{count} inputs")
        taken = {*TAKEN, *dict(self.module.named_parameters()), *self.states}
        if not self.loss.kind:
            taken.discard("labels")  # which there are none of but the module's own
        return ([_free(name, taken) for name in names]
                + ["labels"] * (len(exported.inputs) - count))

    def _given(self) -> List[str]:
        from stowage._aten.exported import given_names
        return given_names(self.torch, self.module, self.args, self.kwargs)

    # --- Losses ---

    def _loss_value(self, lowering: Any, output: Any, validates: bool) -> Any:
        from stowage._aten import losses
        from stowage._aten.table import Traced

        kind = self.loss.kind
        if kind in ("", "call"):
            value = lowering.value(output)
            if math.prod(value.shape) != 1:
                raise InvalidArgument(f"[from_torch] the loss is of shape {tuple(value.shape)}; "
                                      "expected one number")
            return ops.reshape(value, shape=[]) if value.shape else value
        shape = self.labels_shape(output.shape)
        labels = lowering.builder.input(
            "labels", "i64" if kind == "cross_entropy" else output.dtype, shape)
        if kind == "cross_entropy":
            axis = class_axis(output.shape, shape)
            rank = len(output.shape)
            if axis != rank - 1:
                output = output.permuted([i for i in range(rank) if i != axis] + [axis])
            self.classes[:] = [output.shape[-1]]
            if validates:
                _output_predictions(lowering, output.value, labels)
            return losses.kept_cross_entropy(lowering, output, Traced(labels)).value
        value = output.value
        if kind == "mse":
            return ops.reduce_mean(ops.square(ops.sub(value, labels)), axes=[])
        # -(y log s(x) + (1 - y) log(1 - s(x))) = softplus(x) - x y
        return ops.reduce_mean(ops.sub(ops.softplus(value), ops.mul(value, labels)), axes=[])

    def labels_shape(self, output: Sequence[int]) -> List[int]:
        """Returns the shape of the labels for an output of this shape."""
        if self.loss.labels_shape is not None:
            # Of the examples; the first axis is that of the batch.
            return [output[0], *self.loss.labels_shape[1:]]
        if self.loss.kind != "cross_entropy":
            return list(output)
        if len(output) < 2:
            raise InvalidArgument(f"[from_torch] the output of shape {tuple(output)} has no "
                                  "classes; expected two axes or more")
        axis = 1 if len(output) > 3 else len(output) - 1
        return [n for i, n in enumerate(output) if i != axis]


def _output_predictions(lowering: Any, logits: Any, labels: Any) -> None:
    """Adds the outputs of WithPredictions (train/evaluation.h) for logits (..., C) and labels
    (...)."""
    zeros = lowering.fill(labels.shape, 0, "i64")
    safe = ops.where(ops.less(labels, zeros), zeros, labels)
    axis = len(labels.shape)
    own = ops.take_along_axis(logits, ops.reshape(safe, shape=[*labels.shape, 1]), axis=axis)
    larger = ops.greater(logits, own)
    outputs = {"predictions": ops.arg_max(logits), "label_classes": ops.cast(labels, dtype="i32"),
               "label_ranks": ops.reduce_sum(ops.cast(larger, dtype="i32"), axes=[axis])}
    for name, value in outputs.items():
        lowering.builder.output(name, value)


def _free(name: str, taken: Set[str]) -> str:
    """Returns an unused name, such as "x.2", and reserves it."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}.{count}"
    taken.add(free)
    return free


@contextlib.contextmanager
def _mode(module: Any, is_step: bool) -> Iterator[None]:
    """Sets the module to its mode for a step, or to eval mode for an evaluation, and restores it
    afterwards."""
    from stowage._aten.norms import CUMULATIVE

    modes = {each: each.training for each in module.modules()}
    # Torch would ask how many batches there were.
    counting = [each for each in module.modules()
                if getattr(each, "num_batches_tracked", None) is not None
                and getattr(each, "momentum", 0.0) is None]
    try:
        if not is_step:
            module.eval()
        for each in counting:
            each.momentum = CUMULATIVE
        yield
    finally:
        for each in counting:
            each.momentum = None
        for each, was_training in modes.items():
            each.training = was_training


def _wrapped(torch: Any, module: Any, loss: Optional[Callable[[Any, Any], Any]]) -> Any:
    """Returns a module that calls `module` with a tuple and a dict, and applies a loss function if
    one is given."""
    from stowage._aten.exported import plain

    class Step(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, args: Any, kwargs: Any, labels: Any = None) -> Any:
            made = self.module(*args, **kwargs)
            return plain(torch, made) if loss is None else loss(made, labels)

    made = Step()
    made.training = module.training
    return made


def class_axis(output: Sequence[int], labels: Sequence[int]) -> int:
    """Returns the axis of the output that the labels lack."""
    output, labels = tuple(output), tuple(labels)
    axes = [i for i in range(len(output)) if output[:i] + output[i + 1:] == labels]
    if len(output) > 3 and 1 in axes:
        return 1
    if not axes:
        raise InvalidArgument(f"[from_torch] labels of shape {labels} do not fit the output "
                              f"{output}; expected its axes but for the classes")
    return axes[-1]


def give_weights(module: Any, state: Mapping[str, Any]) -> Any:
    """Copies arrays into the tensors of a module's state with the same names."""
    import torch

    from stowage._aten.exported import real_view

    tensors = dict(module.named_parameters(remove_duplicate=False))
    tensors.update(module.named_buffers(remove_duplicate=False))
    unknown = sorted(set(state) - set(tensors))
    if unknown:
        raise InvalidArgument(f"[to_torch] the module has no {unknown}; expected the one that "
                              "from_torch was given")
    with torch.no_grad():
        for name, array in state.items():
            real_view(torch, tensors[name]).copy_(torch.from_numpy(array))
    return module
