"""Attention: one op, which does not save attention scores."""

from __future__ import annotations

import math
from typing import Any, Optional, Tuple

from stowage import ops
from stowage._aten import elementwise, products, random, reductions
from stowage._aten.shapes import broadcast, repeat_interleave, reshaped
from stowage._aten.table import Lowering, Traced, row

# A bias of at most this masks a key.
NEVER = -1e30


@row("scaled_dot_product_attention")
def attention(g: Lowering, q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0,
              is_causal: bool = False, *, scale: Optional[float] = None,
              enable_gqa: bool = False) -> Traced:
    q, k, v = (g.traced(x) for x in (q, k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    causal, window, bias = _mask(g, mask, is_causal, q.shape[-2], k.shape[-2], q.dtype)
    if dropout > 0 and g.is_random:
        return _by_parts(g, q, k, v, mask, dropout, is_causal, scale)
    lead = q.shape[:-3]
    if v.shape[-1] != q.shape[-1] or scale <= 0 or (bias is not None and len(lead) > 1):
        return _by_parts(g, q, k, v, mask, 0, is_causal, scale)
    count = math.prod(lead)
    q4, k4, v4 = (_of_rank_four(x, count) for x in (q, k, v))
    queries, keys, values = (x.permuted([0, 2, 1, 3]).value for x in (q4, k4, v4))
    made = ops.attention(queries, keys, values, bias, scale=scale, causal=causal,
                         window=window)[0]
    return reshaped(Traced(made, [0, 2, 1, 3]), [*q.shape[:-1], v.shape[-1]])


def _of_rank_four(x: Traced, count: int) -> Traced:
    """Reshapes to (count, heads, length, depth). A tensor without heads gets one head."""
    if len(x.shape) == 4:
        return x
    return reshaped(x, [count, *([1] if len(x.shape) < 3 else []), *x.shape[-3:]])


def _mask(g: Lowering, mask: Any, is_causal: bool, queries: int, keys: int,
          dtype: str) -> Tuple[bool, int, Any]:
    """Returns whether attention is causal, its window, and the remaining bias."""
    if is_causal and queries == keys:
        return True, 0, None
    if is_causal:
        mask = g.torch.ones(queries, keys, dtype=g.torch.bool).tril()
    if mask is None:
        return False, 0, None
    if isinstance(mask, g.torch.Tensor):
        seen = _seen(g, mask)
        if seen is not None:
            known = _known_mask(g, seen, queries, keys)
            if known is not None:
                return (*known, None)
            mask = g.torch.zeros(seen.shape).masked_fill(~seen, -math.inf)
        mask = _without_repetition(mask)
    elif g.dtype_of(mask) == g.torch.bool:
        mask = elementwise.where(g, mask, 0.0, g.torch.tensor(-math.inf))
    x = g.traced(mask, dtype)
    shape = [1] * (4 - len(x.shape)) + list(x.shape)
    # One query per key.
    x = broadcast(reshaped(x, shape), [*shape[:3], keys])
    return False, 0, x.value


def _seen(g: Lowering, mask: Any) -> Any:
    """Returns the keys that a query attends to, if the mask is boolean or equivalent."""
    if mask.dtype == g.torch.bool:
        return mask
    is_plain = bool(((mask == 0) | (mask <= NEVER)).all()) and bool((mask == 0).any(-1).all())
    return mask == 0 if is_plain else None


def _known_mask(g: Lowering, seen: Any, queries: int, keys: int) -> Optional[Tuple[bool, int]]:
    """Returns (causal, window) of a mask that is equal for all heads and examples."""
    rows = seen.expand(*seen.shape[:-2], queries, keys).reshape(-1, queries, keys)
    if not bool((rows == rows[:1]).all()):
        return None
    one = rows[0]
    if bool(one.all()):
        return False, 0
    if queries > keys:
        return None
    # The last query is aligned with the last key.
    behind = (g.torch.arange(queries)[:, None] + (keys - queries)) - g.torch.arange(keys)
    window = int(one[-1].sum())
    if bool((one == (behind >= 0)).all()):
        return True, 0
    if bool((one == ((behind >= 0) & (behind < window))).all()):
        return True, window
    return None


def _without_repetition(mask: Any) -> Any:
    """Reduces each axis along which the mask is constant to one element, except the last axis."""
    for axis in range(mask.dim() - 1):
        if mask.shape[axis] > 1 and bool((mask == mask.narrow(axis, 0, 1)).all()):
            mask = mask.narrow(axis, 0, 1)
    return mask


def _by_parts(g: Lowering, q: Traced, k: Traced, v: Traced, mask: Any, dropout: float,
              is_causal: bool, scale: float) -> Traced:
    heads, groups = q.shape[-3] if len(q.shape) > 2 else 1, k.shape[-3] if len(k.shape) > 2 else 1
    if heads != groups:
        k, v = (repeat_interleave(g, x, heads // groups, -3) for x in (k, v))
    rank = len(k.shape)
    order = [*range(rank - 2), rank - 1, rank - 2]
    scores = elementwise.mul(g, products.matmul(g, q, k.permuted(order)), scale)
    if is_causal:
        mask = g.torch.ones(q.shape[-2], k.shape[-2], dtype=g.torch.bool).tril()
    if mask is not None and g.dtype_of(mask) == g.torch.bool:
        scores = elementwise.where(g, mask, scores, g.torch.tensor(-math.inf))
    elif mask is not None:
        scores = elementwise.add(g, scores, mask)
    weights = reductions.softmax(g, scores, -1)
    if dropout > 0:
        weights = random.dropped(g, weights, dropout)
    return products.matmul(g, weights, v)
