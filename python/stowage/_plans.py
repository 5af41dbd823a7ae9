"""Plans: the address of every byte of a training step, before it runs."""

from __future__ import annotations

import html
import json
import logging
import math
import numbers
import os
import pathlib
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Literal, Mapping,
                    NamedTuple, Optional, Sequence, Union)

from stowage import _core
from stowage._compiled import ArenaPlace, CompiledStep, write_c, write_texts
from stowage._former_names import FORMER_CHOICES, FORMER_FIGURES, takes_former_names
from stowage._models import ModelLike, model as make_model, whole_number
from stowage._optimizers import (Chosen, Group, OptimizerLike, choose, named_settings,
                                 real_number)
from stowage.errors import InvalidArgument, StowageError, Unsupported

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stowage._models import ModelOptions

Size = Union[int, float, str, None]
MemoryOptimizations = Union[Literal["auto", "none"], Mapping[str, Union[str, int]]]
LossScale = Union[Literal["dynamic", "none"], float, None]
DeviceName = Literal["", "auto", "cpu", "cuda"]
PlanDevice = Literal["", "auto", "cpu", "cuda", "c"]

MOST_THREADS = (1 << 31) - 1

log = logging.getLogger("stowage")


def size_in_bytes(budget: Size) -> Optional[int]:
    """Parses a size in bytes: 4000000, "64MiB", "1.5GiB" or "8GB". A fraction of another size, as
    in 0.6 * plan.arena_bytes, is rounded down."""
    if budget is None:
        return None
    if isinstance(budget, str):
        return _core.parse_bytes(budget)
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real):
        raise TypeError(f"[budget] {budget!r} is no size; expected bytes, or a text as 64MiB")
    if not math.isfinite(budget) or budget < 1:
        raise InvalidArgument(
            f"[budget] {budget!r} is no number of bytes; expected one of at least 1")
    if budget >= 1 << 63:
        raise InvalidArgument(f"[budget] {budget!r} bytes do not fit 63 bits")
    return int(budget)


def _list_of(names: Sequence[str], what: str) -> List[str]:
    if isinstance(names, (str, bytes)):
        raise TypeError(f"[{what}] {names!r} is no list; expected one, as [{names!r}]")
    return list(names)


def _param_group(group: Any, of_torch: bool = False) -> _core.ParamGroup:
    if not isinstance(group, Mapping):
        raise TypeError(f"[groups] {group!r} is no group; expected a dict, as "
                        '{"pattern": "*.bias", "decay": 0}')
    known = ("pattern", "decay", "lr_scale", "frozen", "optimizer", "maximize")
    unknown = sorted(set(group) - {*known, *(("name", "inputs") if of_torch else ())})
    if unknown or "pattern" not in group:
        raise InvalidArgument(
            f"[groups] {dict(group)!r} "
            + (f"has {unknown}" if unknown else "has no pattern")
            + "; expected pattern, and decay, lr_scale, frozen, optimizer or maximize")
    optimizer = group.get("optimizer")
    if isinstance(optimizer, str):
        optimizer = {"name": optimizer}
    if not (optimizer is None or isinstance(optimizer, Mapping)):
        raise TypeError(f"[groups] the optimizer of a group is {optimizer!r}; expected a name, or a "
                        "dict of a name and settings")
    return _core.ParamGroup(group["pattern"], group.get("decay"), group.get("lr_scale", 1.0),
                            group.get("frozen", False),
                            None if optimizer is None else named_settings(optimizer),
                            group.get("maximize", False), group.get("name", ""),
                            group.get("inputs", []))


def make_core_plan(model: _core.Model, request: _core.Request, device: str, threads: int,
                   cpu_target: str = "") -> _core.Plan:
    """Returns the plan of a model. Propagates the error of a refused torch module."""
    try:
        return _core.make_plan(model, request, device, threads, cpu_target)
    except StowageError as error:
        if hasattr(model, "_initial") and isinstance(error.__cause__, StowageError):
            raise error.__cause__ from None
        raise


def make_request(
    budget: Size,
    optimizations: MemoryOptimizations,
    recompute_keep: Sequence[str],
    recompute_always: Sequence[str],
    chosen: Chosen,
    groups: Sequence[Group],
    freeze: Sequence[str],
    clip_norm: Optional[float],
    ema: Optional[float],
    loss_scale: LossScale,
    allow_batch_change: bool,
    plan_cache: Union[bool, str, "os.PathLike[str]"],
    evaluates: bool,
) -> _core.Request:
    """Converts the arguments of `plan` and of a Trainer to the library's."""
    request = _core.Request()
    request.budget = size_in_bytes(budget)
    if isinstance(optimizations, str):
        request.optimizations = optimizations
    elif isinstance(optimizations, Mapping):
        request.optimizations = {FORMER_CHOICES.get(name, name): str(choice)
                                 for name, choice in optimizations.items()}
    else:
        raise TypeError(f'[optimizations] {optimizations!r} is no choice; expected "auto", "none", '
                        'or choices by name, as {"micro_batches": 4}')
    request.recompute_keep = _list_of(recompute_keep, "recompute_keep")
    request.recompute_always = _list_of(recompute_always, "recompute_always")
    if groups and chosen.followed is not None:
        raise InvalidArgument("[groups] groups are given beside an object of torch.optim, which "
                              "has its own; give them there")
    request.optimizer = chosen.name
    request.optimizer_settings = chosen.settings
    request.groups = [
        *(_param_group({"pattern": pattern, "frozen": True})
          for pattern in [*_list_of(freeze, "freeze"), *chosen.frozen]),
        *map(_param_group, groups),
        *(_param_group(group, of_torch=True) for group in chosen.groups)]
    request.clip_norm = None if clip_norm is None else real_number(clip_norm, "clip_norm")
    request.ema = None if ema is None else real_number(ema, "ema")
    if isinstance(loss_scale, str):
        request.loss_scale = loss_scale
    elif loss_scale is not None:
        request.loss_scale = repr(real_number(loss_scale, "loss_scale"))
    request.allow_batch_change = allow_batch_change
    if plan_cache is True:
        request.plan_cache = _core.plan_cache_folder()
    elif plan_cache is not False:
        request.plan_cache = os.fspath(plan_cache)
    request.evaluates = evaluates
    return request


def framed(page: str, height: int = 640) -> str:
    """Returns a page as the output of a notebook cell, isolated from the notebook's page."""
    return (f'<iframe srcdoc="{html.escape(page, quote=True)}" width="100%" '
            f'height="{height}" style="border: 0"></iframe>')


class Frontier(List[Dict[str, Any]]):
    """The Pareto frontier as a list of dicts, largest budget first, which ``pandas.DataFrame``
    accepts. A notebook shows its image, `svg`."""

    def __init__(self, rows: Iterable[Dict[str, Any]], svg: str) -> None:
        super().__init__(rows)
        self.svg = svg

    def _repr_html_(self) -> str:
        return self.svg


class Traffic(List[Dict[str, Any]]):
    """The memory traffic of a step as a list of dicts, one per family of ops, largest first, which
    ``pandas.DataFrame`` accepts. `total` is the sum over all ops, and
    `without_products_and_attention` the sum over all ops except matmuls and attention. Prints as a
    table."""

    def __init__(self, figures: Dict[str, Any], text: str) -> None:
        super().__init__({"family": family, **row} for family, row in
                         figures["families"].items())
        self.total: Dict[str, Any] = figures["total"]
        self.without_products_and_attention: Dict[str, Any] = (
            figures["without_products_and_attention"])
        self.text = text

    def __str__(self) -> str:
        return self.text


class Comparison:
    """A comparison of two plans. `figures` holds the figures of both, and under "difference" the
    figures of the second plan minus those of the first. Prints as a table. A notebook shows the
    memory maps of both plans."""

    def __init__(self, text: str, figures: Dict[str, Any], page: str) -> None:
        self.text = text
        self.figures = figures
        self.page = page

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return framed(self.page)


class Largest(NamedTuple):
    """The largest value of a setting that fits a budget."""

    value: int
    #: The smallest budget that it fits.
    need_bytes: int
    #: The next value, which does not fit; None where there is none to ask for.
    next: Optional[int]
    #: The smallest budget of that one; None where the model does not take it.
    next_need_bytes: Optional[int]
    #: Why the model does not take it, else None.
    next_refusal: Optional[str]


class Plan:
    """A planned training step. All sizes are bytes.

    Figures of the step's plan, as ``stowage plan --json`` prints them, are attributes:
    ``lower_bound_bytes``, ``no_reuse_bytes``, ``peak_node`` and so on (`figures`). In a notebook a
    plan displays as an interactive page.
    """

    def __init__(self, core: _core.Plan) -> None:
        self._core = core
        self._figures: Dict[str, Any] = json.loads(core.figures())
        # Plans as it was planned, but for what it is given; and what it was given.
        self._again: Optional[Callable[..., "Plan"]] = None
        self._given: Dict[str, Any] = {}
        # The model's own values, where it has any in Python.
        self._initial: Optional[Callable[[], Dict[str, Any]]] = None

    @property
    def figures(self) -> Dict[str, Any]:
        """All figures of the step's plan, by name."""
        return dict(self._figures)

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena, which holds the step and all other programs."""
        return self._core.arena_bytes()

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory for offloaded values, outside the arena."""
        return self._core.host_bytes()

    @property
    def lower_bound_bytes(self) -> int:
        """A lower bound on the bytes of every placement of the step's buffers."""
        return int(self._figures["lower_bound_bytes"])

    @property
    def saved_bytes(self) -> int:
        """The step's bytes saved relative to separate memory for every buffer."""
        return int(self._figures["saved_bytes"])

    @property
    def regions(self) -> Dict[str, int]:
        """Bytes of each region: weights, state, io, activations, workspace, and the host's
        host_state and host_offload."""
        return self._core.regions()

    @property
    def budget_bytes(self) -> Optional[int]:
        """The budget of the arena; None if none was given."""
        return self._core.budget()

    @property
    def batch(self) -> int:
        """Examples per step."""
        return self._core.batch()

    @property
    def optimizer(self) -> str:
        """The name of the step's optimizer, one of ``optimizers()``."""
        return self._core.optimizer()

    @property
    def micro_batches(self) -> int:
        """The number of micro-batches of the batch."""
        return int(self._core.price()["micro_batches"])

    @property
    def recomputed_nodes(self) -> int:
        """The number of recomputed nodes, whose results are not saved for backward."""
        return int(self._core.price()["recomputed_nodes"])

    @property
    def recomputed(self) -> List[Dict[str, Any]]:
        """The recomputed values. Each has a `name`, the `bytes_freed` at the peak, its
        `flops_percent` of the step's operations, and the number of `times` that it is
        recomputed."""
        return self._core.recomputed()

    @property
    def extra_percent(self) -> float:
        """Operations of recomputation, in percent of the step's operations without it."""
        return float(self._core.price()["extra_percent"])

    @property
    def offloaded_values(self) -> int:
        """The number of offloaded values."""
        return int(self._core.price()["offloaded_values"])

    @property
    def smallest_budget_bytes(self) -> int:
        """The smallest budget that is feasible with these optimizations. It is computed on request,
        which takes about as long as planning."""
        return self._core.smallest_budget()

    def largest(self, setting: str = "batch", budget: Size = None) -> Largest:
        """Returns the largest batch, or another integer option of the model such as "seq", whose
        step fits `budget`. The budget and all other options default to those of this plan.

        The search makes about ten plans. The batch is split only if `optimizations` sets the number
        of micro-batches, because any batch would fit if the planner chose their number. Raises
        BudgetTooSmall if the smallest value does not fit, and InvalidArgument."""
        if self._again is None:
            raise InvalidArgument("[largest] this is the plan of a trainer; give one of "
                                  "stowage.plan(...), which says how to plan again")
        most = size_in_bytes(budget) if budget is not None else self.budget_bytes
        if most is None:
            raise InvalidArgument(f"[largest] nothing bounds the {setting}; give a budget")
        again, multiple = self._again, 1
        changes: Dict[str, Any] = {"budget": None}
        if setting == "batch":
            given = self._given["optimizations"]
            if given == "auto":
                changes["optimizations"] = {"recompute": "auto", "offload": "auto"}
            elif given != "none":
                if given.get("micro_batches") == "auto":
                    raise InvalidArgument("[largest] in micro-batches that the planner chooses, "
                                          "any batch fits; give a number of micro_batches")
                multiple = int(given.get("micro_batches", 1))

        def need_of(value: int) -> Union[int, str]:
            try:
                return again(**{**changes, setting: value}).smallest_budget_bytes
            except (InvalidArgument, Unsupported) as error:
                return str(error)

        found: Largest = _core.find_largest(need_of, most, multiple, Largest)
        return found

    def __getattr__(self, name: str) -> Any:
        if name in FORMER_FIGURES:
            return getattr(self, FORMER_FIGURES[name])
        figures = self.__dict__.get("_figures", {})
        if name in figures:
            return figures[name]
        raise AttributeError(f"a plan has no attribute {name!r}; its figures are "
                             f"{', '.join(figures)}")

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._figures]

    def frontier(self) -> Frontier:
        """Returns the cost of every budget, from the unmodified step to the smallest arena."""
        rows, svg = self._core.frontier()
        return Frontier(json.loads(rows)["frontier"], svg)

    def traffic(self, device: Optional[str] = None) -> Traffic:
        """Returns the memory traffic of a step, counted from its nodes: launches, read_bytes,
        written_bytes and flops of each family of ops. `device` is a name such as "h100", or rates
        as "GB/s:GFLOP/s". With a device, the result includes roofline_seconds, a lower bound for
        any kernel (docs/explanation/fusion.md). Raises InvalidArgument for an unknown device."""
        figures, text = self._core.traffic(device)
        return Traffic(json.loads(figures), text)

    def compare(self, other: "Plan") -> Comparison:
        """Compares this plan with another."""
        return Comparison(self._core.comparison_text(other._core),
                          json.loads(self._core.comparison_json(other._core)),
                          self._core.comparison_html(other._core))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the step's plan. If `path` ends in .html, the file is a page. Otherwise it is a
        plan file, which ``stowage check`` and ``stowage report`` read. Raises FileError."""
        is_page = os.fspath(path).endswith(".html")
        write_texts({path: self.to_html() if is_page else self._core.json()})

    def to_c(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        prefix: Optional[str] = None,
        arena: ArenaPlace = "static",
        weights: Optional[Mapping[str, Any]] = None,
    ) -> CompiledStep:
        """Writes the step as one C11 file, whose path must end in .c, and its header in the same
        folder, for microcontrollers and programs that cannot link a library
        (docs/guides/embedded.md).

            plan = stowage.plan(model, budget="256KB", optimizer="sgd", freeze=["features.*"],
                                device="c")
            plan.to_c("step.c")

        The plan must be for the device "c". Functions are named PREFIX_init, PREFIX_step and so on.
        The default prefix is the name of the file. If the model has an evaluation, there is also
        PREFIX_evaluate. `arena` is "static", for an arena in the C file, or "caller", for functions
        that receive its address.

        Params and states start from `weights`, arrays by name such as a trainer's ``state_dict()``.
        Values that are not in `weights` start from the current values of the torch module or ONNX
        file, or from the seed of PREFIX_init. Frozen params are constants of the file, and must
        have values.

        Raises InvalidArgument if the plan is for another device, if weights do not fit, if a frozen
        param has no values, and if the step cannot be written in C. Also raises WrongDType and
        FileError.
        """
        given = {} if self._initial is None else self._initial()
        return write_c(self._core, path, prefix, arena, {**given, **(weights or {})})

    def to_html(self, losses: Sequence[float] = ()) -> str:
        """Returns the page of the plan, and of a run with these losses per step."""
        return self._core.html(list(enumerate(map(float, losses), start=1)))

    def __str__(self) -> str:
        return self._core.text()

    def __repr__(self) -> str:
        return (f"<stowage.Plan of {self._figures['graph']!r}: "
                f"{_core.format_bytes(self.arena_bytes)}, batch {self.batch}>")

    def _repr_html_(self) -> str:
        return framed(self.to_html())


def log_plan(plan: Plan) -> None:
    if plan._core.cache_note():
        log.warning("%s", plan._core.cache_note())
    log.info("planned %s: %d bytes of arena, the batch of %d in %d micro-batches, %d nodes run "
             "again, cache %s", plan._figures["graph"], plan.arena_bytes, plan.batch,
             plan.micro_batches, plan.recomputed_nodes, plan._core.cache_use())


def cpu_target() -> str:
    """Returns the active CPU target of this process. It is "native" in a build from source. In a
    wheel it is the highest of "v2", "v3", "v4" (the levels of x86-64) and "v4-bf16" that the
    processor supports, or "armv8" on AArch64. The environment variable STOWAGE_CPU_TARGET selects
    another target before the first use. Raises InvalidArgument if that target is not available."""
    return _core.cpu_target()


def optimizers() -> Dict[str, Dict[str, float]]:
    """Returns the optimizers by name, with the settings of each and their defaults. "lr" is the
    default learning rate. docs/reference/optimizers.md has the formulas and states."""
    return _core.optimizers()


@takes_former_names
def plan(
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
    groups: Sequence[Group] = (),
    freeze: Sequence[str] = (),
    clip_norm: Optional[float] = None,
    ema: Optional[float] = None,
    loss_scale: LossScale = None,
    allow_batch_change: bool = False,
    plan_cache: Union[bool, str, "os.PathLike[str]"] = False,
    device: PlanDevice = "",
    threads: int = 0,
    cpu_target: str = "",
    **options: Unpack[ModelOptions],
) -> Plan:
    """Plans a training step inside a budget, without allocating its memory.

    `model` and further `options` are the arguments of ``stowage.model``. `batch` is the number of
    examples per step. `budget` is the maximum number of bytes of the arena, as a number or as a
    string such as "8GB" or "64MiB". Without a budget, the step is not modified.

    `optimizations` are the allowed memory optimizations: "auto" (all), "none", or choices by name,
    as {"recompute": "cheap", "offload": "auto", "micro_batches": 4, "tiles": "auto", "order":
    "memory"}. {"offload": "disk"} keeps offloaded values in a file (``Trainer``). `recompute_keep`
    names values that are never recomputed, and `recompute_always` names values that always are.
    `allow_batch_change` permits micro-batches that change the results, such as those of a batch
    norm.

    `optimizer` is a name of ``optimizers()`` (sgd, adamw, adamw8bit, ...) or of torch ("SGD",
    "AdamW"). It can also be a dict of a name and settings, Stowage's or torch's, as {"name": "SGD",
    "momentum": 0.9, "nesterov": True}. For a model of ``from_torch`` it can be an object of
    torch.optim with its groups. The default is the model's optimizer, or adamw. `momentum` and
    `weight_decay` are settings of the optimizer for all params. `groups` set a decay or a learning
    rate scale for params, as [{"pattern": "*.bias", "decay": 0}, {"pattern": "wte", "lr_scale":
    0.1}]. The first group whose pattern matches the name of a param applies. `freeze` are patterns
    of params that are not trained, and takes precedence. `clip_norm` bounds the global norm of the
    gradients. `ema` is the decay of moving averages of the params, as 0.999, which are states
    (``Trainer``).

    `loss_scale` scales the loss and skips updates with non-finite gradients. It is "dynamic", as in
    torch.amp.GradScaler, a fixed number, or "none". The default is "dynamic" for a model by name
    whose `dtype` is f16. `plan_cache` is a folder of cached plans, or True for the user's folder.

    `device` is "cpu", "cuda" or "c". The default is the device that supports `dtype`. "auto" is a
    GPU if one works. "cuda" can be planned without a GPU. "c" plans a step for ``Plan.to_c``, with
    the model's evaluation in the same arena and frozen params outside of it. Each of the CPU's
    `threads` has workspace in the arena; 0 means all threads. `cpu_target` is the CPU target whose
    kernels' workspace is planned. The default is ``cpu_target()``.

    Raises BudgetTooSmall, whose message names budgets that work, and InvalidArgument.
    """
    made = make_model(model, batch=batch, **options)
    request = make_request(budget, optimizations, recompute_keep, recompute_always,
                           choose(optimizer, made, momentum, weight_decay), groups, freeze,
                           clip_norm, ema, loss_scale, allow_batch_change, plan_cache,
                           evaluates=device == "c")
    threads = whole_number(threads, "threads", most=MOST_THREADS)
    name: str = device
    if device == "auto":
        name = _core.open_device(device, made._dtype, threads).name
    planned = Plan(make_core_plan(made, request, name, threads, cpu_target))
    planned._given = {"optimizations": optimizations}
    planned._initial = getattr(made, "_initial", None)

    def again(**changes: Any) -> Plan:
        given: Dict[str, Any] = {
            "batch": batch, "budget": budget, "optimizations": optimizations,
            "recompute_keep": recompute_keep, "recompute_always": recompute_always,
            "optimizer": optimizer, "momentum": momentum, "weight_decay": weight_decay,
            "groups": groups, "freeze": freeze, "clip_norm": clip_norm, "ema": ema,
            "loss_scale": loss_scale, "allow_batch_change": allow_batch_change,
            "plan_cache": plan_cache, "device": device, "threads": threads,
            "cpu_target": cpu_target, **options}
        return plan(model, **{**given, **changes})

    planned._again = again
    log_plan(planned)
    return planned
