"""Deprecated names of arguments and figures, which work for one release.

    stowage.plan("mlp", levers={"pieces": 4}).pieces   # optimizations, micro_batches
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, TypeVar, cast

# Of arguments, of choices among the optimizations, and of a plan's figures.
FORMER_ARGUMENTS = {"levers": "optimizations", "keep": "recompute_keep",
                    "remake": "recompute_always"}
FORMER_CHOICES = {"pieces": "micro_batches"}
FORMER_FIGURES = {"pieces": "micro_batches", "remade": "recomputed"}

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_former_names(function: Function) -> Function:
    """Returns `function` with its arguments' deprecated names also accepted, with a warning."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for before, now in FORMER_ARGUMENTS.items():
            if before not in kwargs:
                continue
            if now in kwargs:
                raise TypeError(f"[{now}] is given twice: by its name, and by its former name, "
                                f"{before}")
            warnings.warn(f"{before} is now {now}", DeprecationWarning, stacklevel=2)
            kwargs[now] = kwargs.pop(before)
        return function(*args, **kwargs)

    return cast(Function, call)
