"""Random ops, keyed by seed and step, so that recomputation draws the same numbers."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

from stowage import ops
from stowage._aten.table import Lowering, Traced, row
from stowage.errors import Unsupported


def dropped(g: Lowering, x: Traced, p: float) -> Traced:
    if p >= 1:
        return Traced(ops.mul(x.base, g.scalar(0, x.dtype)), x.order)
    if p == 0 or not g.is_random:
        return x
    return Traced(ops.dropout(x.value, *g.step(), p=p, id=g.next_draw()))


@row("native_dropout")
def native_dropout(g: Lowering, x: Any, p: float, train: Any) -> Tuple[Traced, None]:
    return dropped(g, g.traced(x), p if train else 0), None


@row("dropout")
def dropout(g: Lowering, x: Any, p: float, train: bool) -> Traced:
    return dropped(g, g.traced(x), p if train else 0)


@row("feature_dropout")
def feature_dropout(g: Lowering, x: Any, p: float, train: bool) -> Traced:
    whole = g.traced(x)
    if not train or p == 0 or p >= 1 or not g.is_random:
        return dropped(g, whole, p if train else 0)
    shape = whole.shape
    kept = dropped(g, Traced(g.fill(shape[:2], 1, whole.dtype)), p)
    mask = ops.reshape(kept.value, shape=[*shape[:2], *[1] * (len(shape) - 2)])
    return Traced(ops.mul(whole.value, mask))


# The number that random ops return in the check without randomness.
STILL_UNIFORM, STILL_NORMAL = 0.375, 0.25


def uniform(g: Lowering, shape: Sequence[int], dtype: str) -> Traced:
    if g.is_stilled:
        return Traced(g.fill(shape, STILL_UNIFORM, dtype))
    _expect_draws(g)
    return Traced(ops.random_uniform(*g.step(), dtype=dtype, shape=list(shape), id=g.next_draw()))


def normal(g: Lowering, shape: Sequence[int], dtype: str) -> Traced:
    if g.is_stilled:
        return Traced(g.fill(shape, STILL_NORMAL, dtype))
    _expect_draws(g)
    return Traced(ops.random_normal(*g.step(), dtype=dtype, shape=list(shape), id=g.next_draw()))


def _expect_draws(g: Lowering) -> None:
    if not g.is_random:
        raise Unsupported("[from_torch] there is no step of this module without random numbers")


def _type(g: Lowering, dtype: Any) -> str:
    return g.name_of(dtype or g.torch.get_default_dtype())


@row("rand")
def rand(g: Lowering, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Traced:
    return uniform(g, size, _type(g, dtype))


@row("randn")
def randn(g: Lowering, size: Sequence[int], *, dtype: Any = None, **_: Any) -> Traced:
    return normal(g, size, _type(g, dtype))


@row("rand_like")
def rand_like(g: Lowering, x: Any, *, dtype: Any = None, **_: Any) -> Traced:
    return uniform(g, x.shape, _type(g, dtype or g.dtype_of(x)))


@row("randn_like")
def randn_like(g: Lowering, x: Any, *, dtype: Any = None, **_: Any) -> Traced:
    return normal(g, x.shape, _type(g, dtype or g.dtype_of(x)))


@row("bernoulli.p")
def bernoulli_p(g: Lowering, x: Any, p: float = 0.5, **_: Any) -> Traced:
    dtype = g.name_of(g.dtype_of(x))
    drawn = uniform(g, x.shape, dtype)
    return Traced(ops.cast(ops.less(drawn.value, g.scalar(p, dtype)), dtype=dtype))


@row("bernoulli")
def bernoulli(g: Lowering, x: Any, **_: Any) -> Traced:
    dtype = g.name_of(g.dtype_of(x))
    drawn = uniform(g, x.shape, dtype)
    return Traced(ops.cast(ops.less(drawn.value, g.value(x)), dtype=dtype))


@row("exponential")
def exponential(g: Lowering, x: Any, lambd: float = 1, **_: Any) -> Traced:
    dtype = g.name_of(g.dtype_of(x))
    drawn = ops.log1p(ops.neg(uniform(g, x.shape, dtype).value))  # of 1 - u, which is above 0
    return Traced(ops.mul(drawn, g.scalar(-1 / lambd, dtype)))


@row("rrelu_with_noise_functional")
def rrelu(g: Lowering, x: Any, noise: Any, low: float = 1 / 8, high: float = 1 / 3,
          train: bool = False, generator: Any = None) -> Tuple[Traced, Traced]:
    """Returns x where it is positive, and elsewhere x times a slope, which training draws for each
    element. Also returns the slopes, which are 1 where x is positive."""
    whole = g.traced(x)
    value = whole.value
    slope = g.fill(whole.shape, (low + high) / 2, whole.dtype)
    if train and low != high:
        drawn = uniform(g, whole.shape, whole.dtype).value
        slope = ops.add(ops.mul(drawn, g.scalar(high - low, whole.dtype)),
                        g.scalar(low, whole.dtype))
    slope = ops.where(ops.greater(value, g.scalar(0, whole.dtype)),
                      g.fill(whole.shape, 1, whole.dtype), slope)
    return Traced(ops.mul(value, slope)), Traced(slope)
