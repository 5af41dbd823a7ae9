"""ATen ops as ops of Stowage: a row for each, in a file for each family.

    @row("relu", "silu")
    def ...

What has no row is decomposed by torch into ops that have, or refused.
"""

from __future__ import annotations

from stowage._aten import (attention, complex_numbers, convolutions, elementwise, indexing, losses,
                           norms, products, random, recurrent, reductions, sampling, scans,
                           segments, shapes, special)
from stowage._aten.table import ROWS

__all__ = ["ROWS", "attention", "complex_numbers", "convolutions", "elementwise", "indexing",
           "losses", "norms", "products", "random", "recurrent", "reductions", "sampling", "scans",
           "segments", "shapes", "special"]
