"""Packs the buffers of other planners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional

import numpy as np

from stowage import _core
from stowage._plans import Size, size_in_bytes
from stowage.errors import InvalidArgument


@dataclass(frozen=True)
class Packing:
    """The offset of every buffer, and the quality of the packing.

    `offsets` has an int64 for each buffer, in the order of the buffers. `height` is the largest
    end. No packing is lower than `lower_bound`, and `optimal` is true if `height` equals it. The
    buffers with the indices `bound_buffers` are all live at the time `bound_time`. Their sizes add
    up to `lower_bound`, unless a complete search has proven a higher bound. `violations` lists what
    an independent verifier has found; it is empty for a valid packing.
    """

    offsets: Any
    height: int
    lower_bound: int
    optimal: bool
    packer: str
    bound_time: int
    bound_buffers: Any
    violations: List[str]
    svg: str

    def _repr_html_(self) -> str:
        return self.svg


def pack(
    buffers: Any,
    capacity: Size = None,
    *,
    packer: str = "greedy",
    seconds: Optional[float] = None,
) -> Packing:
    """Packs buffers into as little memory as possible.

    `buffers` is a dict or a DataFrame with the columns "lower", "upper", "size" and optionally
    "alignment", or rows of (lower, upper, size) or (lower, upper, size, alignment). A buffer is
    live from `lower` (inclusive) to `upper` (exclusive), which are positions in a sequence of
    events. `capacity` is the maximum height. `packer` is "greedy", "linear", or "best", which
    continues to search for `seconds` seconds.

    Raises BudgetTooSmall if no packing within `capacity` was found, and InvalidArgument, with the
    buffer, if a buffer is malformed.
    """
    if hasattr(buffers, "keys"):
        columns = {name: _whole(buffers[name], name) for name in buffers.keys()
                   if name in ("lower", "upper", "size", "alignment")}
        missing = {"lower", "upper", "size"} - set(columns)
        if missing:
            raise InvalidArgument(f"[pack] there are no columns {sorted(missing)}")
    else:
        table = _whole(buffers, "buffers")
        if table.ndim != 2 or table.shape[1] not in (3, 4):
            raise InvalidArgument(f"[pack] buffers have the shape {table.shape}; expected rows "
                                  "of (lower, upper, size) or (lower, upper, size, alignment)")
        columns = {name: np.ascontiguousarray(column) for name, column in
                   zip(("lower", "upper", "size", "alignment"), table.T)}
    packed = _core.pack(columns["lower"], columns["upper"], columns["size"],
                        columns.get("alignment"), size_in_bytes(capacity), packer, seconds)
    return Packing(**packed)


def _whole(numbers: Any, name: str) -> Any:
    array = np.asarray(numbers)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"[pack] {name} has elements of {array.dtype}; expected whole numbers")
    return np.ascontiguousarray(array, np.int64)
