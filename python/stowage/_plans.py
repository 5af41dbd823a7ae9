"""Plans: where every byte of a training step goes, before it runs."""

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
from stowage._former_names import FORMER_CHOICES, FORMER_FIGURES, takes_former_names
from stowage._models import ModelLike, model as make_model, whole_number
from stowage._optimizers import Chosen, Group, OptimizerLike, choose, real_number
from stowage.errors import FileError, InvalidArgument, StowageError, Unsupported

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from stowage._models import ModelOptions

Size = Union[int, float, str, None]
MemoryOptimizations = Union[Literal["auto", "none"], Mapping[str, Union[str, int]]]
LossScale = Union[Literal["dynamic", "none"], float, None]
DeviceName = Literal["", "auto", "cpu", "cuda"]

MOST_THREADS = (1 << 31) - 1

log = logging.getLogger("stowage")


def size_in_bytes(budget: Size) -> Optional[int]:
    """Bytes of a size as people write it: 4000000, "64MiB", "1.5GiB", "8GB", or a share of
    another, 0.6 * plan.arena_bytes, which is rounded down."""
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


def _param_group(group: Group) -> _core.ParamGroup:
    if not isinstance(group, Mapping):
        raise TypeError(f"[groups] {group!r} is no group; expected a dict, as "
                        '{"pattern": "*.bias", "decay": 0}')
    unknown = sorted(set(group) - {"pattern", "decay", "lr_scale", "frozen"})
    if unknown or "pattern" not in group:
        raise InvalidArgument(
            f"[groups] {dict(group)!r} "
            + (f"has {unknown}" if unknown else "has no pattern")
            + "; expected pattern, and decay, lr_scale or frozen")
    return _core.ParamGroup(group["pattern"], group.get("decay"), group.get("lr_scale", 1.0),
                            group.get("frozen", False))


def make_core_plan(model: _core.Model, request: _core.Request, device: str, dtype: str,
                   threads: int, cpu_target: str = "") -> _core.Plan:
    """The plan of a model; what a torch module is refused for is raised as it is."""
    try:
        return _core.make_plan(model, request, device, dtype, threads, cpu_target)
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
    loss_scale: LossScale,
    dtype: str,
    allow_batch_change: bool,
    plan_cache: Union[bool, str, "os.PathLike[str]"],
    evaluates: bool,
) -> _core.Request:
    """The arguments of `plan` and of a Trainer, as the library takes them."""
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
        *(_core.ParamGroup(pattern, None, 1.0, True)
          for pattern in [*_list_of(freeze, "freeze"), *chosen.frozen]),
        *map(_param_group, [*groups, *chosen.groups])]
    request.clip_norm = None if clip_norm is None else real_number(clip_norm, "clip_norm")
    if isinstance(loss_scale, str):
        request.loss_scale = loss_scale
    elif loss_scale is not None:
        request.loss_scale = repr(real_number(loss_scale, "loss_scale"))
    request.dtype = dtype
    request.allow_batch_change = allow_batch_change
    if plan_cache is True:
        request.plan_cache = _core.plan_cache_folder()
    elif plan_cache is not False:
        request.plan_cache = os.fspath(plan_cache)
    request.evaluates = evaluates
    return request


def framed(page: str, height: int = 640) -> str:
    """A page as a cell of a notebook shows it, apart from the notebook's own."""
    return (f'<iframe srcdoc="{html.escape(page, quote=True)}" width="100%" '
            f'height="{height}" style="border: 0"></iframe>')


def write_text(path: Union[str, "os.PathLike[str]"], text: str) -> None:
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f'[file] "{os.fspath(path)}" cannot be written: {error.strerror}'
                        ) from error


class Frontier(List[Dict[str, Any]]):
    """What every budget costs: a list of dicts, the largest budget first, of which
    ``pandas.DataFrame`` makes a table; and an image, `svg`, that a notebook shows."""

    def __init__(self, rows: Iterable[Dict[str, Any]], svg: str) -> None:
        super().__init__(rows)
        self.svg = svg

    def _repr_html_(self) -> str:
        return self.svg


class Traffic(List[Dict[str, Any]]):
    """What a step moves to and from memory: a list of dicts, one of each family of ops, that
    which moves most first, of which ``pandas.DataFrame`` makes a table. `total` is the sum,
    and `without_products_and_attention` that of all others. Printed, a table."""

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
    """Two plans beside each other: `figures` of both, and the second's less the first's
    under "difference"; printed, a table; in a notebook, both maps."""

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
    ``lower_bound_bytes``, ``no_reuse_bytes``, ``peak_node`` and so on (`figures`).
    In a notebook a plan shows itself as a page to zoom and search.
    """

    def __init__(self, core: _core.Plan) -> None:
        self._core = core
        self._figures: Dict[str, Any] = json.loads(core.figures())
        # Plans as it was planned, but for what it is given; and what it was given.
        self._again: Optional[Callable[..., "Plan"]] = None
        self._given: Dict[str, Any] = {}

    @property
    def figures(self) -> Dict[str, Any]:
        """All figures of the step's plan, by name."""
        return dict(self._figures)

    @property
    def arena_bytes(self) -> int:
        """Of the block that the step takes, with every program beside it."""
        return self._core.arena_bytes()

    @property
    def host_bytes(self) -> int:
        """Beside the arena, in the host's memory, where something is offloaded."""
        return self._core.host_bytes()

    @property
    def lower_bound_bytes(self) -> int:
        """What no placement of the step's buffers can do with less than."""
        return int(self._figures["lower_bound_bytes"])

    @property
    def saved_bytes(self) -> int:
        """Of the step, less than if every buffer had bytes of its own."""
        return int(self._figures["saved_bytes"])

    @property
    def regions(self) -> Dict[str, int]:
        """Bytes of each part: weights, state, io, activations, workspace, and two of the
        host's, host_state and host_offload."""
        return self._core.regions()

    @property
    def budget_bytes(self) -> Optional[int]:
        """What the arena was allowed; None where nothing was said."""
        return self._core.budget()

    @property
    def batch(self) -> int:
        """Examples a step."""
        return self._core.batch()

    @property
    def optimizer(self) -> str:
        """The name of the step's optimizer, one of ``optimizers()``."""
        return self._core.optimizer()

    @property
    def micro_batches(self) -> int:
        """That the batch is taken in, one after the other."""
        return int(self._core.price()["micro_batches"])

    @property
    def recomputed_nodes(self) -> int:
        """Nodes that run again, so that what they make need not be kept."""
        return int(self._core.price()["recomputed_nodes"])

    @property
    def recomputed(self) -> List[Dict[str, Any]]:
        """What runs again: of each value its `name`, the `bytes_freed` at the peak, its
        `flops_percent` of the step's, and how many `times`."""
        return self._core.recomputed()

    @property
    def extra_percent(self) -> float:
        """Operations of what runs again, in percent of the step's without."""
        return float(self._core.price()["extra_percent"])

    @property
    def offloaded_values(self) -> int:
        """Values that are kept in the host's memory for a while."""
        return int(self._core.price()["offloaded_values"])

    @property
    def smallest_budget_bytes(self) -> int:
        """The smallest budget that these optimizations do not refuse. Looked for when it is asked
        for, which takes about as long as the plan did."""
        return self._core.smallest_budget()

    def largest(self, setting: str = "batch", budget: Size = None) -> Largest:
        """The largest batch, or another whole number of the model's options as "seq", whose
        step fits `budget`, by default this plan's; all else as this was planned.

        Found by a handful of plans. The batch is taken whole, or in as many micro-batches as
        `optimizations` say: in micro-batches that the planner chooses any would fit. Raises
        BudgetTooSmall where the least does not fit, and InvalidArgument."""
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
        """What every budget costs, from the step as it is to the smallest arena."""
        rows, svg = self._core.frontier()
        return Frontier(json.loads(rows)["frontier"], svg)

    def traffic(self, device: Optional[str] = None) -> Traffic:
        """What a step moves, counted from its nodes: launches, read_bytes, written_bytes and
        flops of each family of ops. With a `device`, by a name such as "h100" or by its rates
        as "GB/s:GFLOP/s", roofline_seconds too, which no kernel is faster than
        (docs/fusion.md). Raises InvalidArgument for a device that is not known."""
        figures, text = self._core.traffic(device)
        return Traffic(json.loads(figures), text)

    def compare(self, other: "Plan") -> Comparison:
        """This plan and another, beside each other."""
        return Comparison(self._core.comparison_text(other._core),
                          json.loads(self._core.comparison_json(other._core)),
                          self._core.comparison_html(other._core))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the step's plan: a page where `path` ends in .html, else a plan file,
        which ``stowage check`` and ``stowage report`` read. Raises FileError."""
        write_text(path, self.to_html() if os.fspath(path).endswith(".html") else
                   self._core.json())

    def to_html(self, losses: Sequence[float] = ()) -> str:
        """The page of the plan, and of a run whose steps had these losses."""
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
    """The CPU target that this process computes by: "native", or in a wheel the highest of
    "v2", "v3" and "v4" (the levels of x86-64) that the processor has. The environment variable
    STOWAGE_CPU_TARGET names another one before the first use; InvalidArgument is raised where it
    cannot be had."""
    return _core.cpu_target()


def optimizers() -> Dict[str, Dict[str, float]]:
    """The optimizers there are, by name, each with the settings that may be given to it and
    their defaults; "lr" is the learning rate that it begins with where nothing else is said.
    docs/optimizers.md has their formulas and what each keeps."""
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
    loss_scale: LossScale = None,
    allow_batch_change: bool = False,
    plan_cache: Union[bool, str, "os.PathLike[str]"] = False,
    device: DeviceName = "",
    threads: int = 0,
    cpu_target: str = "",
    **options: Unpack[ModelOptions],
) -> Plan:
    """Plans a training step inside a budget, without a byte of it being taken.

    `model` and further `options` are those of ``stowage.model``, `batch` examples a step.
    `budget` is the most bytes the arena may take: a number, or a text as "8GB" or
    "64MiB"; without one, the step is planned as it is. `optimizations` are what may be done to
    fit: "auto" (everything), "none", or choices by name, as {"recompute": "cheap",
    "offload": "auto", "micro_batches": 4, "order": "memory"}. `recompute_keep` are names of
    values that are never recomputed, `recompute_always` of those that always are.

    `optimizer` is a name of ``optimizers()`` (sgd, adamw, adamw8bit, ...) or of torch's ("SGD",
    "AdamW"), a dict of a name and settings, Stowage's or torch's, as {"name": "SGD",
    "momentum": 0.9, "nesterov": True}, or, for a model of ``from_torch``, an object of
    torch.optim with its groups; without one, the model's, or adamw. `momentum` and
    `weight_decay` are the optimizer's, of all params. `groups` are params with a decay or a share of the learning rate of their own, as
    [{"pattern": "*.bias", "decay": 0}, {"pattern": "wte", "lr_scale": 0.1}]; the first whose
    pattern matches a param's name applies. `freeze` are patterns of params that are not
    trained, which come before these. `clip_norm` bounds the global norm of the gradients.
    `loss_scale` multiplies gradients on their way, and skips updates by gradients that are not
    finite: "dynamic" as torch.amp.GradScaler, a number that stays, or "none"; without one it
    is dynamic for a `dtype` of f16.
    `plan_cache` is a folder where
    plans are kept and found again, or True for the user's. `device` is cpu or cuda, which
    need not be there, or "auto", a GPU where one works; without one, it is what `dtype` runs
    on. `threads` of the CPU have scratch in the arena each (0: all). `cpu_target` is the CPU
    target whose kernels' scratch is planned; without one, it is ``cpu_target()``.

    Raises BudgetTooSmall, whose message names budgets that work, and InvalidArgument.
    """
    made = make_model(model, batch=batch, **options)
    dtype = options.get("dtype") or "f32"
    request = make_request(budget, optimizations, recompute_keep, recompute_always,
                           choose(optimizer, made, momentum, weight_decay), groups, freeze,
                           clip_norm, loss_scale, dtype, allow_batch_change, plan_cache,
                           evaluates=False)
    threads = whole_number(threads, "threads", most=MOST_THREADS)
    name: str = device
    if name == "auto":
        name = _core.open_device(device, dtype, threads).name
    planned = Plan(make_core_plan(made, request, name, dtype, threads, cpu_target))
    planned._given = {"optimizations": optimizations}

    def again(**changes: Any) -> Plan:
        given: Dict[str, Any] = {
            "batch": batch, "budget": budget, "optimizations": optimizations,
            "recompute_keep": recompute_keep, "recompute_always": recompute_always,
            "optimizer": optimizer, "momentum": momentum, "weight_decay": weight_decay,
            "groups": groups, "freeze": freeze, "clip_norm": clip_norm,
            "loss_scale": loss_scale, "allow_batch_change": allow_batch_change,
            "plan_cache": plan_cache, "device": device, "threads": threads,
            "cpu_target": cpu_target, **options}
        return plan(model, **{**given, **changes})

    planned._again = again
    log_plan(planned)
    return planned
