"""Learning rates that change from step to step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stowage import _core
from stowage.errors import InvalidArgument


@dataclass(frozen=True)
class Schedule:
    """A learning rate of each step: it rises in a line to `peak`, which step `warmup` has, and
    falls from there by half a cosine to ``peak * final_factor``, which step `steps` has, the
    last of the run; so have those behind it. A warm-up that is no shorter than the run takes a
    tenth of it.

        trainer = stowage.Trainer(model, lr=stowage.Schedule(3e-4, steps=1000, warmup=100))

    Raises InvalidArgument for numbers that are not finite or below 0, and for no steps.
    """

    peak: float
    steps: int
    warmup: int = 0
    final_factor: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("peak", 0), ("steps", 1), ("warmup", 0), ("final_factor", 0)):
            value = getattr(self, name)
            if not math.isfinite(value) or value < least:
                raise InvalidArgument(
                    f"[schedule] {name} is {value}; expected a number of at least {least}")

    def at(self, step: int) -> float:
        """The learning rate of a step; the first is step 1."""
        if step < 1:
            raise InvalidArgument(f"[schedule] there is no step {step}; the first is step 1")
        return rate_of(self).at(step)


def rate_of(schedule: Schedule) -> _core.Rate:
    return _core.Rate(schedule.peak, schedule.steps, schedule.warmup, schedule.final_factor)
