"""Replaces parts of torch while a module is exported: functions that read values of tensors or have
a custom backward, and operations that torch.export does not trace."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any, Iterator, List

from stowage.errors import Unsupported


@contextlib.contextmanager
def patched(torch: Any) -> Iterator[List[str]]:
    """Applies all replacements for the duration of an export. Returns the names of the functions
    with a custom backward that are called during the export."""
    with _own_backwards(torch) as called, _without_hooks(torch), _without_questions(torch), \
            _traced_data(torch):
        yield called


@contextlib.contextmanager
def _own_backwards(torch: Any) -> Iterator[List[str]]:
    """Records calls of functions with a custom backward."""
    called: List[str] = []
    function = torch.autograd.Function
    before = function.__dict__["apply"]

    def apply(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if kind.__module__ == "torch.utils.checkpoint":
            raise Unsupported("[from_torch] torch.utils.checkpoint has a backward of its own where "
                              "it is reentrant, which is not supported; give use_reentrant=False")
        if not kind.__module__.startswith("torch."):
            called.append(kind.__qualname__)
        return before.__get__(None, kind)(*args, **kwargs)

    function.apply = classmethod(apply)
    try:
        yield called
    finally:
        function.apply = before


@contextlib.contextmanager
def _without_hooks(torch: Any) -> Iterator[None]:
    """Raises Unsupported if a module registers a gradient hook on a tensor, which torch.export
    drops."""
    tensor = torch.Tensor
    before = tensor.__dict__["register_hook"]

    def register_hook(self: Any, hook: Any) -> Any:
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").startswith("torch."):
            return before(self, hook)
        raise Unsupported("[from_torch] a tensor gets a hook that is called with its gradient "
                          f"({caller.f_code.co_filename}:{caller.f_lineno}), which is not "
                          "supported; change the loss or the optimizer instead")

    tensor.register_hook = register_hook
    try:
        yield
    finally:
        tensor.register_hook = before


@contextlib.contextmanager
def _traced_data(torch: Any) -> Iterator[None]:
    """Makes `x.data`, which torch.export does not trace, a detached tensor, and an assignment to it
    a copy, in the user's code."""
    of_torch = torch._C.TensorBase.data

    def is_of_torch() -> bool:
        return str(sys._getframe(2).f_globals.get("__name__", "")).partition(".")[0] == "torch"

    def read(self: Any) -> Any:
        return of_torch.__get__(self) if is_of_torch() else self.detach()

    def write(self: Any, other: Any) -> None:
        if is_of_torch():
            of_torch.__set__(self, other)
            return
        with torch.no_grad():
            self.copy_(other)

    torch.Tensor.data = property(read, write)
    try:
        yield
    finally:
        del torch.Tensor.data


@contextlib.contextmanager
def _without_questions(torch: Any) -> Iterator[None]:
    """Replaces functions of torch.nn that read a tensor's values, or have a custom backward, by
    equivalent ones."""
    functional, modules = torch.nn.functional, torch.nn.modules

    def is_causal_mask(mask: Any, is_causal: Any = None, size: Any = None) -> bool:
        # Causal masks are added like any other.
        return is_causal is True

    def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
                          reduction: str = "mean") -> Any:
        # Without the check for negative variances.
        if not isinstance(var, torch.Tensor):
            var = torch.full_like(input, var)
        elif var.shape != input.shape and var.shape == input.shape[:-1]:
            var = var.unsqueeze(-1)
        var = var + (var.clamp(min=eps) - var).detach()
        each = 0.5 * (var.log() + (input - target)**2 / var)
        each = each + 0.5 * math.log(2 * math.pi) if full else each
        return each if reduction == "none" else getattr(each, reduction)()

    def linear_cross_entropy(*args: Any, options: Any = None, **kwargs: Any) -> Any:
        # Options determine the chunks.
        return before[functional, "linear_cross_entropy"](*args, **kwargs)

    def ctc(*args: Any, **kwargs: Any) -> Any:
        return ctc_loss(torch, *args, **kwargs)

    class CrossMap:
        @staticmethod
        def apply(*args: Any) -> Any:
            raise Unsupported("[from_torch] CrossMapLRN2d has a backward of its own, which is not "
                              "supported; expected LocalResponseNorm")

    others = {(modules.transformer, "_detect_is_causal_mask"): is_causal_mask,
              (modules.normalization, "_cross_map_lrn2d"): CrossMap,
              (functional, "ctc_loss"): ctc,
              (functional, "gaussian_nll_loss"): gaussian_nll_loss,
              (functional, "linear_cross_entropy"): linear_cross_entropy}
    before = {(place, name): getattr(place, name) for place, name in others
              if hasattr(place, name)}
    try:
        for place, name in before:
            setattr(place, name, others[place, name])
        yield
    finally:
        for (place, name), function in before.items():
            setattr(place, name, function)


# The logarithm of a probability of zero, with which sums are finite.
NEVER = -1e30


def ctc_loss(torch: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
             blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> Any:
    """Computes torch.nn.functional.ctc_loss with ops, so that lengths may depend on the step. Uses
    the logarithms of the forward variables of Graves et al. 2006, "Connectionist Temporal
    Classification"."""
    if log_probs.dim() == 2:
        one, other = (torch.as_tensor(each).reshape(1) for each in (input_lengths, target_lengths))
        made = ctc_loss(torch, log_probs[:, None], targets[None], one, other, blank, reduction,
                        zero_infinity)
        return made[0] if reduction == "none" else made
    if targets.dim() == 1:
        raise Unsupported("[from_torch] a ctc_loss of targets that are concatenated is not "
                          "supported; expected targets (examples, labels), padded")
    frames, labels = log_probs.shape[0], targets.shape[1]
    input_lengths, target_lengths = (torch.as_tensor(each)[:, None]
                                     for each in (input_lengths, target_lengths))
    # A blank before, between and after the labels.
    places = torch.where(torch.arange(labels) < target_lengths, targets, blank)
    blanks = torch.full_like(places, blank)
    places = torch.cat([torch.stack([blanks, places], 2).flatten(1), blanks[:, :1]], 1)
    emitted = [each.gather(1, places) for each in log_probs.unbind(0)]
    # A blank between different labels may be skipped.
    skips = (places[:, 2:] != places[:, :-2]) & (places[:, 2:] != blank)

    def shifted(alpha: Any, by: int) -> Any:
        return torch.nn.functional.pad(alpha[:, :-by], (by, 0), value=NEVER)

    alpha = torch.where(torch.arange(2 * labels + 1) < 2, emitted[0], NEVER)
    for t in range(1, frames):
        two = torch.where(torch.nn.functional.pad(skips, (2, 0)), shifted(alpha, 2), NEVER)
        ways = torch.stack([alpha, shifted(alpha, 1), two])
        alpha = torch.where(t < input_lengths, ways.logsumexp(0) + emitted[t], alpha)
    ends = torch.cat([alpha.gather(1, 2 * target_lengths),
                      torch.where(target_lengths > 0, alpha.gather(
                          1, (2 * target_lengths - 1).clamp(min=0)), NEVER)], 1)
    each = -ends.logsumexp(1)
    is_impossible = each > -NEVER / 2
    each = torch.where(is_impossible, 0.0 if zero_infinity else math.inf, each)
    if reduction == "mean":
        return (each / target_lengths[:, 0].clamp(min=1)).mean()
    return each.sum() if reduction == "sum" else each
