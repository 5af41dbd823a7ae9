"""Recurrent layers. Of a GRU and of plain cells torch makes ops for each position."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

from stowage import ops
from stowage._aten.elementwise import add
from stowage._aten.products import linear
from stowage._aten.random import dropped
from stowage._aten.shapes import cat, select, stack
from stowage._aten.table import Lowering, Traced, row
from stowage.errors import Unsupported


@row("lstm.input")
def lstm(g: Lowering, x: Any, state: Sequence[Any], params: Sequence[Any], has_biases: bool,
         layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> Tuple[Traced, Traced, Traced]:
    x = g.traced(x)
    if not batch_first:
        x = x.permuted([1, 0, 2])
    sides = 2 if bidirectional else 1
    each = 4 if has_biases else 2
    if len(params) != layers * sides * each:
        raise Unsupported("[from_torch] an LSTM with proj_size is not supported")
    last_h: List[Traced] = []
    last_c: List[Traced] = []
    for layer in range(layers):
        outputs = []
        for side in range(sides):
            at = layer * sides + side
            w_in, w, *biases = params[at * each:(at + 1) * each]
            gates = linear(g, x, w_in, biases[0] if biases else None)
            if biases:
                gates = add(g, gates, biases[1])
            h0, c0 = (select(g, g.traced(s, x.dtype), 0, at).value for s in state)
            _, h, c = ops.lstm(gates.value, h0, c0, g.value(w), reverse=side == 1)
            outputs.append(Traced(h))
            end = 0 if side == 1 else h.shape[1] - 1
            last_h.append(select(g, Traced(h), 1, end))
            last_c.append(select(g, Traced(c), 1, end))
        x = cat(g, outputs, 2)
        if train and layer + 1 < layers:
            x = dropped(g, x, dropout)
    y = x if batch_first else x.permuted([1, 0, 2])
    return y, stack(g, last_h, 0), stack(g, last_c, 0)
