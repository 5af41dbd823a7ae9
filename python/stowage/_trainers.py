"""Trainers, which run a model's steps in its planned arena."""

from __future__ import annotations

import contextlib
import math
import os
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Literal, Mapping,
                    NamedTuple, Optional, Sequence, Set, Tuple, Type, Union)

import numpy as np

from stowage import _core
from stowage._former_names import takes_former_names
from stowage._models import ModelLike, model as make_model, whole_number
from stowage._optimizers import Group, OptimizerLike, choose, is_scheduler, real_number
from stowage._plans import (MOST_THREADS, DeviceName, MemoryOptimizations, LossScale, Plan, Size,
                            framed, log, log_plan, make_core_plan, make_request)
from stowage._run_data import TrainData, examples_of, part_of
from stowage._runs import (Evaluation, OnEvaluation, OnStep, RunResult, ScheduleKind, fit,
                           validate)
from stowage._schedules import Schedule, rate_of
from stowage._torch_optimizers import give_states
from stowage.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stowage._models import ModelOptions

Path = Union[str, "os.PathLike[str]"]

# How an output of all examples is made of those of several evaluations.
_TOGETHER: Dict[str, Callable[..., Any]] = {"sum": np.sum, "mean": np.mean, "max": np.max}


class Report:
    """A plan and the losses of a run. A notebook shows a page of both."""

    def __init__(self, page: str, text: str) -> None:
        self.page = page
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return framed(self.page)


class Input(NamedTuple):
    """The type and shape of an array for a step."""

    dtype: str
    """The type of its elements: "f32", "i32", ..."""
    shape: Tuple[int, ...]
    """Its dimensions."""


class LoadedWeights(NamedTuple):
    """The mapping between a file's tensors and a model's params."""

    loaded: int
    """Params that the file had."""
    missing: List[str]
    """Params that it lacked, and was allowed to."""
    unused: List[str]
    """Tensors of it that no param took, likewise."""


def _expect_f32(rate: float) -> None:
    """Raises InvalidArgument for a learning rate that f32, the type of the step's rate, cannot
    hold."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(np.float32(rate))
    if not math.isfinite(rounded):
        raise InvalidArgument(f"[trainer] the learning rate {rate} is not finite in f32")
    if rounded == 0 and rate != 0:
        raise InvalidArgument(f"[trainer] the learning rate {rate} is 0 in f32")


def _joined(parts: List[Any], axis: int, runs: int, count: int, batch: int) -> Any:
    """Joins the outputs of batches along an axis to outputs of `count` examples. The axis holds all
    examples `runs` times in turn."""
    dims = parts[0].shape
    rows = dims[axis] // (runs * batch)  # of an example
    each = [p.reshape(*dims[:axis], runs, rows * batch, *dims[axis + 1:]) for p in parts]
    whole = np.concatenate(each, axis + 1)
    whole = whole[(slice(None),) * (axis + 1) + (slice(count * rows),)]
    return whole.reshape(*dims[:axis], runs * rows * count, *dims[axis + 1:])


class Trainer:
    """A model that is trained inside its budget.

        with stowage.Trainer("mlp", batch=32, budget="1MB", optimizer="sgd") as trainer:
            loss = trainer.step(x, y)

    The arguments are those of ``stowage.plan``, and

    - `device`: "cpu", "cuda", or "auto", which is a GPU if one works;
    - `lr`: the learning rate, or a ``Schedule`` of it. It defaults to the rate of the torch.optim
      object, of the model, or of the optimizer, in this order. The attribute may be set between
      steps;
    - `ema`: the decay of an exponential moving average of each trained param, as 0.999. Every step
      updates it in the arena. The first step copies the param, as in torch's ``AveragedModel``.
      `fit` computes its validation loss with the averages, and `averaged` uses them elsewhere;
    - `offload_dir`: the folder of the file that holds offloaded values if `optimizations` has
      {"offload": "disk"}. The default is the system's folder for temporary files;
    - `seed`: the seed of initial values, dropout and all other random numbers.

    If `optimizer` is an object of torch.optim, each step reads the current rates of its groups, and
    their momentum (or betas[0]) if a scheduler cycles it. torch's schedulers therefore work as in
    torch: create the scheduler before the trainer, and call ``scheduler.step()`` after
    ``trainer.step``. If the program itself changes "momentum", "betas" or "weight_decay", name them
    in `varying`. Training starts from the object's states, and `to_torch` copies them back.

    The constructor allocates the arena. Steps allocate nothing. Several threads may share a trainer
    and take turns. A step releases the GIL. A trainer must not be used in a forked child.
    """

    @takes_former_names
    def __init__(
        self,
        model: ModelLike,
        batch: Optional[int] = None,
        budget: Size = None,
        optimizations: MemoryOptimizations = "auto",
        *,
        recompute_keep: Sequence[str] = (),
        recompute_always: Sequence[str] = (),
        optimizer: OptimizerLike = None,
        momentum: Optional[float] = None,
        weight_decay: Optional[float] = None,
        varying: Sequence[str] = (),
        lr: Union[float, Schedule, None] = None,
        groups: Sequence[Group] = (),
        freeze: Sequence[str] = (),
        clip_norm: Optional[float] = None,
        ema: Optional[float] = None,
        loss_scale: LossScale = None,
        allow_batch_change: bool = False,
        plan_cache: Union[bool, Path] = False,
        device: DeviceName = "auto",
        offload_dir: Union[str, "os.PathLike[str]", None] = None,
        threads: int = 0,
        seed: int = 0,
        **options: Unpack[ModelOptions],
    ) -> None:
        made = make_model(model, batch=batch, **options)
        chosen = choose(optimizer, made, momentum, weight_decay, varying)
        if is_scheduler(lr, optimizer):
            lr = None  # whose rates are those of its optimizer
        elif lr is not None and chosen.lr is not None:
            raise InvalidArgument(f"[trainer] lr is given twice: {lr!r}, and by the optimizer, "
                                  f"{chosen.lr!r}")
        request = make_request(budget, optimizations, recompute_keep, recompute_always, chosen,
                               groups, freeze, clip_norm, ema, loss_scale, allow_batch_change,
                               plan_cache, evaluates=True)
        threads = whole_number(threads, "threads", most=MOST_THREADS)
        self._seed = seed = whole_number(seed, "seed", most=(1 << 64) - 1)
        offload = "none"
        if isinstance(optimizations, Mapping):
            offload = str(optimizations.get("offload", "none"))
        folder = "" if offload_dir is None else os.fspath(offload_dir)
        opened = _core.open_device(device, made._dtype, threads, offload, folder)
        if opened.why:
            log.info("%s", opened.why)
        self._plan = Plan(make_core_plan(made, request, opened.name, threads))
        log_plan(self._plan)
        self._core = _core.Trainer(self._plan._core, opened, seed)
        self._holds_for: Optional[Callable[[int], bool]] = getattr(made, "_holds_for", None)
        self._ignored_label: Optional[int] = getattr(made, "_ignored_label", None)
        self._classes: List[int] = getattr(made, "_classes", [])
        initial = getattr(made, "_initial", None)
        if initial is not None:
            self._core.write(initial())
        self._followed = chosen.followed
        self._group_inputs = self._core.group_inputs()
        self._step = self._core.step if self._followed is None else self._step_followed
        self._joins: Dict[bool, Tuple[Dict[str, Tuple[str, int, int, str]], List[int]]] = {}
        if self._followed is not None:
            states, steps = self._followed.states()
            for name, tensor in states.items():
                wide = tensor.double() if tensor.dtype.itemsize > 4 else tensor.float()
                dtype = self._core.read(name).dtype
                self._core.write({name: wide.contiguous().numpy().astype(dtype, copy=False)})
            if steps:
                self._core.set_steps(steps)
        if lr is None:
            lr = self._plan._core.learning_rate() if chosen.lr is None else chosen.lr
        self._set_rate(lr)

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self._plan

    @property
    def lr(self) -> float:
        """The learning rate of the next step. Setting it to a number or a ``Schedule`` affects all
        later steps. If the optimizer is an object of torch.optim, set the rate there."""
        return self._core.rate() if self._followed is None else self._followed.rate()

    @lr.setter
    def lr(self, value: Union[float, Schedule]) -> None:
        self._check_rate(value)
        self._set_rate(value)

    def _check_rate(self, value: Union[float, Schedule]) -> None:
        if self._followed is not None:
            raise InvalidArgument(f"[trainer] the rate is that of the trainer's "
                                  f"{type(self._followed.optimizer).__name__}; set it there")
        _expect_f32(value.peak if isinstance(value, Schedule) else real_number(value, "lr"))

    def _set_rate(self, value: Union[float, Schedule]) -> None:
        if isinstance(value, Schedule):
            _expect_f32(value.peak)
            self._core.set_rate(rate_of(value))
        else:
            value = real_number(value, "lr")
            _expect_f32(value)
            self._core.set_rate(_core.Rate(value, 1, 0, 1.0, "constant", 1.0, 1.0))
        self._rate = value

    def _follow_rate(self) -> None:
        """Reads the current rates and other settings of a torch.optim object."""
        if self._followed is None:
            return
        self._set_rate(self._followed.rate())
        values = self._followed.values(self._group_inputs)
        for name, value in zip(self._group_inputs, values):
            if name.startswith("lr:"):
                _expect_f32(value)
        self._core.set_group_values(values)

    def _made_step(self) -> None:
        if self._followed is not None:
            self._followed.made_step()

    @property
    def steps(self) -> int:
        """The number of completed steps, including the steps before a resumed checkpoint."""
        return self._core.steps()

    @property
    def inputs(self) -> Dict[str, Input]:
        """The input arrays of a step, in order. Maps the name of each to its element type and
        shape."""
        return {name: Input(dtype, shape) for name, dtype, shape in
                self._core.inputs_of("train")}

    @property
    def arena_bytes(self) -> int:
        """The allocated bytes."""
        return self._core.arena_bytes()

    @property
    def device(self) -> str:
        """The device: "cpu", or "cuda" with details of the GPU."""
        return self._core.device()

    def step(self, *inputs: Any, **named: Any) -> float:
        """Runs one training step. Returns its loss, computed with the params before the update.

        The arguments are one array for each of `inputs`, in order or by name. An array is a NumPy
        array, or an object in host memory with __dlpack__, such as a torch tensor. It must have the
        input's type and shape, in C order. Each array is copied once, into the arena.

        Raises WrongDType or InvalidArgument for an array that does not fit, and changes nothing.
        Raises InvalidArgument for a label out of range.
        """
        return self._step(*inputs, **named)

    def _step_followed(self, *inputs: Any, **named: Any) -> float:
        self._follow_rate()
        loss = self._core.step(*inputs, **named)
        self._made_step()
        return loss

    def fit(
        self,
        train_data: TrainData,
        *,
        steps: Optional[int] = None,
        epochs: Optional[int] = None,
        lr: Union[float, Schedule, None] = None,
        schedule: Optional[ScheduleKind] = None,
        warmup: Union[int, float] = 0,
        min_lr: Optional[float] = None,
        shuffle: Optional[bool] = None,
        eval_data: Any = None,
        eval_every: int = 0,
        patience: int = 0,
        metrics: Sequence[str] = (),
        save: Optional[Path] = None,
        save_every: int = 0,
        keep_last: int = 1,
        resume: bool = True,
        log: Optional[Path] = None,
        on_nonfinite: Literal["stop", "skip"] = "stop",
        on_step: Optional[OnStep] = None,
        on_evaluation: Optional[OnEvaluation] = None,
    ) -> RunResult:
        """Runs the steps of a training run, as ``stowage train`` and C++ programs do.

            result = trainer.fit((x, y), epochs=10, lr=3e-4, schedule="cosine", warmup=0.05,
                                 eval_data=(x_test, y_test), eval_every=100, patience=3,
                                 save="run.safetensors", save_every=100)

        `train_data` is one of the following. Arrays are in the order of `inputs`, or a dict by
        name.

        - a tuple or dict of arrays of all examples. The seed determines a new order for every pass.
          With ``shuffle=False`` the order stays as given. A batch may extend from one pass into the
          next. A run of `epochs` passes ends with the batch that contains the last example;
        - an iterable of batches, such as a list or a DataLoader, which is iterated once per pass. A
          batch with fewer examples than the plan's batch, such as the last one, is filled up with
          the first examples of its pass;
        - a function that returns the batch of a step, given its number. The first step is 1.

        The run ends after step `steps`, or after `epochs` passes. Both count the whole run, which
        includes earlier steps of the trainer and the steps of a resumed checkpoint. Their batches
        are skipped. An iterator continues from its current position unless the run is resumed.

        `lr` and `schedule` ("constant" by default), with a `warmup` (a number or a fraction of the
        steps) and a final rate of `min_lr`, set the trainer's `lr`. Without them it does not
        change. Callbacks may set it during the run. Clipping and weight decay are settings of the
        trainer.

        `eval_data`, arrays or an iterable of batches, is the validation set. Its loss is computed
        in eval mode, and with the averages if the trainer has an `ema`. It is computed after the
        last step, after every `eval_every` steps, and before each checkpoint. The run stops early
        if the loss has not fallen in `patience` evaluations of `eval_every`. `metrics` are computed
        with the loss, as `validate` computes them.

        `save` is the path of the newest checkpoint, which is written after every `save_every` steps
        and after the last step. The last `keep_last` checkpoints, and with `eval_data` the best
        one, have files of their own in the same folder ("run.best.safetensors"). With `resume`, the
        run continues from the checkpoint if it exists. Its results are bit-identical to those of an
        uninterrupted run. Otherwise the file is replaced.

        `log` is a file or a folder. A file gets a row of CSV after each step. A folder, which
        exists or whose name ends in "/", gets an event file for TensorBoard. ``stowage train
        --log`` writes the same files. A resumed run appends.

        `on_nonfinite` is "stop", which raises NotFinite if the loss of a step is NaN or infinite,
        or "skip", which undoes the step. `on_step` is called with the ``StepFigures`` of each step,
        and `on_evaluation` with the ``Evaluation`` of each evaluation. A callback that returns True
        ends the run. Callbacks may evaluate, read and save.

        If the data or a callback raises an exception, or on KeyboardInterrupt, the run ends after
        the last completed step, saves it, and raises the exception. The trainer stays usable.
        Raises InvalidArgument for arguments that do not fit, and changes nothing. Raises FileError
        if the last checkpoint or the log cannot be written.
        """
        return fit(self, train_data, steps=steps, epochs=epochs, lr=lr, schedule=schedule,
                   warmup=warmup, min_lr=min_lr, shuffle=shuffle, eval_data=eval_data,
                   eval_every=eval_every, patience=patience, metrics=metrics, save=save,
                   save_every=save_every, keep_last=keep_last, resume=resume, log=log,
                   on_nonfinite=on_nonfinite, on_step=on_step, on_evaluation=on_evaluation)

    def evaluate(self, *inputs: Any, **named: Any) -> Dict[str, Any]:
        """Returns the outputs of the model, by name, for any number of examples. An ONNX file's
        model returns its outputs, such as logits. A built-in model returns its loss and, if it is a
        classifier, predictions.

        Inputs are given as for `step`, in order or by name, with any number of examples. They are
        processed in batches of the plan's size. Inputs without a batch axis, such as a shared
        table, are given as for `step`. A sum or mean over all examples is combined from whole
        batches. Other outputs, such as a mean over a mask, need exactly one batch, and are refused
        otherwise.
        """
        batch = self._core.evaluation_batch("evaluate")
        if batch == 0:
            raise Unsupported("[evaluate] the model was built without an evaluation; give "
                              "`evaluate`")
        names = [name for name, _, _ in self._core.inputs_of("evaluate")]
        unknown = sorted(set(named) - set(names[len(inputs):]))
        if unknown:
            raise InvalidArgument(f"[evaluate] there is no input for {unknown}; the inputs are "
                                  f"{names}")
        given = [*inputs, *(named[name] for name in names if name in named)]
        arrays = [examples_of(each, names[i] if i < len(names) else f"#{i}")
                  for i, each in enumerate(given)]
        wanted = self._core.inputs_of("evaluate")
        if len(arrays) != len(wanted) or all(
                a.shape == shape for a, (_, _, shape) in zip(arrays, wanted)):
            return self._core.evaluate("evaluate", arrays)
        _, axes = self._joins_of(False)
        count = self._count_of(arrays, axes, batch)
        how_joined, _ = self._joins_of(count % batch > 0)
        parts: List[Dict[str, Any]] = []
        for start in range(0, count, batch):
            parts.append(self._core.evaluate("evaluate", [
                a if axis < 0 else part_of(a, axis, start, batch) for a, axis in zip(arrays, axes)]))
        joined: Dict[str, Any] = {}
        for name, first in parts[0].items():
            how, axis, runs, why_whole = how_joined[name]
            if how == "examples" and why_whole:
                raise Unsupported(
                    f'[evaluate] "{name}" of {count} examples does not follow from batches of '
                    f"{batch}, of which one is not whole: {why_whole}; give a multiple of {batch}")
            if how == "examples":
                joined[name] = _joined([p[name] for p in parts], axis, runs, count, batch)
            elif how == "same":
                joined[name] = first
            elif how not in _TOGETHER:
                raise Unsupported(
                    f'[evaluate] "{name}" of {count} examples does not follow from evaluations '
                    f"of {batch} each: {how}; give {batch} examples, or make it an output of "
                    "each example")
            elif count % batch:
                raise InvalidArgument(
                    f'[evaluate] "{name}" is a {how} over whole batches of {batch}, and {count} '
                    "examples are none; leave some away")
            else:
                joined[name] = _TOGETHER[how]([p[name] for p in parts], axis=0)
        return joined

    def validate(self, data: Any, metrics: Sequence[str] = ()) -> Evaluation:
        """Returns the loss of `data`, arrays or an iterable of batches, in eval mode, and
        `metrics`. `fit` computes them in the same way for its `eval_data`.

        Models whose loss is a cross-entropy have the metrics "accuracy", "top5" (at most four other
        classes have a larger logit than the label), "f1_macro", "f1_micro" and "mean_iou". Means
        are over the classes that a label or a prediction has, as in scikit-learn. "perplexity" is
        the exponential of the loss. Labels that the loss ignores are not counted.

        Raises Unsupported for a model without a loss in evaluations, and for metrics that the model
        does not have. Raises InvalidArgument for data that does not fit.
        """
        return validate(self, data, metrics)

    def _joins_of(self, is_partial: bool) -> Tuple[Dict[str, Tuple[str, int, int, str]], List[int]]:
        if is_partial not in self._joins:
            self._joins[is_partial] = self._core.evaluation_parts("evaluate", is_partial)
        return self._joins[is_partial]

    def _count_of(self, arrays: List[Any], axes: List[int], batch: int) -> int:
        """Returns the number of examples of inputs with these batch axes. Raises
        InvalidArgument."""
        wanted = self._core.inputs_of("evaluate")
        counts: Set[Optional[int]] = set()
        for array, axis, (name, _, shape) in zip(arrays, axes, wanted):
            if axis < 0:
                continue
            if shape[axis] != batch:
                raise InvalidArgument(f'[evaluate] "{name}" of {batch} examples has the shape '
                                      f"{shape}; no other number than {batch} can be evaluated")
            counts.add(array.shape[axis] if array.ndim == len(shape) else None)
        if counts == {0}:
            raise InvalidArgument("[evaluate] there are no examples")
        if len(counts) != 1 or None in counts:
            raise InvalidArgument("[evaluate] expected arrays of one number of examples, got "
                                  f"{[a.shape for a in arrays]}")
        (count,) = counts
        assert count is not None
        if self._holds_for is not None and not self._holds_for(count):
            raise InvalidArgument(f"[evaluate] the module computes otherwise with {count} examples "
                                  "than with those that it was imported with; give as many")
        return count

    def state_dict(self) -> Dict[str, Any]:
        """Returns copies of the model's params and of its batch norms' running statistics, by name.
        bf16 is converted to float32. Optimizer states are not included. `save` stores all
        values."""
        return {name: self._core.read(name) for name in self._core.weights()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Loads params by name from arrays as for `step`. Float32 arrays for bf16 params are
        rounded. If `strict`, exactly the params of the model must be given. Raises InvalidArgument
        and WrongDType, and then changes nothing."""
        names = set(self._core.weights())
        missing, unknown = sorted(names - set(state)), sorted(set(state) - names)
        if strict and (missing or unknown):
            raise InvalidArgument(
                f"[load_state_dict] missing: {missing or 'none'}; unknown: "
                f"{unknown or 'none'}; expected the model's own names, or strict=False")
        self._core.write({name: state[name] for name in names & set(state)})

    def view(self, name: str) -> Any:
        """Returns a NumPy array that is a view of a param or state in the arena. Nothing is copied,
        and the next step reads what is written to the array. While a view exists, the trainer
        cannot be closed (BufferError). A view must not be read during a step of another thread.
        Raises Unsupported on a GPU, and for bf16."""
        return np.asarray(self._core.view(name))

    def read(self, name: str) -> Any:
        """Returns a copy of a param, a state, an input or an output of the last step, by name.
        Raises NotFound, and InvalidArgument for a value that is dead at the end of a step."""
        return self._core.read(name)

    @contextlib.contextmanager
    def averaged(self) -> Iterator["Trainer"]:
        """Replaces the params by their averages while the block runs. Before the first step, the
        averages are the params themselves.

            with trainer.averaged():
                trainer.save_weights("averages.safetensors")

        In the block, steps, loading and saving of checkpoints are not allowed. Raises
        InvalidArgument for a trainer without `ema`.
        """
        self._core.use_averages()
        try:
            yield self
        finally:
            if not self.closed:
                self._core.restore_params()

    def save(self, path: Path) -> None:
        """Writes a checkpoint of params, states and the step, in the safetensors format. The file
        is replaced atomically. Raises NotFinite if a param is NaN or infinite, and FileError."""
        self._core.save(os.fspath(path))

    def resume(self, path: Path) -> int:
        """Resumes from a checkpoint and returns its step. Later steps are bit-identical to those of
        an uninterrupted run. Raises InvalidArgument for a damaged file or one of another model or
        optimizer, and then changes nothing."""
        return self._core.resume(os.fspath(path))

    def load_weights(
        self,
        path: Path,
        *,
        rename: Optional[Mapping[str, str]] = None,
        transpose: Sequence[str] = (),
        allow_missing: Sequence[str] = (),
        allow_unused: Sequence[str] = (),
    ) -> LoadedWeights:
        """Loads params by name from another program's file, safetensors or NPZ. The optimizer's
        states do not change. Elements of any float type are cast. Rules describe different names
        and layouts, and apply in this order: `rename`, as in {"h.*": "layer.*"}, maps names in the
        file to names of params. `transpose` lists params whose matrices are transposed in the file.
        Params that match `allow_missing` may be missing in the file. Tensors that match
        `allow_unused` may be unused.

        Raises NotFound and FileError. Raises InvalidArgument if names, types or shapes do not fit,
        and then changes nothing. Raises NotFinite for NaN or infinity; the params in the file then
        have no values until they are loaded again."""
        return LoadedWeights(*self._core.load_weights(
            os.fspath(path), list((rename or {}).items()), transpose, allow_missing,
            allow_unused))

    def save_weights(self, path: Path) -> None:
        """Writes only the model's params, for other programs. The format is NPZ if `path` ends in
        .npz, and safetensors otherwise. NPZ does not support bf16."""
        self._core.save_weights(os.fspath(path))

    def to_onnx(self) -> bytes:
        """Returns the model's ONNX file with the current weights."""
        return self._core.to_onnx()

    def to_torch(self, module: Any, optimizer: Any = None) -> Any:
        """Copies the current weights, by name, into a torch module that ``from_torch`` exported,
        and returns the module. If `optimizer`, an object of torch.optim over the module's params,
        is given, it receives the states and the number of steps, so that torch can continue the
        training. Raises InvalidArgument if names or optimizers differ."""
        from stowage._torch import give_weights

        give_weights(module, self.state_dict())
        if optimizer is not None:
            names = {id(param): name for name, param in module.named_parameters()}
            give_states(optimizer, self, lambda param: names.get(id(param)))
        return module

    def report(self, losses: Sequence[float] = ()) -> Report:
        """Returns a report of the plan and, if given, of the losses of the steps so far."""
        return Report(self._plan.to_html(losses), str(self._plan))

    def close(self) -> None:
        """Frees the arena. Raises BufferError while there are views of it. Afterwards all other
        methods raise Closed."""
        self._core.close()

    @property
    def closed(self) -> bool:
        """Whether the arena has been freed."""
        return self._core.is_closed()

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<stowage.Trainer, closed>"
        return (f"<stowage.Trainer of {self._plan.figures['graph']!r} on {self.device}: "
                f"{_core.format_bytes(self.arena_bytes)}, step {self.steps}>")
