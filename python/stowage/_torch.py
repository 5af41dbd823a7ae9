"""Models of torch. Nothing here is imported before it is asked for.

What torch's export loses, such as dropout, detach or a branch that is of training alone, would
be trained otherwise than its author wrote it. So a model is tried before it is handed out: one
step of it and one of a copy of the module, in the mode that the module is in, must agree in
their loss, in the gradient of every param and in the statistics of batch norms.
"""

from __future__ import annotations

import copy
import io
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from stowage._core import Model
from stowage._models import model as make_model
from stowage.errors import InvalidArgument, StowageError, Unsupported

_LOST = ("torch's export loses detach, no_grad, a backward of one's own, padding_idx and what a "
         "module does in training alone; leave it out of the module, or, if the difference is "
         "meant, give check=False")


def from_torch(
    module: Any,
    example_inputs: Union[Any, Tuple[Any, ...]],
    *,
    loss: str = "cross_entropy",
    input_names: Optional[Sequence[str]] = None,
    labels_shape: Optional[Sequence[int]] = None,
    check: bool = True,
) -> Model:
    """The model of a torch module, by its export to ONNX in memory.

    `example_inputs` is a tensor or a tuple of them; its first dimension is the batch, and
    is the model's. Params and batch norms keep their names and begin as they are in the
    module, which is left as it is. Params that want no gradient, buffers and constants are
    frozen. `loss` is what is trained for: "cross_entropy", "mse" or "bce" of the first
    output, by a further input "labels", or of another, as in "cross_entropy:logits"; or an
    output by its name. Of a module that returns a dict, names are its keys.

    The model trains as the module does in the mode it is in, which a step of each on the
    examples shows; `check=False` leaves that out, and with it twice the module's memory.

    Needs torch, onnx and onnxscript, which Stowage itself does not. Raises Unsupported where
    they are not there, for ops that Stowage does not know, and for a module whose loss,
    gradients or statistics would be others than torch's.
    """
    try:
        import torch
    except ImportError as error:
        raise Unsupported("[from_torch] there is no torch here; pip install torch onnx "
                          "onnxscript") from error
    if not isinstance(loss, str):
        raise TypeError(f"[from_torch] loss is a {type(loss).__name__}; expected "
                        '"cross_entropy", "mse", "bce" or the name of an output')
    inputs = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    names = list(input_names or (["x"] if len(inputs) == 1 else
                                 [f"x{i}" for i in range(1, len(inputs) + 1)]))
    if check:
        _check_mode(torch, module, inputs)
    refused: Optional[StowageError] = None
    for is_batched in (True, False):
        # Some modules take one batch alone.
        file, outputs, tensors = _export(torch, module, inputs, names, is_batched)
        if file is None:
            continue
        shapes = {"labels": list(labels_shape)} if labels_shape is not None else None
        batch = int(inputs[0].shape[0]) if is_batched and inputs[0].dim() > 0 else None
        try:
            made = make_model(file, batch=batch, loss=loss, shapes=shapes)
            trained = {name for name, param in module.named_parameters(remove_duplicate=False)
                       if param.requires_grad}
            made._frozen = [name for name in tensors if name not in trained]
            if check:
                _check_step(torch, module, inputs, made, loss, outputs)
            return made
        except StowageError as error:
            refused = refused or error
            if isinstance(error, _Differs):
                break
    assert refused is not None
    if isinstance(refused, _Differs):
        raise Unsupported(str(refused))
    if len(outputs) > 1 and " output " not in str(refused):
        raise type(refused)(f"{refused}; the loss {loss!r} is of the output "
                            f'"{outputs[_judged(loss, outputs)[1]]}" of {outputs}, '
                            "and may be of another, as in 'cross_entropy:logits'") from refused
    raise refused


def _judged(loss: str, outputs: List[str]) -> Tuple[str, int]:
    """What a loss computes, "" where it is an output, and the place of its output."""
    kind, _, name = loss.partition(":")
    if kind not in ("cross_entropy", "mse", "bce"):
        kind, name = "", loss
    return kind, outputs.index(name) if name in outputs else 0


class _Differs(Unsupported):
    """A model that trains otherwise than its module."""


def _export(torch: Any, module: Any, inputs: Tuple[Any, ...], names: List[str],
            is_batched: bool) -> Tuple[Optional[bytes], List[str], List[str]]:
    """The file, and what its outputs and its tensors are called; no file where the module
    takes one number of examples alone."""
    modes = {each: each.training for each in module.modules()}
    dimensions = None
    if is_batched:
        batch = torch.export.Dim("batch")
        dimensions = tuple({0: batch} if isinstance(x, torch.Tensor) and x.dim() > 0 else None
                           for x in inputs)
    file = io.BytesIO()
    try:
        # Batch norms keep their place and params their names only where they are not
        # folded into each other.
        module.eval()
        exported: Any = torch.onnx.export(module, inputs, dynamo=True, optimize=False,
                                          verbose=False, input_names=names,
                                          output_names=_keys(torch, module, inputs, names),
                                          dynamic_shapes=dimensions)
        exported.save(file)
    except ImportError as error:
        raise Unsupported(f"[from_torch] the export needs {error.name}; pip install onnx "
                          "onnxscript") from error
    except Exception as error:
        if is_batched:
            return None, [], []
        raise Unsupported(f"[from_torch] torch cannot export the module: {_first_line(error)}"
                          + _hint(module)) from error
    finally:
        for each, was_training in modes.items():
            each.training = was_training
    graph = exported.model_proto.graph
    return (file.getvalue(), [each.name for each in graph.output],
            [each.name for each in graph.initializer])


def _keys(torch: Any, module: Any, inputs: Tuple[Any, ...],
          input_names: List[str]) -> Optional[List[str]]:
    """What the outputs are called by a module that returns a dict; None by others."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        output = module(*inputs)
    if not isinstance(output, Mapping):
        return None
    leaves, _ = torch.utils._pytree.tree_flatten_with_path(output)
    keys = [".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)
            for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
    taken = {*input_names, "labels", "loss", "lr", "seed", "step", *module.state_dict()}
    return None if taken & set(keys) else keys


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or [''])[0][:300]}"


def _hint(module: Any) -> str:
    if getattr(getattr(module, "config", None), "use_cache", False):
        return "; set module.config.use_cache to False"
    return ""


def _check_mode(torch: Any, module: Any, inputs: Tuple[Any, ...]) -> None:
    """That the module computes the same again, and normalizes as it is going to."""
    frozen = [name for name, each in module.named_modules()
              if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)
              and each.track_running_stats and not each.training]
    if frozen:
        raise Unsupported(f'[from_torch] the batch norm "{frozen[0]}" is in eval mode, in which '
                          "it normalizes by its running statistics; here it would by the "
                          "batch's: call module.train()")
    net = _copy(module)
    with torch.random.fork_rng(), torch.no_grad():
        once, again = (_tensors(torch, net(*inputs)) for _ in range(2))
    if any(not torch.equal(a, b) for a, b in zip(once, again)):
        drop = [name for name, each in module.named_modules()
                if each.training and "Drop" in type(each).__name__]
        raise Unsupported("[from_torch] the module draws random numbers in the mode it is in"
                          + (f', as "{drop[0]}" does' if drop else "")
                          + ", which torch's export loses; call module.eval(), or give its "
                          "dropouts a p of 0")


def _copy(module: Any) -> Any:
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise Unsupported("[from_torch] the module cannot be copied, so that it cannot be tried: "
                          f"{_first_line(error)}; give check=False") from error


def _tensors(torch: Any, output: Any) -> List[Any]:
    leaves, _ = torch.utils._pytree.tree_flatten(output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _check_step(torch: Any, module: Any, inputs: Tuple[Any, ...], made: Model, loss: str,
                outputs: List[str]) -> None:
    """That a step is torch's: its loss, gradients and statistics."""
    from stowage._trainers import Trainer

    with Trainer(made, optimizer="sgd", lr=1.0, levers="none", device="cpu") as trainer:
        net = _copy(module)
        kind, at = _judged(loss, outputs)
        made_outputs = _tensors(torch, net(*inputs))
        output = made_outputs[at] if at < len(made_outputs) else None
        given = list(inputs)
        labels = None
        if kind and output is not None:
            labels = _labels(torch, trainer.inputs["labels"], output, kind)
            given.append(labels)
        theirs = _loss(torch, output, labels, kind)
        if len(given) != len(trainer.inputs) or theirs is None or theirs.numel() != 1:
            raise Unsupported("[from_torch] the module cannot be tried on the examples: a step "
                              f"takes {list(trainer.inputs)} for {len(inputs)} examples' arrays "
                              f"and the loss {loss!r}, of the outputs {outputs}; give "
                              "check=False")
        theirs.backward()
        before = {name: np.array(value) for name, value in trainer.state_dict().items()}
        ours = trainer.step(*given)
        after = trainer.state_dict()
    _expect_close("its loss is", ours, float(theirs), 1e-3, 1e-6)
    gradients = {name: (param.grad if param.grad is not None else torch.zeros_like(param))
                 for name, param in net.named_parameters(remove_duplicate=False)
                 if param.requires_grad}
    largest = max((float(g.abs().max()) for g in gradients.values() if g.numel()), default=0.0)
    aliases = {id(param): name for name, param in net.named_parameters(remove_duplicate=False)
               if name in before}
    for name, param in net.named_parameters():
        if name not in gradients or id(param) in aliases:
            continue
        if float(gradients[name].abs().max()) > 0:
            raise _Differs(f'[from_torch] "{name}" has a gradient in torch, and is no param of '
                           f"the export; {_LOST}")
    for name, gradient in gradients.items():
        if name not in before:
            continue
        g = gradient.detach().float().numpy()
        step = before[name] - after[name]
        # A param of f32 takes up so much of its gradient.
        slack = 4e-7 * float(np.abs(before[name]).max(initial=0)) + 1e-4 * largest
        off = float(np.abs(step - g).max(initial=0))
        if not off <= slack + 2e-2 * float(np.abs(g).max(initial=0)):
            raise _Differs(f'[from_torch] "{name}" would be trained otherwise than torch trains '
                           f"it: on the examples its gradient is off by {off:.3g}, of "
                           f"{float(np.abs(g).max(initial=0)):.3g}; {_LOST}")
    for name, buffer in net.named_buffers():
        if name in after and buffer.is_floating_point():
            _expect_close(f'the statistics "{name}" are', after[name],
                          buffer.detach().float().numpy(), 1e-3, 1e-5)


def _expect_close(what: str, ours: Any, theirs: Any, relative: float, absolute: float) -> None:
    if np.allclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True):
        return
    at = np.argmax(np.abs(np.asarray(ours) - np.asarray(theirs)))
    raise _Differs(f"[from_torch] the module would be trained otherwise than torch trains it: on "
                   f"the examples {what} {np.ravel(ours)[at]:.6g}, and {np.ravel(theirs)[at]:.6g} "
                   f"in torch; {_LOST}")


def _labels(torch: Any, wanted: Any, output: Any, kind: str) -> Any:
    random = torch.Generator().manual_seed(0)
    if kind != "cross_entropy":
        return torch.rand(wanted.shape, generator=random)
    classes = output.shape[_class_axis(tuple(output.shape), wanted.shape)]
    kind = torch.int64 if wanted.dtype == "i64" else torch.int32
    return torch.randint(0, classes, wanted.shape, generator=random).to(kind)


def _class_axis(output: Tuple[int, ...], labels: Tuple[int, ...]) -> int:
    """The axis of the output that the labels lack."""
    axes = [i for i in range(len(output)) if output[:i] + output[i + 1:] == tuple(labels)]
    return axes[-1] if axes else len(output) - 1


def _loss(torch: Any, output: Any, labels: Any, kind: str) -> Any:
    functional = torch.nn.functional
    if labels is None:
        return output
    output = output.float()
    if kind == "mse":
        return functional.mse_loss(output, labels)
    if kind == "bce":
        return functional.binary_cross_entropy_with_logits(output, labels)
    axis = _class_axis(tuple(output.shape), tuple(labels.shape))
    rows = output.movedim(axis, -1).reshape(-1, output.shape[axis])
    return functional.cross_entropy(rows, labels.reshape(-1).long())


def give_weights(module: Any, state: Mapping[str, Any]) -> Any:
    """Copies arrays into the tensors of a module's state that are called as they are."""
    import torch

    tensors = module.state_dict()
    unknown = sorted(set(state) - set(tensors))
    if unknown:
        raise InvalidArgument(f"[to_torch] the module has no {unknown}; expected the one that "
                              "from_torch exported")
    with torch.no_grad():
        for name, array in state.items():
            tensors[name].copy_(torch.from_numpy(array))
    return module
