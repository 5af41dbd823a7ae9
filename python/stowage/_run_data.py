"""The batches of a run, and its validation set."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence,
                    Tuple, Union)

import numpy as np

from stowage import _core
from stowage.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from stowage._trainers import Trainer

log = logging.getLogger("stowage")

Batch = Any  # an array, a tuple or list of arrays, or arrays by name
TrainData = Union[Tuple[Any, ...], Mapping[str, Any], Iterable[Batch], Callable[[int], Batch]]


def examples_of(array: Any, name: str) -> Any:
    """Checks an array for `name`, and returns it as a NumPy array that can be sliced along an
    axis."""
    _core.check_array(array, name)
    has_buffer = hasattr(array, "__array__") or not hasattr(array, "__dlpack__")
    return np.asarray(array) if has_buffer else np.from_dlpack(array)


def part_of(array: Any, axis: int, start: int, batch: int) -> Any:
    """Returns `batch` examples along an axis, padded with copies of the last one."""
    if axis == 0 and start + batch <= len(array):
        return array[start:start + batch]  # where it lies
    at = np.minimum(np.arange(start, start + batch), array.shape[axis] - 1)
    return np.take(array, at, axis)


def _is_array(value: Any) -> bool:
    return any(hasattr(value, name) for name in ("__array__", "__dlpack__", "__array_interface__"))


def are_arrays(data: Any) -> bool:
    """Returns whether the data is arrays of all examples rather than batches."""
    if isinstance(data, Mapping):
        return True
    return _is_array(data) or (isinstance(data, tuple) and bool(data)
                               and all(map(_is_array, data)))


class Inputs:
    """The inputs of a program: their names, and the batch axis of each."""

    def __init__(self, where: str, inputs: Sequence[Tuple[str, str, Tuple[int, ...]]],
                 axes: Sequence[int], order: Sequence[str] = ()) -> None:
        self.where = where  # of messages
        self.names = [name for name, _, _ in inputs]
        self.shapes = [shape for _, _, shape in inputs]
        self.axes = list(axes)
        # In which arrays without names are given.
        self.order = list(order) if set(order) == set(self.names) else self.names

    def listed(self, batch: Batch) -> List[Any]:
        """Returns the arrays of a batch, in the order of the inputs. Raises InvalidArgument."""
        if isinstance(batch, Mapping):
            named = dict(batch)
        else:
            arrays = list(batch) if isinstance(batch, (tuple, list)) else [batch]
            if len(arrays) != len(self.order):
                raise InvalidArgument(f"[{self.where}] a batch has {len(arrays)} arrays; expected "
                                      f"one for each of {self.order}")
            named = dict(zip(self.order, arrays))
        if set(named) != set(self.names):
            raise InvalidArgument(f"[{self.where}] a batch has arrays for {sorted(named)}; expected "
                                  f"one for each of {self.names}")
        return [named[name] for name in self.names]

    def count(self, arrays: Sequence[Any]) -> int:
        """Returns the number of examples in arrays. Raises InvalidArgument if it is 0 or
        differs."""
        counts = {name: np.shape(array)[axis] if np.ndim(array) > axis else 0
                  for name, array, axis in zip(self.names, arrays, self.axes) if axis >= 0}
        if not counts:
            raise InvalidArgument(f"[{self.where}] no input has an axis of examples")
        if len(set(counts.values())) > 1 or 0 in counts.values():
            raise InvalidArgument(f"[{self.where}] the arrays have {counts} examples; expected as "
                                  "many in each, and at least one")
        return next(iter(counts.values()))


class _Arrays:
    """Arrays of all examples. A batch may extend from one pass into the next."""

    def __init__(self, inputs: Inputs, data: Any, batch: int, shuffles: bool, seed: int) -> None:
        arrays = inputs.listed(data)
        self.arrays = [examples_of(array, name) if axis >= 0 else array
                       for array, name, axis in zip(arrays, inputs.names, inputs.axes)]
        self.axes = inputs.axes
        self.examples = inputs.count(self.arrays)
        self.size = batch
        self.shuffles = shuffles
        self.seed = seed
        self.orders: Dict[int, Any] = {}

    @property
    def steps_per_epoch(self) -> float:
        return self.examples / self.size

    def steps_of(self, epochs: int) -> int:
        return -(-epochs * self.examples // self.size)

    def begin(self, done: int, is_resumed: bool) -> None:
        pass  # batches are a function of the step

    def _order(self, number: int) -> Any:
        """Returns the order of the examples in a pass, drawn from the seed and the pass's
        number."""
        if number not in self.orders:
            self.orders = {key: order for key, order in self.orders.items() if key == number - 1}
            drawn = np.random.Philox(key=np.array([self.seed, number], np.uint64))
            self.orders[number] = np.argsort(drawn.random_raw(self.examples), kind="stable")
        return self.orders[number]

    def batch(self, step: int) -> List[Any]:
        first = (step - 1) * self.size
        at = np.arange(first, first + self.size)
        rows = at % self.examples
        if self.shuffles:
            passes = at // self.examples
            rows = np.concatenate([self._order(int(number))[rows[passes == number]]
                                   for number in np.unique(passes)])
        elif rows[-1] - rows[0] == self.size - 1:
            return [part_of(array, axis, int(rows[0]), self.size) if axis >= 0 else array
                    for array, axis in zip(self.arrays, self.axes)]
        return [np.take(array, rows, axis) if axis >= 0 else array
                for array, axis in zip(self.arrays, self.axes)]


class _Batches:
    """An iterable of batches, which is iterated once per pass."""

    def __init__(self, inputs: Inputs, data: Iterable[Batch], batch: int) -> None:
        self.inputs = inputs
        self.data = data
        self.size = batch
        self.taken = 0  # batches, of all passes
        self.first: Batch = None  # that the pass began with
        self.stream: Optional[Iterator[Batch]] = None

    @property
    def length(self) -> Optional[int]:
        """The number of batches in a pass, if the data has a length."""
        try:
            return len(self.data)  # type: ignore[arg-type]
        except TypeError:
            return None

    @property
    def steps_per_epoch(self) -> float:
        return float(self.length or math.inf)

    def steps_of(self, epochs: int) -> int:
        length = self.length
        if length is None:
            raise InvalidArgument("[fit] epochs is given, and the data does not know how many "
                                  "batches a pass has (len); give steps")
        return epochs * length

    def begin(self, done: int, is_resumed: bool) -> None:
        # An iterator goes on where it is.
        for step in range(done if is_resumed or not isinstance(self.data, Iterator) else 0):
            self._next(step + 1)

    def _next(self, step: int) -> Batch:
        is_new = self.stream is None
        if self.stream is None:
            self.stream = iter(self.data)
        for batch in self.stream:
            self.taken += 1
            if is_new:
                self.first = batch
            return batch
        if is_new:
            again = ", and gives them once" if isinstance(self.data, Iterator) else ""
            raise InvalidArgument(f"[fit] the data ended after {self.taken} batches{again}; step "
                                  f"{step} is to take another")
        self.stream = None
        return self._next(step)

    def batch(self, step: int) -> List[Any]:
        arrays = self.inputs.listed(self._next(step))
        axes = self.inputs.axes
        short = [axis >= 0 and np.ndim(array) == len(shape) and np.shape(array)[axis] < shape[axis]
                 for array, axis, shape in zip(arrays, axes, self.inputs.shapes)]
        return self._filled(arrays) if any(short) else arrays

    def _filled(self, arrays: List[Any]) -> List[Any]:
        """Fills up a batch of fewer examples with the first examples of the pass."""
        inputs = self.inputs
        missing = self.size - inputs.count(arrays)
        beginning = inputs.listed(self.first)
        at = np.arange(missing) % inputs.count(beginning)
        filled = []
        for name, array, first, axis in zip(inputs.names, arrays, beginning, inputs.axes):
            if axis >= 0:
                more = np.take(examples_of(first, name), at, axis)
                array = np.concatenate([examples_of(array, name), more], axis)
            filled.append(array)
        return filled


class _Function:
    """A function of the step that returns a batch."""

    steps_per_epoch = math.inf

    def __init__(self, inputs: Inputs, data: Callable[[int], Batch]) -> None:
        self.inputs = inputs
        self.data = data

    def steps_of(self, epochs: int) -> int:
        raise InvalidArgument("[fit] epochs is given, and the data is a function of the step, which "
                              "has no passes; give steps")

    def begin(self, done: int, is_resumed: bool) -> None:
        pass

    def batch(self, step: int) -> List[Any]:
        return self.inputs.listed(self.data(step))


def train_data(trainer: Trainer, data: TrainData, shuffle: Optional[bool],
               seed: int) -> Union[_Arrays, _Batches, _Function]:
    """Returns the batches of a run. Raises InvalidArgument and TypeError."""
    core = trainer._core
    inputs = Inputs("fit", core.inputs_of("train"), core.step_axes())
    batch = trainer.plan.batch
    if are_arrays(data):
        return _Arrays(inputs, data, batch, shuffle is not False, seed)
    if shuffle is not None:
        raise InvalidArgument(f"[fit] shuffle is {shuffle}, and the data is not arrays, whose order "
                              "it is of; shuffle where the batches are made")
    if isinstance(data, Iterable):
        return _Batches(inputs, data, batch)
    if callable(data):
        return _Function(inputs, data)
    raise TypeError(f"[fit] a {type(data).__name__} is no data; expected a tuple or dict of arrays, "
                    "an iterable of batches, or a function of the step")


class Validation:
    """The loss and the metrics of a validation set."""

    def __init__(self, trainer: Trainer, data: Any, metrics: Sequence[str]) -> None:
        core = trainer._core
        self.core = core
        self.size = core.evaluation_batch("validate")
        if self.size == 0:
            raise Unsupported(
                "[eval_data] the model has no loss in evaluations: "
                + ('`evaluate` has no output "loss"' if core.evaluation_batch("evaluate") else
                   'give `evaluate`, with an output "loss"'))
        joins, axes = core.evaluation_parts("validate", False)
        self.how = str(joins["loss"][0])
        self.inputs = Inputs("eval_data", core.inputs_of("validate"), axes,
                             [name for name, _, _ in core.inputs_of("train")])
        if isinstance(metrics, str):
            raise TypeError(f"[metrics] {metrics!r} is no list; expected one, as [{metrics!r}]")
        self.metrics = list(metrics)
        self.counted = [name for name in self.metrics if name != "perplexity"]
        for name in self.counted:
            _core.check_metric(name)
        self.classes = self._classes(trainer) if self.counted else 0
        self.counts: Optional[_core.ClassCounts] = None
        # Of labels that the loss leaves out, and so out of its mean.
        self.ignored: Optional[int] = trainer._ignored_label
        if self.ignored is None and self.how not in ("mean", "sum"):
            log.warning("[eval_data] the loss of several batches does not follow from theirs (%s); "
                        "the validation loss is the mean of theirs, by examples", self.how)
        self.data = data
        if isinstance(data, Iterator):
            raise InvalidArgument("[fit] eval_data is an iterator, which gives its batches once; "
                                  "expected arrays, or an iterable such as a list or a DataLoader")

    def _classes(self, trainer: Trainer) -> int:
        classes = trainer._classes[0] if trainer._classes else self.core.classes()
        if classes is None:
            raise Unsupported(f"[metrics] {self.counted} are of a model whose loss is a "
                              "cross-entropy, and the model's is not")
        if "top5" in self.counted and classes < 5:
            raise InvalidArgument(f"[metrics] top5 is of 5 classes or more; the model has {classes}")
        return classes

    def evaluate(self) -> Tuple[float, Dict[str, float]]:
        """Returns the loss of all examples, and their metrics. Raises Unsupported if the loss
        cannot be combined from batches."""
        self.counts = _core.ClassCounts(self.classes) if self.counted else None
        loss = self._loss()
        values: Dict[str, float] = {}
        for name in self.metrics:
            if self.counts is None or name == "perplexity":
                values[name] = float(np.exp(np.float64(loss)))
            else:
                values[name] = self.counts.value(name)
        return loss, values

    def _loss(self) -> float:
        total = weights = 0.0
        for batch in [self.data] if are_arrays(self.data) else self.data:
            arrays = [examples_of(array, name) if axis >= 0 else array for array, name, axis in
                      zip(self.inputs.listed(batch), self.inputs.names, self.inputs.axes)]
            count = self.inputs.count(arrays)
            for start in range(0, count, self.size):
                loss, weight = self._part(arrays, start, min(self.size, count - start))
                total += loss * weight if weight else 0.0
                weights += weight
        if weights == 0:
            raise InvalidArgument("[eval_data] there are no examples, or all labels are ignored")
        return total if self.how == "sum" else total / weights

    def _part(self, arrays: List[Any], start: int, count: int) -> Tuple[float, float]:
        """Returns the loss of the examples from `start` on, and its weight in the mean."""
        part = [part_of(array, axis, start, self.size) if axis >= 0 else array
                for array, axis in zip(arrays, self.inputs.axes)]
        if self.ignored is not None:
            at = self.inputs.names.index("labels")
            labels = np.array(part[at])
            labels[count:] = self.ignored
            part[at] = labels
            return self._run(part, count), float(np.count_nonzero(labels != self.ignored))
        loss = self._run(part, count)
        if count == self.size:
            return loss, 1.0 if self.how == "sum" else float(count)
        if self.how not in ("mean", "sum"):
            raise Unsupported(f"[eval_data] the loss of {count} examples does not follow from "
                              f"batches of {self.size}: {self.how}; give batches of "
                              f"{self.size}")
        # Less the padding's, which is the last example again and again.
        last = self._run([part_of(array, axis, start + count - 1, self.size) if axis >= 0 else array
                          for array, axis in zip(arrays, self.inputs.axes)], 0)
        padding = self.size - count
        if self.how == "sum":
            return loss - last * padding / self.size, 1.0
        return (loss * self.size - last * padding) / count, float(count)

    def _run(self, arrays: List[Any], count: int) -> float:
        """Returns the loss of a batch. Metrics count only its first examples."""
        outputs = self.core.evaluate("validate", arrays)
        if self.counts is not None:
            self.counts.add(*(outputs[name][:count] for name in
                              ("predictions", "label_classes", "label_ranks")))
        return float(outputs["loss"])
