"""Recurrent layers: an LSTM is one op, others are ops per position."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

from stowage import ops
from stowage._aten.elementwise import add
from stowage._aten.products import linear
from stowage._aten.random import dropped
from stowage._aten.shapes import cat, chunk, select, stack, unbind
from stowage._aten.table import Lowering, Traced, row

# (input part of the gates (B, T, ...), index of the state, matrix, other params, is reversed) ->
# h of all positions.
Layer = Callable[[Traced, int, Any, Sequence[Any], bool], Traced]
# (gates of a position, previous h) -> next h.
Cell = Callable[[Traced, Traced], Traced]


def _layers(g: Lowering, x: Any, params: Sequence[Any], has_biases: bool, layers: int,
            dropout: float, train: bool, bidirectional: bool, batch_first: bool,
            biases_in: int, layer_of: Layer) -> Traced:
    """Computes a stack of layers. The first `biases_in` biases are added to the gates. Further
    tensors are specific to the kind of layer."""
    y = g.traced(x)
    if not batch_first:
        y = y.permuted([1, 0, 2])
    sides = 2 if bidirectional else 1
    each = len(params) // (layers * sides)
    added = biases_in if has_biases else 0
    for layer in range(layers):
        outputs = []
        for side in range(sides):
            at = layer * sides + side
            w_in, w, *rest = params[at * each:(at + 1) * each]
            gates = linear(g, y, w_in, rest[0] if has_biases else None)
            for bias in rest[1:added]:
                gates = add(g, gates, bias)
            outputs.append(layer_of(gates, at, w, rest[added:], side == 1))
        y = cat(g, outputs, 2)
        if train and layer + 1 < layers:
            y = dropped(g, y, dropout)
    return y if batch_first else y.permuted([1, 0, 2])


def _state(g: Lowering, states: Any, at: int, dtype: str) -> Traced:
    return select(g, g.traced(states, dtype), 0, at)


def _walked(g: Lowering, gates: Traced, h: Traced, cell: Cell,
            reverse: bool) -> Tuple[Traced, Traced]:
    """Returns h of all positions, and the last h."""
    made: List[Traced] = []
    steps = unbind(g, gates, 1)
    for step in reversed(steps) if reverse else steps:
        h = cell(step, h)
        made.append(h)
    return stack(g, made[::-1] if reverse else made, 1), h


# --- LSTM ---


@row("lstm.input")
def lstm(g: Lowering, x: Any, state: Sequence[Any], params: Sequence[Any], has_biases: bool,
         layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> Tuple[Traced, Traced, Traced]:
    last_h: List[Traced] = []
    last_c: List[Traced] = []

    def layer_of(gates: Traced, at: int, w: Any, rest: Sequence[Any], reverse: bool) -> Traced:
        h0, c0 = (_state(g, s, at, gates.dtype) for s in state)
        if rest:
            h, end_h, end_c = _projected(g, gates, h0, c0, w, rest[0], reverse)
        else:
            _, made, c = ops.lstm(gates.value, h0.value, c0.value, g.value(w), reverse=reverse)
            h, end = Traced(made), 0 if reverse else made.shape[1] - 1
            end_h, end_c = select(g, h, 1, end), select(g, Traced(c), 1, end)
        last_h.append(end_h)
        last_c.append(end_c)
        return h

    y = _layers(g, x, params, has_biases, layers, dropout, train, bidirectional, batch_first, 2,
                layer_of)
    return y, stack(g, last_h, 0), stack(g, last_c, 0)


def _projected(g: Lowering, gates: Traced, h: Traced, c: Traced, w: Any, projection: Any,
               reverse: bool) -> Tuple[Traced, Traced, Traced]:
    """Computes an LSTM with a projection. Returns h of all positions, and the last h and c."""
    cells = [c]

    def cell(step: Traced, before: Traced) -> Traced:
        i, f, new, o = (part.value for part in chunk(g, add(g, step, linear(g, before, w)), 4, 1))
        kept = ops.mul(ops.sigmoid(f), cells[0].value)
        cells[0] = Traced(ops.add(kept, ops.mul(ops.sigmoid(i), ops.tanh(new))))
        bent = ops.mul(ops.sigmoid(o), ops.tanh(cells[0].value))
        return linear(g, Traced(bent), projection)

    made, last = _walked(g, gates, h, cell, reverse)
    return made, last, cells[0]


# --- Others ---


@row("gru.input")
def gru(g: Lowering, x: Any, state: Any, params: Sequence[Any], has_biases: bool, layers: int,
        dropout: float, train: bool, bidirectional: bool,
        batch_first: bool) -> Tuple[Traced, Traced]:
    last: List[Traced] = []

    def layer_of(gates: Traced, at: int, w: Any, rest: Sequence[Any], reverse: bool) -> Traced:
        def cell(step: Traced, before: Traced) -> Traced:
            r, z, new = (part.value for part in chunk(g, step, 3, 1))
            of_h = linear(g, before, w, rest[0] if rest else None)
            h_r, h_z, h_new = (part.value for part in chunk(g, of_h, 3, 1))
            reset = ops.sigmoid(ops.add(r, h_r))
            new = ops.tanh(ops.add(new, ops.mul(reset, h_new)))
            update = ops.sigmoid(ops.add(z, h_z))
            return Traced(ops.add(ops.mul(ops.sub(before.value, new), update), new))

        made, h = _walked(g, gates, _state(g, state, at, gates.dtype), cell, reverse)
        last.append(h)
        return made

    y = _layers(g, x, params, has_biases, layers, dropout, train, bidirectional, batch_first, 1,
                layer_of)
    return y, stack(g, last, 0)


def _rnn(bend: Any) -> Any:
    def rnn(g: Lowering, x: Any, state: Any, params: Sequence[Any], has_biases: bool, layers: int,
            dropout: float, train: bool, bidirectional: bool,
            batch_first: bool) -> Tuple[Traced, Traced]:
        last: List[Traced] = []

        def layer_of(gates: Traced, at: int, w: Any, rest: Sequence[Any], reverse: bool) -> Traced:
            def cell(step: Traced, before: Traced) -> Traced:
                return Traced(bend(add(g, step, linear(g, before, w)).value))

            made, h = _walked(g, gates, _state(g, state, at, gates.dtype), cell, reverse)
            last.append(h)
            return made

        y = _layers(g, x, params, has_biases, layers, dropout, train, bidirectional, batch_first,
                    2, layer_of)
        return y, stack(g, last, 0)
    return rnn


row("rnn_tanh.input")(_rnn(ops.tanh))
row("rnn_relu.input")(_rnn(ops.relu))
