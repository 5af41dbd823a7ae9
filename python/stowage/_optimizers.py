"""Optimizer arguments: a name, a dict of a name and settings, or an object of torch.optim with its
groups, rates and states.

    stowage.Trainer(model, optimizer="SGD", momentum=0.9, weight_decay=1e-4)
    stowage.Trainer(model, optimizer={"name": "AdamW", "betas": (0.9, 0.95)})
    stowage.Trainer(model, optimizer=torch.optim.AdamW(net.parameters(), lr=3e-4))

Names and settings are Stowage's or torch's. The step has an input for the learning rate of each
group of a torch.optim object, and for its momentum if a scheduler cycles it, which the trainer
reads there at every step, so that any of torch's schedulers works as in torch. Unsupported
features are refused by name.
"""

from __future__ import annotations

import math
from typing import (Any, Callable, Dict, List, Literal, Mapping, NamedTuple, Optional, Protocol,
                    Sequence, Tuple, TypedDict, Union)

from stowage import _core
from stowage.errors import InvalidArgument, NotFound, Unsupported

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
_TORCH_NAMES = {"SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad", "Adam": "adam",
                "AdamW": "adamw", "NAdam": "nadam", "RAdam": "radam", "Adamax": "adamax",
                "Adadelta": "adadelta", "ASGD": "asgd", "Rprop": "rprop",
                "Adafactor": "adafactor"}

# The settings of each class of torch.optim, besides lr and maximize.
_SETTINGS: Dict[str, Tuple[str, ...]] = {
    "SGD": ("weight_decay", "momentum", "dampening", "nesterov"),
    "RMSprop": ("weight_decay", "alpha", "eps", "momentum", "centered"),
    "Adagrad": ("weight_decay", "eps", "lr_decay", "initial_accumulator_value"),
    "Adam": ("weight_decay", "betas", "eps", "amsgrad", "decoupled_weight_decay"),
    "AdamW": ("weight_decay", "betas", "eps", "amsgrad", "decoupled_weight_decay"),
    "NAdam": ("weight_decay", "betas", "eps", "momentum_decay", "decoupled_weight_decay"),
    "RAdam": ("weight_decay", "betas", "eps", "decoupled_weight_decay"),
    "Adamax": ("weight_decay", "betas", "eps"),
    "Adadelta": ("weight_decay", "rho", "eps"),
    "ASGD": ("weight_decay", "lambd", "alpha", "t0"),
    "Rprop": ("etas", "step_sizes"),
    "Adafactor": ("weight_decay", "beta2_decay", "eps", "d"),
}
# Classes that are refused, and why.
_REFUSED = {"LBFGS": "it evaluates the loss several times a step",
            "SparseAdam": "it takes sparse gradients, and a trainer's are dense",
            "Muon": "it orthogonalizes in bf16, with roundings of its own; the muon by name does so "
                    "in the type of the params"}
# Settings that change how fast torch computes, and not what.
_OF_SPEED = {"foreach", "fused", "capturable", "differentiable"}

# Settings that are Stowage's by another name, and pairs that are two of Stowage's.
_RENAMED = {"weight_decay": "decay", "d": "clip", "decoupled_weight_decay": "decoupled",
            "initial_accumulator_value": "initial"}
_PAIRS = {"betas": ("beta1", "beta2"), "etas": ("eta_minus", "eta_plus"),
          "step_sizes": ("min_step", "max_step")}

# A param's states, by what torch calls them and by the ending of their names here.
_STATES: Dict[str, Dict[str, str]] = {
    "SGD": {"momentum_buffer": "velocity"},
    "RMSprop": {"square_avg": "v", "momentum_buffer": "velocity", "grad_avg": "mean"},
    "Adagrad": {"sum": "v"},
    "Adam": {"exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "v_max"},
    "AdamW": {"exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "v_max"},
    "NAdam": {"exp_avg": "m", "exp_avg_sq": "v", "mu_product": "mu_product"},
    "RAdam": {"exp_avg": "m", "exp_avg_sq": "v"},
    "Adamax": {"exp_avg": "m", "exp_inf": "u"},
    "Adadelta": {"square_avg": "v", "acc_delta": "u"},
    "ASGD": {"ax": "ax", "eta": "eta"},
    "Rprop": {"prev": "prev", "step_size": "step_size"},
    "Adafactor": {"row_var": "row_var", "col_var": "col_var", "variance": "v"},
}
# States that follow from the number of steps.
_DERIVED: Dict[str, Dict[str, Callable[[Mapping[str, Any], int], float]]] = {
    "ASGD": {"mu": lambda group, steps: 1 / max(1.0, steps - group["t0"])}}
# States that are a number for each param.
_SCALARS = {"mu_product", "eta"}
# States that a setting adds.
_ADDED = {"max_exp_avg_sq": "amsgrad", "grad_avg": "centered"}


class Chosen(NamedTuple):
    """The resolved `optimizer` and related arguments."""

    name: str  # empty: the model's own
    settings: Dict[str, float]
    groups: List[Group]
    frozen: List[str]
    lr: Optional[float]
    followed: Optional["Followed"]


def choose(optimizer: OptimizerLike, model: _core.Model, momentum: Optional[float],
           weight_decay: Optional[float], varying: Sequence[str] = ()) -> Chosen:
    """Resolves an argument `optimizer` for a model, with the `momentum` and decay given beside it
    and the settings of a torch.optim object that change during the run. Raises InvalidArgument,
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
    """The name and settings of a dict of both; the name may be empty. Raises InvalidArgument and
    TypeError."""
    name = str(given.get("name", ""))
    settings = {key: value for key, value in given.items() if key != "name"}
    return _settings_of(_TORCH_NAMES.get(name, name), settings)


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


class Followed:
    """A torch.optim object whose updates, learning rates and momentum a trainer follows."""

    def __init__(self, optimizer: Any, model: _core.Model, varying: Sequence[str] = ()) -> None:
        self.optimizer = optimizer
        self._kind = self._kind_of()
        self._varying = self._check_varying(varying)
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
        self._inputs = [self._inputs_of(group) for group in optimizer.param_groups]
        self._planned = [self._settings(i) for i in range(len(groups))]
        self._params = self._trained()
        self._unreached = set(model._frozen)  # torch gives these no states either
        # The trainer's rate is that of the group with the most params among those with a rate.
        self._base = max(range(len(groups)), key=lambda i: (
            float(optimizer.param_groups[i]["lr"]) != 0, len(groups[i])))
        self.chosen = self._choice(groups, model)

    def _kind_of(self) -> str:
        kind = type(self.optimizer)
        if not (kind.__module__.startswith("torch.optim") and kind.__name__ in _SETTINGS):
            reason = _REFUSED.get(kind.__name__)
            raise Unsupported(
                f"[optimizer] a {kind.__module__}.{kind.__name__} is not known"
                f"{f', since {reason}' if reason else ''}; known are {', '.join(_SETTINGS)} of "
                f"torch.optim, and by name {', '.join(_core.optimizers())}")
        known = {"lr", "maximize", *_SETTINGS[kind.__name__], *_OF_SPEED}
        for key, value in self.optimizer.defaults.items():
            if key not in known:
                raise Unsupported(f"[optimizer] the {kind.__name__} has {key}={value!r}, a setting "
                                  "that a trainer does not know")
        return kind.__name__

    def _check_varying(self, varying: Sequence[str]) -> List[str]:
        """The inputs of settings that change during the run, by the argument `varying`."""
        inputs = {"momentum": "momentum", "betas": "momentum", "weight_decay": "decay"}
        has = [key for key in _SETTINGS[self._kind] if key in inputs]
        for key in varying:
            if key not in has:
                raise InvalidArgument(
                    f"[optimizer] varying has {key!r}; of the settings of a {self._kind} besides "
                    f"lr, {' and '.join(has) or 'none'} may vary")
        return sorted({inputs[key] for key in varying})

    def _inputs_of(self, group: Mapping[str, Any]) -> List[str]:
        """The settings of a group that are inputs of the step."""
        inputs = ["lr", *self._varying]
        if _cycles_momentum(group) and "momentum" not in inputs:
            inputs.append("momentum")
        return inputs

    def _settings(self, index: int) -> Tuple[str, bool, Dict[str, float]]:
        """The name of a group's optimizer, whether it maximizes, and the settings that are no
        inputs."""
        group = self.optimizer.param_groups[index]
        inputs = self._inputs[index]
        name = _name_of(self._kind, group)
        given = {key: _plain(group[key]) for key in _SETTINGS[self._kind]}
        if name in ("adam", "adamw"):
            del given["decoupled_weight_decay"]
        if name == "sgd" and "momentum" in inputs:
            name = "nesterov" if given.pop("nesterov") else "momentum"
        name, settings = _settings_of(name, given)
        for key in ("momentum", "beta1"):
            if "momentum" in inputs:
                settings.pop(key, None)
        if "decay" in inputs:
            settings.pop("decay", None)
        if name == "adafactor":
            settings["by_last_axes"] = 1.0
        return name, bool(group["maximize"]), settings

    def _choice(self, groups: List[List[str]], model: _core.Model) -> Chosen:
        own: List[Any] = []
        name, maximize, settings = self._planned[self._base]
        # One group whose rate is the step's "lr", an f32.
        is_plain = (len(groups) == 1 and self._inputs[0] == ["lr"] and not maximize
                    and all(param.dtype.itemsize <= 4 for param in self.names.values()))
        for i, names in enumerate([] if is_plain else groups):
            of_group, ascends, constants = self._planned[i]
            own += [{"pattern": each, "optimizer": {"name": of_group, **constants},
                     "maximize": ascends, "name": str(i), "inputs": self._inputs[i]}
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
        """The learning rate of the next step, of the group with the most params. Raises Unsupported
        if anything has changed but the inputs of the step, since the rest is planned once."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self._planned):
            raise Unsupported(f"[optimizer] the {self._kind} has {len(groups)} groups, and had "
                              f"{len(self._planned)} when the step was planned")
        if self._trained() != self._params:
            raise Unsupported(f"[optimizer] params of the {self._kind} were taken away or frozen, or "
                              "want a gradient now, since the step was planned; make a trainer anew")
        for i, group in enumerate(groups):
            if _cycles_momentum(group) and "momentum" not in self._inputs[i]:
                raise Unsupported(f"[optimizer] group {i} of the {self._kind} has a scheduler that "
                                  "cycles its momentum, and had none when the step was planned; "
                                  "make the scheduler before the trainer")
            self._check_settings(i)
        return float(groups[self._base]["lr"])

    def _check_settings(self, index: int) -> None:
        before, now = ({"optimizer": name, "maximize": maximize, **settings}
                       for name, maximize, settings in
                       (self._planned[index], self._settings(index)))
        if now == before:
            return
        key = next(key for key in {**before, **now} if before.get(key) != now.get(key))
        old, new = before.get(key), now.get(key)
        advice = {"momentum": 'give varying=["momentum"]', "beta1": 'give varying=["betas"]',
                  "decay": 'give varying=["weight_decay"]'}.get(key, "make a trainer anew")
        raise Unsupported(f"[optimizer] group {index} of the {self._kind} has {key}={new}, and had "
                          f"{old} when the step was planned; {advice}")

    def values(self, inputs: Sequence[str]) -> List[float]:
        """The values of the step's inputs of groups, as "lr:0", for the next step. Raises
        InvalidArgument for one that is not finite."""
        values = []
        for each in inputs:
            setting, index = each.split(":")
            group = self.optimizer.param_groups[int(index)]
            if setting == "lr":
                value = group["lr"]
            elif setting == "decay":
                value = group["weight_decay"]
            else:
                value = group["momentum"] if "momentum" in group else group["betas"][0]
            values.append(float(value))
            if not math.isfinite(values[-1]):
                raise InvalidArgument(f"[optimizer] {setting} of group {index} of the {self._kind} "
                                      f"is {values[-1]}; expected a finite number")
        return values

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
        known = _STATES[self._kind]
        names = {id(param): name for name, param in self.names.items()}
        for group in self.optimizer.param_groups:
            # SGD does not count its steps, of which dampening treats the first otherwise.
            is_counted = self._kind != "SGD" or bool(group["momentum"] and group["dampening"])
            for param in group["params"]:
                name = names.get(id(param))
                if name is None:  # its tensor has no gradient
                    continue
                state = self.optimizer.state.get(param, {})
                if param.requires_grad and name not in self._unreached and is_counted:
                    buffer = state.get("momentum_buffer")
                    steps.add(int(state["step"]) if "step" in state else
                              0 if self._kind != "SGD" or buffer is None else 1)
                for key, value in state.items():
                    if key in known:
                        if value is not None:
                            tensors[f"{name}.{known[key]}"] = real_view(torch, value.detach().cpu())
                    elif key != "step" and key not in _DERIVED.get(self._kind, {}):
                        raise Unsupported(f'[optimizer] the {self._kind} has a state "{key}" of '
                                          f'"{name}", which a trainer has not')
        if len(steps) > 1:
            raise Unsupported(f"[optimizer] params of the {self._kind} have made {min(steps)} to "
                              f"{max(steps)} steps; a trainer's make as many each")
        return tensors, max(steps, default=0)


def _cycles_momentum(group: Mapping[str, Any]) -> bool:
    """Whether a scheduler, OneCycleLR or CyclicLR, changes the group's momentum or betas[0]."""
    return "base_momentum" in group and "max_momentum" in group


def _plain(value: Any) -> Any:
    """A setting without tensors."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return value.item() if hasattr(value, "item") else value


def _name_of(kind: str, group: Mapping[str, Any]) -> str:
    """What a class of torch.optim with the settings of a group is called here."""
    return "adamw" if kind == "Adam" and group.get("decoupled_weight_decay") else _TORCH_NAMES[kind]


def give_states(optimizer: Any, trainer: Any, name_of: Callable[[Any], Optional[str]]) -> None:
    """Copies a trainer's states into a torch.optim object. Raises InvalidArgument if it is of
    another kind."""
    import torch

    ours = trainer.plan.optimizer
    kind = type(optimizer).__name__
    if not is_of_torch(optimizer) or kind not in _STATES:
        raise TypeError(f"[to_torch] a {kind} is not one of {', '.join(_STATES)} of torch.optim")
    plain = {"momentum": "sgd", "nesterov": "sgd"}.get(ours, ours)
    if plain not in _TORCH_NAMES.values():
        raise Unsupported(f"[to_torch] {ours} keeps states that torch's optimizers do not")
    for group in optimizer.param_groups:
        if _name_of(kind, group) != plain:
            raise InvalidArgument(f"[to_torch] the trainer's optimizer is {ours}, and the module's "
                                  f"{kind}")
        for param in group["params"]:
            name = name_of(param)
            state = {}
            for key, ending in _STATES[kind].items():
                try:
                    array = trainer.read(f"{name}.{ending}")
                except NotFound:  # of a param that is not trained, or is kept another form of
                    continue
                tensor = torch.from_numpy(array)
                if key in _SCALARS:
                    state[key] = tensor.to(dtype=torch.get_default_dtype())
                    continue
                if param.is_complex():
                    tensor = torch.view_as_complex(tensor)
                state[key] = tensor.to(param.device, param.dtype)
            if not state:
                continue
            for key, setting in _ADDED.items():
                if key in _STATES[kind] and group[setting] and key not in state:
                    raise InvalidArgument(f"[to_torch] the module's {kind} has {setting}=True, and "
                                          "the trainer's optimizer has not")
            if kind != "SGD":
                state["step"] = torch.tensor(float(trainer.steps))
            for key, derive in _DERIVED.get(kind, {}).items():
                state[key] = torch.tensor(derive(group, trainer.steps))
            optimizer.state[param] = state
