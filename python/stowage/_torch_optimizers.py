"""Follows objects of torch.optim: their groups, settings, learning rates and states.

    followed = Followed(torch.optim.AdamW(net.parameters(), lr=3e-4), model)
    followed.chosen         # the optimizer and the groups to plan for
    followed.values(names)  # of the step's inputs of groups, for the next step

The step has an input for the learning rate of each group, and for its momentum if a scheduler
cycles it. The trainer reads these settings from the object before every step, so that all of
torch's schedulers work as in torch. If there is one group and only its rate varies, the input is
named "lr".
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from stowage import _core
from stowage._optimizers import TORCH_NAMES, Chosen, is_of_torch, settings_of
from stowage.errors import InvalidArgument, NotFound, Unsupported

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
        """Returns the inputs of settings that change during the run, by the argument `varying`."""
        inputs = {"momentum": "momentum", "betas": "momentum", "weight_decay": "decay"}
        has = [key for key in _SETTINGS[self._kind] if key in inputs]
        for key in varying:
            if key not in has:
                raise InvalidArgument(
                    f"[optimizer] varying has {key!r}; of the settings of a {self._kind} besides "
                    f"lr, {' and '.join(has) or 'none'} may vary")
        return sorted({inputs[key] for key in varying})

    def _inputs_of(self, group: Mapping[str, Any]) -> List[str]:
        """Returns the settings of a group that are inputs of the step."""
        inputs = ["lr", *self._varying]
        if _cycles_momentum(group) and "momentum" not in inputs:
            inputs.append("momentum")
        return inputs

    def _settings(self, index: int) -> Tuple[str, bool, Dict[str, float]]:
        """Returns the name of a group's optimizer, whether it maximizes, and the settings that are
        no inputs."""
        group = self.optimizer.param_groups[index]
        inputs = self._inputs[index]
        name = _name_of(self._kind, group)
        given = {key: _plain(group[key]) for key in _SETTINGS[self._kind]}
        if name in ("adam", "adamw"):
            del given["decoupled_weight_decay"]
        if name == "sgd" and "momentum" in inputs:
            name = "nesterov" if given.pop("nesterov") else "momentum"
        name, settings = settings_of(name, given)
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
        """Returns the params of each group, and whether they require a gradient."""
        return [[(id(param), param.requires_grad) for param in group["params"]]
                for group in self.optimizer.param_groups]

    def rate(self) -> float:
        """Returns the learning rate of the next step, of the group with the most params. Raises
        Unsupported if anything has changed but the inputs of the step, since the rest is planned
        once."""
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
        """Returns the values of the step's inputs of groups, as "lr:0", for the next step. Raises
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
        """Returns the object's states, tensors by their names here, and their number of steps; none
        for a new object."""
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
    """Returns whether a scheduler, OneCycleLR or CyclicLR, changes the group's momentum or
    betas[0]."""
    return "base_momentum" in group and "max_momentum" in group


def _plain(value: Any) -> Any:
    """Converts a setting to numbers without tensors."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return value.item() if hasattr(value, "item") else value


def _name_of(kind: str, group: Mapping[str, Any]) -> str:
    """Returns Stowage's name for a class of torch.optim with the settings of a group."""
    return "adamw" if kind == "Adam" and group.get("decoupled_weight_decay") else TORCH_NAMES[kind]


def give_states(optimizer: Any, trainer: Any, name_of: Callable[[Any], Optional[str]]) -> None:
    """Copies a trainer's states into a torch.optim object. Raises InvalidArgument if the object is
    of another class."""
    import torch

    ours = trainer.plan.optimizer
    kind = type(optimizer).__name__
    if not is_of_torch(optimizer) or kind not in _STATES:
        raise TypeError(f"[to_torch] a {kind} is not one of {', '.join(_STATES)} of torch.optim")
    plain = {"momentum": "sgd", "nesterov": "sgd"}.get(ours, ours)
    if plain not in TORCH_NAMES.values():
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
