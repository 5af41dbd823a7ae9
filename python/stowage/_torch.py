"""Models of torch. Nothing here is imported before it is asked for."""

from __future__ import annotations

import io
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from stowage._core import Model
from stowage._models import model as make_model
from stowage.errors import InvalidArgument, Unsupported


def from_torch(
    module: Any,
    example_inputs: Union[Any, Tuple[Any, ...]],
    *,
    loss: str = "cross_entropy",
    input_names: Optional[Sequence[str]] = None,
    labels_shape: Optional[Sequence[int]] = None,
) -> Model:
    """The model of a torch module, by its export to ONNX in memory.

    `example_inputs` is a tensor or a tuple of them; its first dimension is the batch, and
    is the model's. Params and batch norms keep their names and begin as they are in the
    module, which is left as it is. `loss` is what is trained for: "cross_entropy", "mse" or
    "bce" of the first output, by a further input "labels", or an output by its name.

    Needs torch, onnx and onnxscript, which Stowage itself does not. Raises Unsupported where
    they are not there, or for ops that Stowage does not know.
    """
    try:
        import torch
    except ImportError as error:
        raise Unsupported("[from_torch] there is no torch here; pip install torch onnx "
                          "onnxscript") from error
    inputs = example_inputs if isinstance(example_inputs, tuple) else (example_inputs,)
    names = list(input_names or (["x"] if len(inputs) == 1 else
                                 [f"x{i}" for i in range(1, len(inputs) + 1)]))
    file = io.BytesIO()
    was_training = module.training
    try:
        # Batch norms keep their place and params their names only where they are not
        # folded into each other.
        module.eval()
        exported: Any = torch.onnx.export(module, inputs, dynamo=True, optimize=False,
                                     verbose=False, input_names=names)
        exported.save(file)
    except ImportError as error:
        raise Unsupported(f"[from_torch] the export needs {error.name}; pip install onnx "
                          "onnxscript") from error
    finally:
        module.train(was_training)
    shapes = {"labels": list(labels_shape)} if labels_shape is not None else None
    return make_model(file.getvalue(), loss=loss, shapes=shapes)


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
