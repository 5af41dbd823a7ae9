"""Stowage trains neural nets inside a memory budget that is fixed before the first step.

    plan = stowage.plan("gpt-nano", batch=8, budget="32MiB")
    print(plan.arena_bytes, plan.extra_percent)

    model = stowage.from_torch(net, torch.randn(64, 3, 64, 64))
    trainer = stowage.Trainer(model, optimizer="sgd", lr=0.01, budget="60MB")
    for x, y in batches:
        loss = trainer.step(x, y)
    trainer.to_torch(net)

The chosen plans and devices are logged to the logger "stowage" of ``logging``.
"""

import logging as _logging

from stowage import errors, ops
from stowage._core import GraphBuilder, Model, Value, __version__
from stowage._compiled import CompiledStep
from stowage._models import model, model_names
from stowage._packings import Packing, pack
from stowage._plans import (Comparison, Frontier, Largest, Plan, Traffic, cpu_target, optimizers,
                            plan)
from stowage._runs import Evaluation, RunResult, StepFigures
from stowage._schedules import Schedule
from stowage._torch import from_torch
from stowage._trainers import LoadedWeights, Report, Trainer
from stowage.errors import (BudgetTooSmall, Closed, DeviceError, FileError, Forked,
                            InvalidArgument, NotFinite, NotFound, StowageError, Unsupported,
                            WrongDType)

_logging.getLogger("stowage").addHandler(_logging.NullHandler())

__all__ = [
    "BudgetTooSmall", "Closed", "Comparison", "CompiledStep", "DeviceError", "Evaluation",
    "FileError", "Forked", "Frontier", "GraphBuilder", "InvalidArgument", "Largest",
    "LoadedWeights", "Model", "NotFinite", "NotFound", "Packing", "Plan", "Report", "RunResult",
    "Schedule", "StepFigures", "StowageError", "Traffic", "Trainer", "Unsupported", "Value",
    "WrongDType", "__version__", "cpu_target", "errors", "from_torch", "model", "model_names",
    "ops", "optimizers", "pack", "plan",
]
