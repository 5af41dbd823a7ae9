"""Converts ATen ops to ops of Stowage. Each op has a row, and each family of ops a file.

    @row("relu", "silu")
    def ...

torch decomposes ops without a row into ops that have one. Other ops are refused.
"""

from __future__ import annotations

from stowage._aten import (attention, complex_numbers, convolutions, elementwise, indexing, losses,
                           norms, products, random, recurrent, reductions, sampling, scans,
                           segments, shapes, special)
from stowage._aten.table import ROWS

__all__ = ["ROWS", "attention", "complex_numbers", "convolutions", "elementwise", "indexing",
           "losses", "norms", "products", "random", "recurrent", "reductions", "sampling", "scans",
           "segments", "shapes", "special"]
