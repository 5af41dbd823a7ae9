"""Optimizer arguments: a name, a dict of a name and settings, or an object of torch.optim.

    stowage.Trainer(model, optimizer="SGD", momentum=0.9, weight_decay=1e-4)
    stowage.Trainer(model, optimizer={"name": "AdamW", "betas": (0.9, 0.95)})
    stowage.Trainer(model, optimizer=torch.optim.AdamW(net.parameters(), lr=3e-4))

Names and settings are Stowage's or torch's. Unsupported features are refused by name.
"""

from __future__ import annotations

import math
from typing import (TYPE_CHECKING, Any, Dict, List, Literal, Mapping, NamedTuple, Optional,
                    Protocol, Sequence, Tuple, TypedDict, Union)

from stowage import _core
from stowage.errors import InvalidArgument

if TYPE_CHECKING:
    from stowage._torch_optimizers import Followed

OptimizerName = Literal[
    "sgd", "momentum", "momentum-bf16", "nesterov", "rmsprop", "adagrad", "adam", "adamw",
    "adamw-bf16", "adamw8bit", "flash-adamw", "nadam", "radam", "adamax", "adadelta", "asgd",
    "rprop", "lion", "adafactor", "muon",
    "SGD", "RMSprop", "Adagrad", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "ASGD",
    "Rprop", "Adafactor"]


class _Pattern(TypedDict):
    pattern: str


class Group(_Pattern, total=False):
    """Params that match one pattern, and their settings."""

    decay: Optional[float]
    lr_scale: float
    frozen: bool
    optimizer: Union[OptimizerName, Mapping[str, Any]]
    maximize: bool


class TorchOptimizer(Protocol):
    """The settings and states of a torch.optim object."""

    param_groups: List[Dict[str, Any]]
    defaults: Dict[str, Any]
    state: Any


OptimizerLike = Union[OptimizerName, Mapping[str, Any], TorchOptimizer, None]

# Names of torch.optim, and what they are called here.
TORCH_NAMES = {"SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad", "Adam": "adam",
               "AdamW": "adamw", "NAdam": "nadam", "RAdam": "radam", "Adamax": "adamax",
               "Adadelta": "adadelta", "ASGD": "asgd", "Rprop": "rprop", "Adafactor": "adafactor"}

# Settings that are Stowage's by another name, and pairs that are two of Stowage's.
_RENAMED = {"weight_decay": "decay", "d": "clip", "decoupled_weight_decay": "decoupled",
            "initial_accumulator_value": "initial"}
_PAIRS = {"betas": ("beta1", "beta2"), "etas": ("eta_minus", "eta_plus"),
          "step_sizes": ("min_step", "max_step")}


class Chosen(NamedTuple):
    """The resolved `optimizer` and related arguments."""

    name: str  # empty: the model's own
    settings: Dict[str, float]
    groups: List[Group]
    frozen: List[str]
    lr: Optional[float]
    followed: Optional[Followed]


def choose(optimizer: OptimizerLike, model: _core.Model, momentum: Optional[float],
           weight_decay: Optional[float], varying: Sequence[str] = ()) -> Chosen:
    """Resolves an argument `optimizer` for a model, with the arguments for momentum and decay and
    the settings of a torch.optim object that change during the run. Raises InvalidArgument,
    Unsupported and TypeError."""
    if varying and not is_of_torch(optimizer):
        raise InvalidArgument(f"[optimizer] varying={list(varying)!r} are settings of an object of "
                              f"torch.optim, and the optimizer is {optimizer!r}")
    if optimizer is None or isinstance(optimizer, str):
        given: Dict[str, Any] = {"name": optimizer or ""}
    elif isinstance(optimizer, Mapping):
        given = dict(optimizer)
    elif is_of_torch(optimizer):
        for name, value in (("momentum", momentum), ("weight_decay", weight_decay)):
            if value is not None:
                raise InvalidArgument(f"[optimizer] {name} is given beside an object of "
                                      f"torch.optim, whose own it is; set it there")
        from stowage._torch_optimizers import Followed

        return Followed(optimizer, model, varying).chosen
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
    lr = given.pop("lr", None)
    name, settings = named_settings(given)
    return Chosen(name, settings, [], [], None if lr is None else real_number(lr, "lr"), None)


def named_settings(given: Mapping[str, Any]) -> Tuple[str, Dict[str, float]]:
    """Returns the name, which may be empty, and the settings of a dict of both. Raises
    InvalidArgument and TypeError."""
    name = str(given.get("name", ""))
    settings = {key: value for key, value in given.items() if key != "name"}
    return settings_of(TORCH_NAMES.get(name, name), settings)


def is_of_torch(optimizer: Any) -> bool:
    """Returns whether the argument is an object of torch.optim, or of a subclass."""
    return any(kind.__module__ == "torch.optim.optimizer" and kind.__name__ == "Optimizer"
               for kind in type(optimizer).__mro__)


def is_scheduler(lr: Any, optimizer: Any) -> bool:
    """Returns whether `lr` is one of torch's schedulers. Raises InvalidArgument for a scheduler of
    another optimizer."""
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


def settings_of(name: str, given: Mapping[str, Any]) -> Tuple[str, Dict[str, float]]:
    """Converts the name and the settings of an optimizer, which may be torch's, to Stowage's.
    Raises InvalidArgument and TypeError."""
    settings: Dict[str, float] = {}
    for key, value in given.items():
        if key in _PAIRS:
            pair = list(value) if isinstance(value, Sequence) else []
            if len(pair) != 2:
                raise InvalidArgument(f"[optimizer] {key} are {value!r}; expected two numbers")
            renamed = dict(zip(_PAIRS[key], pair))
        elif key == "eps" and name == "adafactor":
            pair = list(value) if isinstance(value, Sequence) else []
            if len(pair) != 2:
                raise InvalidArgument(f"[optimizer] eps of adafactor are {value!r}; expected two "
                                      "numbers, of which the first may be None")
            renamed = {"eps1": 0.0 if pair[0] is None else pair[0], "eps2": pair[1]}
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
            settings.pop("dampening", None)
    if name == "nesterov" and settings.get("dampening") == 0:
        del settings["dampening"]
    for each in ("decay", "momentum"):
        if each in settings and not (math.isfinite(settings[each]) and settings[each] >= 0):
            raise InvalidArgument(f"[optimizer] {each} is {settings[each]}; expected a finite "
                                  "number of at least 0")
    return name, settings
