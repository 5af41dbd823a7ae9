"""Runs of training steps, with schedule, evaluations, checkpoints and early stopping.

The library's Run (train/run.h) executes the steps, as it does for the command and for C++ programs.
This module provides batches and validation losses to it, and collects its figures.
"""

from __future__ import annotations

import logging
import math
import os
from typing import (TYPE_CHECKING, Any, Callable, Dict, List, Literal, NamedTuple, Optional,
                    Sequence, Tuple, Union)

from stowage import _core
from stowage._models import whole_number
from stowage._optimizers import real_number
from stowage._run_data import TrainData, Validation, train_data
from stowage._schedules import Schedule
from stowage.errors import InvalidArgument

if TYPE_CHECKING:
    from stowage._trainers import Trainer

logger = logging.getLogger("stowage")

ScheduleKind = Literal["constant", "linear", "cosine", "wsd", "polynomial", "inverse_sqrt"]


class StepFigures(NamedTuple):
    """One step of a run."""

    step: int
    """Its number; the first is step 1."""
    epoch: Optional[float]
    """Passes over the data, this step included; None if the data does not know its length."""
    loss: float
    """Computed with the params before the update; NaN of a skipped step."""
    lr: float
    """The learning rate."""
    grad_norm: Optional[float]
    """The global norm of the gradients, with ``clip_norm``."""
    loss_scale: Optional[float]
    """The loss scale of the next step, if it is dynamic."""
    seconds: float
    """Wall time."""
    skipped: str
    """Why the step changed nothing; empty of a step that counts."""


class Evaluation(NamedTuple):
    """One evaluation of the validation set."""

    step: int
    """The last step before it."""
    loss: float
    """The validation loss."""
    metrics: Dict[str, float]
    """The values of ``metrics``, by name."""


class RunResult(NamedTuple):
    """The steps and evaluations of a run, as ``Trainer.fit`` returns them."""

    steps: List[StepFigures]
    """The steps that this call took."""
    evaluations: List[Evaluation]
    """The evaluations of this call, the one behind the last step included."""
    last_step: int
    """The last step of the run, including those before a resumed checkpoint."""
    stopped: Literal["steps", "patience", "callback"]
    """Why the run ended: all steps are taken, evaluations did not improve, or a callback said
    so."""
    best_step: Optional[int]
    """The step of the lowest validation loss among those of ``eval_every``, including evaluations
    before a resumed checkpoint."""
    best_loss: Optional[float]
    """That loss."""

    def __repr__(self) -> str:
        best = "" if self.best_step is None else f", best {self.best_loss:.6g} at {self.best_step}"
        last = f", loss {self.steps[-1].loss:.6g}" if self.steps else ""
        return (f"<stowage.RunResult {len(self.steps)} steps up to {self.last_step}{last}{best}, "
                f"ended by {self.stopped}>")

    @property
    def losses(self) -> List[float]:
        """The loss of each step."""
        return [each.loss for each in self.steps]


OnStep = Callable[[StepFigures], object]
OnEvaluation = Callable[[Evaluation], object]


class _Hooks:
    """The callbacks of Run (python/runs.h)."""

    def __init__(self, trainer: Trainer, data: Any, validation: Optional[Validation],
                 on_step: Optional[OnStep], on_evaluation: Optional[OnEvaluation]) -> None:
        self.trainer = trainer
        self.data = data
        self.validation = validation
        self.on_step_called, self.on_evaluation_called = on_step, on_evaluation
        self.knows_epochs = math.isfinite(data.steps_per_epoch)
        self.steps: List[StepFigures] = []
        self.evaluations: List[Evaluation] = []
        self.evaluated: Tuple[float, Dict[str, float]] = (math.nan, {})

    def batch(self, step: int) -> List[Any]:
        self.trainer._follow_rate()
        arrays: List[Any] = self.data.batch(step)
        return arrays

    def validate(self) -> Tuple[float, Optional[float]]:
        assert self.validation is not None
        self.evaluated = self.validation.evaluate()
        return self.evaluated[0], self.evaluated[1].get("accuracy")

    def on_step(self, step: int, epoch: float, loss: float, lr: float, grad_norm: Optional[float],
                loss_scale: Optional[float], seconds: float, skipped: str) -> bool:
        figures = StepFigures(step, epoch if self.knows_epochs else None, loss, lr, grad_norm,
                              loss_scale, seconds, skipped)
        self.steps.append(figures)
        if skipped:
            logger.warning("%s", skipped)
        self.trainer._made_step()
        return self.on_step_called is not None and self.on_step_called(figures) is True

    def on_evaluation(self, step: int) -> bool:
        evaluation = Evaluation(step, *self.evaluated)
        self.evaluations.append(evaluation)
        logger.info("step %d: validation loss %.6g%s", step, evaluation.loss,
                 "".join(f", {name} {value:.4g}" for name, value in evaluation.metrics.items()))
        return self.on_evaluation_called is not None and self.on_evaluation_called(
            evaluation) is True

    def on_unsaved(self, why: str) -> None:
        logger.warning("%s; training goes on", why)


def validate(trainer: Trainer, data: Any, metrics: Sequence[str]) -> Evaluation:
    """See ``Trainer.validate``."""
    return Evaluation(trainer.steps, *Validation(trainer, data, metrics).evaluate())


def _warmup_steps(warmup: Union[int, float], steps: int) -> int:
    """Returns the number of warm-up steps, given as a number, or as a fraction, which is rounded
    up."""
    if isinstance(warmup, float) and 0 < warmup < 1:
        return math.ceil(warmup * steps)
    return whole_number(warmup, "warmup")


def _rate_of(trainer: Trainer, steps: int, lr: Union[float, Schedule, None],
             schedule: Optional[ScheduleKind], warmup: Union[int, float],
             min_lr: Optional[float]) -> Union[float, Schedule, None]:
    """Returns the learning rate that the arguments of fit describe. None is the trainer's own."""
    shapes = schedule is not None or warmup != 0 or min_lr is not None
    if isinstance(lr, Schedule) and shapes:
        raise InvalidArgument(f"[fit] lr is {lr}, which says all of the rate; leave out schedule, "
                              "warmup and min_lr")
    if isinstance(lr, Schedule) or (lr is None and not shapes):
        return lr
    if lr is None and isinstance(trainer._rate, Schedule):
        raise InvalidArgument("[fit] the trainer's lr is a Schedule already; give the peak as lr, "
                              "or leave out schedule, warmup and min_lr")
    peak = trainer.lr if lr is None else real_number(lr, "lr")
    if not shapes:
        return peak
    factor = 0.0
    if min_lr is not None:
        least = real_number(min_lr, "min_lr")
        if peak <= 0 or not 0 <= least <= peak:
            raise InvalidArgument(f"[fit] min_lr is {least}; expected a number from 0 to lr, {peak}")
        factor = least / peak
    return Schedule(peak, steps, _warmup_steps(warmup, steps), factor, schedule or "constant")


def fit(trainer: Trainer, data: TrainData, *, steps: Optional[int], epochs: Optional[int],
        lr: Union[float, Schedule, None], schedule: Optional[ScheduleKind],
        warmup: Union[int, float], min_lr: Optional[float], shuffle: Optional[bool],
        eval_data: Any, eval_every: int, patience: int, metrics: Sequence[str],
        save: Union[str, "os.PathLike[str]", None], save_every: int, keep_last: int, resume: bool,
        log: Union[str, "os.PathLike[str]", None], on_nonfinite: str,
        on_step: Optional[OnStep], on_evaluation: Optional[OnEvaluation]) -> RunResult:
    """See ``Trainer.fit``."""
    batches = train_data(trainer, data, shuffle, trainer._seed)
    if (steps is None) == (epochs is None):
        raise InvalidArgument(f"[fit] steps is {steps} and epochs {epochs}; expected one of them")
    if epochs is not None:
        steps = batches.steps_of(whole_number(epochs, "epochs"))
    steps = whole_number(steps, "steps")
    if steps == 0:
        raise InvalidArgument("[fit] the run has 0 steps; expected at least 1")
    eval_every = whole_number(eval_every, "eval_every")
    patience = whole_number(patience, "patience")
    save_every = whole_number(save_every, "save_every")
    keep_last = whole_number(keep_last, "keep_last")
    if on_nonfinite not in ("stop", "skip"):
        raise InvalidArgument(f'[fit] on_nonfinite is {on_nonfinite!r}; expected "stop" or "skip"')
    if eval_data is None and (eval_every or patience or metrics):
        raise InvalidArgument(f"[fit] eval_every is {eval_every}, patience {patience} and metrics "
                              f"{metrics}, and there is no eval_data")
    if patience and not eval_every:
        raise InvalidArgument(f"[fit] patience is {patience}, which counts evaluations of "
                              "eval_every, and that is 0")
    if save is None and (save_every or keep_last != 1):
        raise InvalidArgument(f"[fit] save_every is {save_every} and keep_last {keep_last}, and "
                              "nothing is saved; give save, a path")
    validation = None if eval_data is None else Validation(trainer, eval_data, metrics)
    rate = _rate_of(trainer, steps, lr, schedule, warmup, min_lr)
    if rate is not None:
        trainer._check_rate(rate)
    run = _core.Run(trainer._core, "" if save is None else os.fspath(save), keep_last,
                    eval_data is not None, resume, "" if log is None else os.fspath(log))
    if run.done() > steps or (run.done() == steps and not run.is_resumed()):
        raise InvalidArgument(f"[fit] the trainer has taken {run.done()} steps, and the run has "
                              f"{steps}; steps and epochs count those of all calls together")
    if rate is not None:
        trainer.lr = rate
    batches.begin(run.done(), run.is_resumed())
    hooks = _Hooks(trainer, batches, validation, on_step, on_evaluation)
    made: Dict[str, Any] = run.take(
        hooks, steps, batches.steps_per_epoch, eval_every, save_every, patience,
        on_nonfinite == "skip", validation is not None, on_step is not None)
    last = made["last_step"]
    is_evaluated = validation is not None and made["stopped"] != "callback"
    if is_evaluated and last not in [each.step for each in hooks.evaluations]:
        hooks.evaluations.append(Evaluation(last, *hooks.evaluated))  # no step was left
    best = made["best_step"] or None
    return RunResult(hooks.steps, hooks.evaluations, last, made["stopped"], best,
                     made["best_loss"] if best else None)
