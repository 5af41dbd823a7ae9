"""Learning rates that change from step to step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from stowage import _core
from stowage.errors import InvalidArgument


@dataclass(frozen=True)
class Schedule:
    """A learning rate for each step. It rises linearly to `peak` at step `warmup`, and then follows
    `kind` until step `steps`, the last step of the run. Later steps keep the rate of that step. A
    warm-up that is not shorter than the run is reduced to a tenth of the run.

        trainer = stowage.Trainer(model, lr=stowage.Schedule(3e-4, steps=1000, warmup=100))

    The formulas are the ones of transformers' ``get_scheduler``, with two differences: the rate of
    the first step is above 0, and the last step has the final rate, ``peak * final_factor``. The
    kinds are:

    - "constant": the rate stays at `peak`. There is no `final_factor`.
    - "linear": the rate falls linearly to the final rate.
    - "cosine": the rate falls along half a cosine to the final rate.
    - "wsd" (warm-up, stable, decay): the rate stays at `peak`, and falls along half a cosine over
      the last `decay_share` of the steps (0.2 by default). The warm-up begins at the final rate.
    - "polynomial": the rate falls with ``(1 - fraction of the run) ** power``. `power` is 1 by
      default.
    - "inverse_sqrt": the rate falls with ``sqrt(warmup / step)``, but not below the final rate.
      Without a warm-up, ``warmup`` is 10,000 in this formula.

    Raises InvalidArgument for numbers that are negative or not finite, for 0 steps, for an unknown
    kind, and for arguments that the kind does not use.
    """

    peak: float
    steps: int
    warmup: int = 0
    final_factor: float = 0.0
    kind: Literal["constant", "linear", "cosine", "wsd", "polynomial", "inverse_sqrt"] = "cosine"
    power: float = 1.0
    decay_share: float = 0.2

    def __post_init__(self) -> None:
        for name, least in (("peak", 0), ("steps", 1), ("warmup", 0), ("final_factor", 0)):
            value = getattr(self, name)
            if not math.isfinite(value) or value < least:
                raise InvalidArgument(
                    f"[schedule] {name} is {value}; expected a number of at least {least}")
        rate_of(self)  # whether there is such a kind
        if self.kind == "constant" and self.final_factor != 0:
            raise InvalidArgument(
                f"[schedule] final_factor is {self.final_factor}, and a constant rate stays at "
                "its peak; name another kind, or leave it out")
        for name, default, kind, most in (("power", 1.0, "polynomial", math.inf),
                                          ("decay_share", 0.2, "wsd", 1)):
            value = getattr(self, name)
            if self.kind != kind and value != default:
                raise InvalidArgument(f"[schedule] {name} is {value}, which a {kind} rate reads "
                                      f"and a {self.kind} one does not")
            if not (math.isfinite(value) and 0 < value <= most):
                raise InvalidArgument(
                    f"[schedule] {name} is {value}; expected a number above 0"
                    + (f" and at most {most}" if math.isfinite(most) else ""))

    def at(self, step: int) -> float:
        """Returns the learning rate of a step. The first step is 1."""
        if step < 1:
            raise InvalidArgument(f"[schedule] there is no step {step}; the first is step 1")
        return rate_of(self).at(step)


def rate_of(schedule: Schedule) -> _core.Rate:
    return _core.Rate(schedule.peak, schedule.steps, schedule.warmup, schedule.final_factor,
                      schedule.kind, schedule.power, schedule.decay_share)
