"""Optimizer arguments: a name, a dict of a name and settings, or an object of torch.optim with its
groups, rates and states.

    stowage.Trainer(model, optimizer="SGD", momentum=0.9, weight_decay=1e-4)
    stowage.Trainer(model, optimizer={"name": "AdamW", "betas": (0.9, 0.95)})
    stowage.Trainer(model, optimizer=torch.optim.AdamW(net.parameters(), lr=3e-4))

Names and settings are Stowage's or torch's. The trainer reads the learning rate of a torch.optim
object at every step, so that any of torch's schedulers works as in torch; unsupported features are
refused by name.
"""

from __future__ import annotations

import math
from typing import (Any, Callable, Dict, List, Literal, Mapping, NamedTuple, Optional, Protocol,
                    Sequence, Tuple, TypedDict, Union)

from stowage import _core
from stowage.errors import InvalidArgument, NotFound, Unsupported

OptimizerName = Literal[
    "sgd", "momentum", "momentum-bf16", "nesterov", "rmsprop", "adagrad", "adam", "adamw",
    "adamw-bf16", "adamw8bit", "flash-adamw", "lion", "adafactor", "muon",
    "SGD", "RMSprop", "Adagrad", "Adam", "AdamW", "Adafactor"]


class _Pattern(TypedDict):
    pattern: str


class Group(_Pattern, total=False):
    """Params that match one pattern, and their settings."""

    decay: Optional[float]
    lr_scale: float
    frozen: bool


class TorchOptimizer(Protocol):
    """The settings and states of a torch.optim object."""

    param_groups: List[Dict[str, Any]]
    state: Any


OptimizerLike = Union[OptimizerName, Mapping[str, Any], TorchOptimizer, None]

# Names of torch.optim, and what they are called here.
_TORCH_NAMES = {"SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad", "Adam": "adam",
                "AdamW": "adamw", "Adafactor": "adafactor"}

# Of each class of torch.optim: the settings that are Stowage's by another name, and the values
# of those that Stowage computes by alone.
_RENAMED = {"weight_decay": "decay", "d": "clip"}
_FIXED: Dict[str, Dict[str, Any]] = {
    "SGD": {"dampening": 0, "maximize": False},
    "RMSprop": {"momentum": 0, "centered": False, "maximize": False},
    "Adagrad": {"lr_decay": 0, "initial_accumulator_value": 0, "maximize": False},
    "Adam": {"amsgrad": False, "maximize": False},
    "AdamW": {"amsgrad": False, "maximize": False, "decoupled_weight_decay": True},
    "Adafactor": {"eps": (None, 1e-3), "maximize": False},
}
# Settings that change how fast torch computes, and not what.
_OF_SPEED = {"foreach", "fused", "capturable", "differentiable"}

# A param's states, by what torch calls them and by the ending of their names here.
_STATES: Dict[str, Dict[str, str]] = {
    "sgd": {},
    "momentum": {"momentum_buffer": "velocity"},
    "nesterov": {"momentum_buffer": "velocity"},
    "rmsprop": {"square_avg": "v"},
    "adagrad": {"sum": "v"},
    "adam": {"exp_avg": "m", "exp_avg_sq": "v"},
    "adamw": {"exp_avg": "m", "exp_avg_sq": "v"},
    "adafactor": {"row_var": "row_var", "col_var": "col_var", "variance": "v"},
}
_COUNTS = {"rmsprop", "adagrad", "adam", "adamw", "adafactor"}  # have a "step" in torch


class Chosen(NamedTuple):
    """The resolved `optimizer` and related arguments."""

    name: str  # empty: the model's own
    settings: Dict[str, float]
    groups: List[Group]
    frozen: List[str]
    lr: Optional[float]
    followed: Optional["Followed"]


def choose(optimizer: OptimizerLike, model: _core.Model, momentum: Optional[float],
           weight_decay: Optional[float]) -> Chosen:
    """Resolves an argument `optimizer` for a model, with the `momentum` and decay given beside it.
    Raises InvalidArgument, Unsupported and TypeError."""
    if optimizer is None or isinstance(optimizer, str):
        given: Dict[str, Any] = {"name": optimizer or ""}
    elif isinstance(optimizer, Mapping):
        given = dict(optimizer)
    elif is_of_torch(optimizer):
        for name, value in (("momentum", momentum), ("weight_decay", weight_decay)):
            if value is not None:
                raise InvalidArgument(f"[optimizer] {name} is given beside an object of "
                                      f"torch.optim, whose own it is; set it there")
        return Followed(optimizer, model).chosen
    else:
        raise TypeError(f"[optimizer] {optimizer!r} is none; expected a name, an object of "
                        'torch.optim, or a dict of a name and settings, as {"name": "sgd", '
                        '"weight_decay": 1e-4}')
    for name, value in (("momentum", momentum), ("weight_decay", weight_decay)):
        if value is None:
            continue
        if name in given or _RENAMED.get(name) in given:
            raise InvalidArgument(f"[optimizer] {name} is given twice: {value!r}, and in "
                                  f"{dict(given)!r}")
        given[name] = value
    name = str(given.pop("name", ""))
    lr = given.pop("lr", None)
    name, settings = _settings_of(_TORCH_NAMES.get(name, name), given)
    return Chosen(name, settings, [], [], None if lr is None else real_number(lr, "lr"), None)


def is_of_torch(optimizer: Any) -> bool:
    """Returns whether it is an object of torch.optim, or of a subclass."""
    return any(kind.__module__ == "torch.optim.optimizer" and kind.__name__ == "Optimizer"
               for kind in type(optimizer).__mro__)


def is_scheduler(lr: Any, optimizer: Any) -> bool:
    """Returns whether `lr` is one of torch's schedulers. Raises InvalidArgument for one of another
    optimizer."""
    if not any(kind.__module__ == "torch.optim.lr_scheduler" for kind in type(lr).__mro__):
        return False
    if lr.optimizer is not optimizer:
        raise InvalidArgument(f"[trainer] the {type(lr).__name__} is of another optimizer than the "
                              "trainer's; give optimizer=scheduler.optimizer")
    return True


def real_number(value: Any, name: str) -> float:
    """Checks that the argument `name` is a number, and returns it."""
    if isinstance(value, (str, bytes)) or not hasattr(type(value), "__float__"):
        raise TypeError(f"[{name}] {value!r} is no number")
    return float(value)


def _settings_of(name: str, given: Mapping[str, Any]) -> Tuple[str, Dict[str, float]]:
    """Converts a name and settings, Stowage's or torch's, to Stowage's."""
    settings: Dict[str, float] = {}
    for key, value in given.items():
        if key == "betas":
            pair = list(value) if isinstance(value, Sequence) else []
            if len(pair) != 2:
                raise InvalidArgument(f"[optimizer] betas are {value!r}; expected two numbers")
            renamed = {"beta1": pair[0], "beta2": pair[1]}
        elif key == "nesterov" and name in ("sgd", "momentum", "nesterov"):
            if not isinstance(value, bool):
                raise TypeError(f"[optimizer] nesterov is {value!r}; expected True or False")
            if value and not given.get("momentum", name != "sgd"):
                raise InvalidArgument("[optimizer] nesterov wants a momentum above 0")
            name = "nesterov" if value else name
            continue
        else:
            renamed = {_RENAMED.get(key, key): value}
        for each, number in renamed.items():
            if each in settings:
                raise InvalidArgument(f"[optimizer] {each} is given twice, in {dict(given)!r}")
            settings[each] = real_number(number, each)
    if name == "sgd" and "momentum" in settings:
        # As in torch, where the one optimizer has both forms.
        if settings["momentum"]:
            name = "momentum"
        else:
            del settings["momentum"]
    for each in ("decay", "momentum"):
        if each in settings and not (math.isfinite(settings[each]) and settings[each] >= 0):
            raise InvalidArgument(f"[optimizer] {each} is {settings[each]}; expected a finite "
                                  "number of at least 0")
    return name, settings


class Followed:
    """A torch.optim object whose updates and learning rates a trainer follows."""

    def __init__(self, optimizer: Any, model: _core.Model) -> None:
        self.optimizer = optimizer
        self._kind = self._kind_of()
        name_of = getattr(model, "_name_of", None)
        if name_of is None:
            raise InvalidArgument(f"[optimizer] a {type(optimizer).__name__} of torch has the "
                                  "params of a module; the model is not of from_torch")
        self.names: Dict[str, Any] = {}
        trained = set(getattr(model, "_param_names")())
        groups = []
        for group in optimizer.param_groups:
            names = []
            for param in group["params"]:
                name = name_of(param)
                if name is None:
                    raise InvalidArgument(
                        f"[optimizer] the {type(optimizer).__name__} has a tensor of shape "
                        f"{tuple(param.shape)} that is no param of the module that from_torch was "
                        "given")
                if name in trained:  # else one that forward writes, which has no gradient
                    names.append(name)
                    self.names[name] = param
            groups.append(names)
        for hooks in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            if getattr(optimizer, hooks, None):
                raise Unsupported(f"[optimizer] the {type(optimizer).__name__} has hooks of its "
                                  "step, which a trainer does not call")
        self._planned = [self._settings(group) for group in optimizer.param_groups]
        self._params = self._trained()
        self._unreached = set(model._frozen)  # torch gives these no states either
        rates = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        # The trainer's rate is that of the group with the most params among those with a rate.
        self._base = max(range(len(groups)), key=lambda i: (rates[i] != 0, len(groups[i])))
        base = rates[self._base]
        self._scales = [rate / base if base else 1.0 for rate in rates]
        self.chosen = self._choice(groups, model)

    def _kind_of(self) -> str:
        kind = type(self.optimizer)
        if kind.__module__.startswith("torch.optim") and kind.__name__ in _TORCH_NAMES:
            return kind.__name__
        raise Unsupported(f"[optimizer] a {kind.__module__}.{kind.__name__} is not known; known are "
                          f"{', '.join(_TORCH_NAMES)} of torch.optim, and by name "
                          f"{', '.join(_core.optimizers())}")

    def _settings(self, group: Mapping[str, Any]) -> Tuple[str, Dict[str, float]]:
        """The name and settings of a group; refuses unsupported ones."""
        fixed = dict(_FIXED[self._kind])
        kind = self._kind
        if kind == "Adam" and group.get("decoupled_weight_decay"):
            kind = "AdamW"
        given = {}
        for key, value in group.items():
            if key in ("params", "lr", "initial_lr", "param_names", "swa_lr") or key in _OF_SPEED:
                continue
            # Schedulers keep what they have begun with.
            if key in ("max_lr", "min_lr", "base_momentum", "max_momentum"):
                continue
            if key == "decoupled_weight_decay":
                continue
            if key not in fixed:
                given[key] = value
            elif value != fixed[key]:
                raise Unsupported(f"[optimizer] the {self._kind} has {key}={value!r}; a trainer "
                                  f"computes with {key}={fixed[key]!r} alone")
        return _settings_of(_TORCH_NAMES[kind], given)

    def _choice(self, groups: List[List[str]], model: _core.Model) -> Chosen:
        name, settings = self._planned[self._base]
        own: List[Group] = []
        for names, scale, (group_name, other) in zip(groups, self._scales, self._planned):
            differing = [key for key in {*settings, *other} - {"decay"}
                         if settings.get(key) != other.get(key)]
            if group_name != name or differing:
                raise Unsupported(f"[optimizer] the groups of the {self._kind} differ in "
                                  f"{', '.join(sorted(differing)) or 'nesterov'}; a trainer's may "
                                  "differ in lr and weight_decay")
            if scale != 1 or other != settings:
                own += [{"pattern": each, "decay": other.get("decay", 0.0), "lr_scale": scale}
                        for each in names]
        for each in self.names:
            if "*" in each or "?" in each:
                raise Unsupported(f'[optimizer] the param "{each}" has a star or a question mark in '
                                  "its name, which groups go by")
        frozen = [each for each in getattr(model, "_param_names")() if each not in self.names]
        return Chosen(name, dict(settings), own, frozen, self.rate(), self)

    def _trained(self) -> List[List[Tuple[int, bool]]]:
        """The params of each group, and whether they require a gradient."""
        return [[(id(param), param.requires_grad) for param in group["params"]]
                for group in self.optimizer.param_groups]

    def rate(self) -> float:
        """The learning rate of the next step. Raises Unsupported if anything but the common rate of
        all groups has changed, since the rest is planned once."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self._planned):
            raise Unsupported(f"[optimizer] the {self._kind} has {len(groups)} groups, and had "
                              f"{len(self._planned)} when the step was planned")
        if self._trained() != self._params:
            raise Unsupported(f"[optimizer] params of the {self._kind} were taken away or frozen, or "
                              "want a gradient now, since the step was planned; make a trainer anew")
        base = float(groups[self._base]["lr"])
        for i, group in enumerate(groups):
            if self._settings(group) != self._planned[i]:
                raise Unsupported(
                    f"[optimizer] group {i} of the {self._kind} has {self._settings(group)[1]}, and "
                    f"had {self._planned[i][1]} when the step was planned; rates alone may change "
                    "(OneCycleLR and CyclicLR: cycle_momentum=False)")
            lr = float(group["lr"])
            if not math.isclose(lr, self._scales[i] * base, rel_tol=1e-6, abs_tol=1e-30):
                raise Unsupported(
                    f"[optimizer] group {i} of the {self._kind} has the rate {lr:g}, and group "
                    f"{self._base} {base:g}; the step was planned with {self._scales[i]:g} times "
                    "its rate")
        return base

    def made_step(self) -> None:
        """Tells torch's schedulers that a step was taken, as Optimizer.step does."""
        self.optimizer._opt_called = True

    # --- States ---

    def states(self) -> Tuple[Dict[str, Any], int]:
        """The object's states, tensors by their names here, and their number of steps; none for a
        new object."""
        import torch

        from stowage._aten.exported import real_view

        tensors: Dict[str, Any] = {}
        steps = set()
        known = _STATES[self.chosen.name]
        for name, param in self.names.items():
            state = self.optimizer.state.get(param, {})
            is_counted = param.requires_grad and name not in self._unreached
            if not state and is_counted and self.chosen.name in _COUNTS:
                steps.add(0)
            for key, value in state.items():
                if key == "step":
                    steps.add(int(value))
                elif key in known:
                    if value is not None:
                        tensors[f"{name}.{known[key]}"] = real_view(torch, value.detach().cpu())
                else:
                    raise Unsupported(f'[optimizer] the {self._kind} has a state "{key}" of '
                                      f'"{name}", which a trainer has not')
        if len(steps) > 1:
            raise Unsupported(f"[optimizer] params of the {self._kind} have made {min(steps)} to "
                              f"{max(steps)} steps; a trainer's make as many each")
        return tensors, max(steps, default=0)


def give_states(optimizer: Any, trainer: Any, name_of: Callable[[Any], Optional[str]]) -> None:
    """Copies a trainer's states into a torch.optim object. Raises InvalidArgument if it is of
    another kind."""
    import torch

    ours = trainer.plan.optimizer
    kind = _TORCH_NAMES.get(type(optimizer).__name__) if is_of_torch(optimizer) else None
    if kind is None:
        raise TypeError(f"[to_torch] a {type(optimizer).__name__} is not one of "
                        f"{', '.join(_TORCH_NAMES)} of torch.optim")
    states = _STATES.get(ours)
    if states is None:
        raise Unsupported(f"[to_torch] {ours} keeps states that torch's optimizers do not")
    matches = {"momentum": "sgd", "nesterov": "sgd"}.get(ours, ours)
    if kind != matches:
        raise InvalidArgument(f"[to_torch] the trainer's optimizer is {ours}, and the module's "
                              f"{type(optimizer).__name__}")
    for group in optimizer.param_groups:
        for param in group["params"]:
            name = name_of(param)
            state = {}
            for key, ending in states.items():
                try:
                    array = trainer.read(f"{name}.{ending}")
                except NotFound:  # of a param that is not trained, or is kept another form of
                    continue
                tensor = torch.from_numpy(array)
                if param.is_complex():
                    tensor = torch.view_as_complex(tensor)
                state[key] = tensor.to(param.device, param.dtype)
            if not state:
                continue
            if ours in _COUNTS:
                state["step"] = torch.tensor(float(trainer.steps))
            optimizer.state[param] = state
