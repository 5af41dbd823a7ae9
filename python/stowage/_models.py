"""Models that can be planned and trained."""

from __future__ import annotations

import operator
import os
from typing import (TYPE_CHECKING, Any, Callable, Dict, Literal, Mapping, Optional, Sequence, Tuple,
                    Union)

from stowage import _core
from stowage._core import GraphBuilder, Model
from stowage.errors import FileError, InvalidArgument, NotFound

BuildFunction = Callable[[GraphBuilder, int], None]
DType = Literal["f32", "bf16", "f16"]
ModelLike = Union[str, bytes, "os.PathLike[str]", Model, BuildFunction]

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class ModelOptions(TypedDict, total=False):
        """The keyword arguments of ``model`` except `batch`."""

        seq: Optional[int]
        dtype: Optional[DType]
        dropout: Optional[float]
        loss: Optional[str]
        dims: Optional[Mapping[str, int]]
        shapes: Optional[Mapping[str, Sequence[int]]]
        trainable: Optional[Sequence[str]]
        evaluate: Optional[BuildFunction]


def whole_number(value: Any, name: str, most: int = (1 << 63) - 1) -> int:
    """Checks that the argument `name` is an integer from 0 to `most`, and returns it."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(f"[{name}] {value!r} is no whole number") from error
    if not 0 <= number <= most:
        raise InvalidArgument(f"[{name}] {number} is not from 0 to {most}")
    return number


def _is_of_torch(source: Any) -> bool:
    return any(kind.__module__.partition(".")[0] == "torch" for kind in type(source).__mro__)


def _check_options(kind: str, allowed: Tuple[str, ...], given: Dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None and name not in allowed:
            raise InvalidArgument(f"[model] {name} is given for {kind}"
                                  + (f", which takes {', '.join(allowed)}" if allowed else
                                     "; give it where the model is made"))


def model(
    source: ModelLike,
    *,
    batch: Optional[int] = None,
    seq: Optional[int] = None,
    dtype: Optional[DType] = None,
    dropout: Optional[float] = None,
    loss: Optional[str] = None,
    dims: Optional[Mapping[str, int]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    trainable: Optional[Sequence[str]] = None,
    evaluate: Optional[BuildFunction] = None,
) -> Model:
    """Returns a model. `source` is one of:

    - a name that ``model_names()`` lists, with `batch` examples per step, sequences of `seq`
      tokens, elements of `dtype` ("f32", the default, or "bf16"), and a probability of `dropout`;
    - an ONNX file: its bytes, or a path that ends in .onnx. `loss` is the training loss. It is
      "cross_entropy" (the default), "mse" or "bce" of the first output and of an input "labels". A
      name after a colon selects another output, as in "cross_entropy:logits". `loss` may also name
      an output that is a loss. `dims` are sizes of named dimensions, and `shapes` are whole shapes
      of inputs. `trainable` are patterns of tensors that train although they look like constants
      of the model's code, such as masks and scalars (docs/guides/onnx.md);
    - a function of a ``GraphBuilder`` and a number of examples, which builds a graph with an output
      "loss" op by op (``stowage.ops``). `evaluate` is a function that builds a graph with other
      outputs and with the same params in the same order.

    Raises NotFound for an unknown name or file. Raises InvalidArgument for sizes that the model
    does not support, and for options of another kind of model. Raises Unsupported for unknown ONNX
    ops, and TypeError for any other `source`.
    """
    if _is_of_torch(source):
        raise TypeError(f"[model] a {type(source).__name__} of torch is no model yet; expected "
                        "what stowage.from_torch(module, example_inputs) makes of it")
    batch = None if batch is None else whole_number(batch, "batch")
    seq = None if seq is None else whole_number(seq, "seq")
    given: Dict[str, Any] = {"batch": batch, "seq": seq, "dtype": dtype, "dropout": dropout,
                             "loss": loss, "dims": dims, "shapes": shapes,
                             "trainable": trainable, "evaluate": evaluate}
    if isinstance(source, Model):
        if batch == source.batch:
            del given["batch"]
        _check_options("a model that is made already", (), given)
        return source
    if callable(source):
        _check_options("a function that builds a model", ("batch", "evaluate"), given)
        name = getattr(source, "__name__", "model")
        return _core.built_model(name, source, evaluate, 1 if batch is None else batch)
    if isinstance(source, str) and not source.endswith(".onnx"):
        _check_options("a model by name", ("batch", "seq", "dtype", "dropout"), given)
        return _core.named_model(source, batch, seq, dtype or "f32", dropout or 0.0)
    if not isinstance(source, (str, bytes, bytearray, os.PathLike)):
        raise TypeError(f"[model] a {type(source).__name__} is no model; expected a name, an "
                        "ONNX file's bytes or path, a function, or what from_torch made")
    if isinstance(trainable, str):
        raise TypeError(f"[trainable] {trainable!r} is no list; expected one, as [{trainable!r}]")
    _check_options("an ONNX file", ("batch", "loss", "dims", "shapes", "trainable"), given)
    path = ""
    if not isinstance(source, (bytes, bytearray)):
        path = os.fspath(source)
        try:
            with open(path, "rb") as file:
                source = file.read()
        except FileNotFoundError as error:
            raise NotFound(f'[model] there is no file "{path}"') from error
        except OSError as error:
            raise FileError(f'[model] "{path}" cannot be read: {error.strerror}') from error
    return _core.onnx_model(bytes(source), path, batch, dict(dims or {}),
                            {k: list(v) for k, v in (shapes or {}).items()},
                            loss or "cross_entropy", list(trainable or ()))


def model_names() -> Sequence[str]:
    """Returns the names of the built-in models, smallest first."""
    return _core.model_names()
