"""Elementary and special functions that are composed of ops.

A function with a known derivative is defined by its value and its slope. The value is computed
without a gradient, so that backward keeps only the slope.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Sequence, Tuple

from stowage import _core, ops
from stowage._aten.table import Lowering, Traced, row
from stowage._core import Value

Unary = Callable[["Numbers", Value], Value]


class Numbers:
    """Arithmetic on values of one type and numbers."""

    def __init__(self, g: Lowering, dtype: str) -> None:
        self.g, self.dtype = g, dtype

    def of(self, number: float) -> Value:
        return self.g.scalar(number, self.dtype)

    def plus(self, x: Value, number: float) -> Value:
        return ops.add(x, self.of(number))

    def times(self, x: Value, number: float) -> Value:
        return ops.mul(x, self.of(number))

    def over(self, number: float, x: Value) -> Value:
        return ops.div(self.of(number), x)

    def less(self, x: Value, number: float) -> Value:
        return ops.less(x, self.of(number))

    def where(self, condition: Value, a: Any, b: Any) -> Value:
        """Applies to values or numbers."""
        x, y = (self.g.fill(condition.shape, each, self.dtype) if isinstance(each, (int, float))
                else each for each in (a, b))
        return ops.where(condition, x, y)

    def polynomial(self, x: Value, factors: Sequence[float]) -> Value:
        """Returns a polynomial by Horner's rule. Coefficients begin with the highest power."""
        total = self.plus(self.times(x, factors[0]), factors[1])
        for factor in factors[2:]:
            total = self.plus(ops.mul(total, x), factor)
        return total


def with_slopes(value: Value, *pairs: Tuple[Value, Value]) -> Value:
    """Returns `value`. Its gradient with respect to each operand is the given slope."""
    made = ops.stop_gradient(value)
    for x, slope in pairs:
        nothing = ops.sub(x, ops.stop_gradient(x))
        made = ops.add(made, ops.mul(nothing, ops.stop_gradient(slope)))
    return made


def _unary(name: str, value: Unary, slope: Any = None) -> None:
    def each(g: Lowering, x: Any) -> Traced:
        x = g.traced(x) if g.is_float(x) else g.traced(
            x, g.name_of(g.torch.get_default_dtype()))
        n = Numbers(g, x.dtype)
        made = value(n, x.base)
        return Traced(made if slope is None else with_slopes(made, (x.base, slope(n, x.base))),
                      x.order)
    row(name)(each)


# --- Hyperbolic functions, powers and logarithms ---


def _sinh(n: Numbers, x: Value) -> Value:
    # By expm1 near 0, for accuracy; elsewhere it overflows earlier.
    near = ops.expm1(ops.maximum(ops.minimum(x, n.of(1)), n.of(-1)))
    small = n.times(ops.add(near, ops.div(near, n.plus(near, 1))), 0.5)
    large = n.times(ops.sub(ops.exp(x), ops.exp(ops.neg(x))), 0.5)
    return ops.where(n.less(ops.absolute(x), 1), small, large)


def _cosh(n: Numbers, x: Value) -> Value:
    return n.times(ops.add(ops.exp(x), ops.exp(ops.neg(x))), 0.5)


def _asinh(n: Numbers, x: Value) -> Value:
    size, squared = ops.absolute(x), ops.square(x)
    grown = ops.add(size, ops.div(squared, n.plus(ops.sqrt(n.plus(squared, 1)), 1)))
    return ops.mul(ops.sign(x), ops.log1p(grown))


def _below(n: Numbers, x: Value) -> Value:
    """Returns 1 - x^2, with a positive lower bound so that the slope at 1 is finite."""
    return ops.maximum(ops.mul(ops.sub(n.of(1), x), n.plus(x, 1)), n.of(1e-30))


_unary("exp2", lambda n, x: ops.exp(n.times(x, math.log(2))))
_unary("log2", lambda n, x: n.times(ops.log(x), 1 / math.log(2)))
_unary("log10", lambda n, x: n.times(ops.log(x), 1 / math.log(10)))
_unary("tan", lambda n, x: ops.div(ops.sin(x), ops.cos(x)),
       lambda n, x: n.over(1, ops.square(ops.cos(x))))
_unary("sinh", _sinh, _cosh)
_unary("cosh", _cosh, _sinh)
_unary("asinh", _asinh, lambda n, x: ops.rsqrt(n.plus(ops.square(x), 1)))
_unary("acosh", lambda n, x: ops.log(ops.add(x, ops.sqrt(ops.mul(n.plus(x, 1), n.plus(x, -1))))),
       lambda n, x: ops.rsqrt(ops.maximum(ops.mul(n.plus(x, 1), n.plus(x, -1)), n.of(1e-30))))
_unary("atanh", lambda n, x: n.times(ops.sub(ops.log1p(x), ops.log1p(ops.neg(x))), 0.5),
       lambda n, x: n.over(1, _below(n, x)))

# --- Inverse trigonometric functions ---

# A rational function for arctan on [0, 0.66], of S. Moshier's Cephes library.
_ATAN_ABOVE = (-8.750608600031904122785e-1, -1.615753718733365076637e1,
               -7.500855792314704667340e1, -1.228866684490136173410e2,
               -6.485021904942025371773e1)
_ATAN_BELOW = (1, 2.485846490142306297962e1, 1.650270098316988542046e2,
               4.328810604912902668951e2, 4.853903996359136964868e2,
               1.945506571482613964425e2)
_TAN_3_PI_8 = 2.41421356237309504880


def _atan(n: Numbers, x: Value) -> Value:
    size = ops.absolute(x)
    is_large, is_small = ops.greater(size, n.of(_TAN_3_PI_8)), n.less(size, 0.66)
    turned = n.over(-1, ops.maximum(size, n.of(_TAN_3_PI_8)))
    middle = ops.div(n.plus(size, -1), n.plus(size, 1))
    y = n.where(is_large, turned, n.where(is_small, size, middle))
    start = n.where(is_large, math.pi / 2, n.where(is_small, 0, math.pi / 4))
    squared = ops.square(y)
    share = ops.div(n.polynomial(squared, _ATAN_ABOVE), n.polynomial(squared, _ATAN_BELOW))
    return ops.mul(ops.sign(x), ops.add(start, ops.add(y, ops.mul(ops.mul(y, squared), share))))


def _asin(n: Numbers, x: Value) -> Value:
    root = ops.sqrt(_below(n, x))
    return _atan(n, ops.div(x, root))


_unary("atan", _atan, lambda n, x: n.over(1, n.plus(ops.square(x), 1)))
_unary("asin", _asin, lambda n, x: ops.rsqrt(_below(n, x)))
_unary("acos", lambda n, x: ops.sub(n.of(math.pi / 2), _asin(n, x)),
       lambda n, x: ops.neg(ops.rsqrt(_below(n, x))))


def _pair(g: Lowering, a: Any, b: Any) -> Tuple[Numbers, Value, Value]:
    """Returns both operands in torch's computation type and in one shape."""
    dtype = g.result_type(a, b)
    if not g.types[dtype].is_floating_point:
        dtype = g.name_of(g.torch.get_default_dtype())
    x, y = _core.broadcast(g.value(a, dtype), g.value(b, dtype))
    return Numbers(g, dtype), x, y


@row("atan2")
def atan2(g: Lowering, a: Any, b: Any) -> Traced:
    n, y, x = _pair(g, a, b)
    is_none, is_back = ops.equal(x, n.of(0)), n.less(x, 0)
    side = n.where(n.less(y, 0), -1, 1)
    angle = _atan(n, ops.div(y, n.where(is_none, 1, x)))
    angle = ops.add(angle, n.where(is_back, n.times(side, math.pi), 0))
    upright = n.times(ops.sign(y), math.pi / 2)
    squares = ops.add(ops.square(x), ops.square(y))
    safe = n.where(ops.equal(squares, n.of(0)), 1, squares)
    return Traced(with_slopes(ops.where(is_none, upright, angle), (y, ops.div(x, safe)),
                              (x, ops.neg(ops.div(y, safe)))))


@row("hypot")
def hypot(g: Lowering, a: Any, b: Any) -> Traced:
    n, x, y = _pair(g, a, b)
    largest = ops.maximum(ops.absolute(x), ops.absolute(y))
    scale = n.where(ops.equal(largest, n.of(0)), 1, largest)
    squares = ops.add(ops.square(ops.div(x, scale)), ops.square(ops.div(y, scale)))
    made = ops.mul(scale, ops.sqrt(squares))
    safe = n.where(ops.equal(made, n.of(0)), 1, made)
    return Traced(with_slopes(made, (x, ops.div(x, safe)), (y, ops.div(y, safe))))


# --- The complement of the error function, of the same library ---

_ERFC_ABOVE = (2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
               4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
               9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2)
_ERFC_BELOW = (1, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
               9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
               1.65666309194161350182e3, 5.57535340817727675546e2)
_ERFC_FAR_ABOVE = (5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414,
                   6.16021097993053585195, 7.40974269950448939160, 2.97886665372100240670)
_ERFC_FAR_BELOW = (1, 2.26052863220117276590, 9.39603524938001434673, 1.20489539808096656605e1,
                   1.70814450747565897222e1, 9.60896809063285878198, 3.36907645100081516050)


def _erfc(n: Numbers, x: Value) -> Value:
    size = ops.absolute(x)
    near, far = ops.minimum(size, n.of(8)), ops.maximum(size, n.of(8))
    share = n.where(n.less(size, 8),
                    ops.div(n.polynomial(near, _ERFC_ABOVE), n.polynomial(near, _ERFC_BELOW)),
                    ops.div(n.polynomial(far, _ERFC_FAR_ABOVE),
                            n.polynomial(far, _ERFC_FAR_BELOW)))
    tail = ops.mul(ops.exp(ops.neg(ops.square(x))), share)
    tail = n.where(n.less(x, 0), ops.sub(n.of(2), tail), tail)
    return n.where(n.less(size, 1), ops.sub(n.of(1), ops.erf(x)), tail)


_unary("erfc", _erfc,
       lambda n, x: n.times(ops.exp(ops.neg(ops.square(x))), -2 / math.sqrt(math.pi)))

# --- Signs, integer parts, and NaN ---


def _trunc(n: Numbers, x: Value) -> Value:
    return ops.where(n.less(x, 0), ops.ceil(x), ops.floor(x))


_unary("trunc", _trunc)
_unary("fix", _trunc)


@row("copysign.Tensor", "copysign.Scalar")
def copysign(g: Lowering, a: Any, b: Any) -> Traced:
    n, x, y = _pair(g, a, b)
    # Also for -0.
    is_negative = ops.logical_or(n.less(y, 0), n.less(n.over(1, y), 0))
    return Traced(ops.mul(ops.absolute(x), n.where(is_negative, -1, 1)))


_QUESTIONS: Dict[str, Unary] = {
    "isnan": lambda n, x: ops.not_equal(x, x),
    "isinf": lambda n, x: ops.equal(ops.absolute(x), n.of(math.inf)),
    "isposinf": lambda n, x: ops.equal(x, n.of(math.inf)),
    "isneginf": lambda n, x: ops.equal(x, n.of(-math.inf)),
    "isfinite": lambda n, x: n.less(ops.absolute(x), math.inf),
}


def _question(name: str, answer: Unary) -> None:
    def each(g: Lowering, x: Any) -> Traced:
        x = g.traced(x)
        if not g.is_float(x):
            return Traced(g.fill(x.shape, float(name == "isfinite"), "bool"))
        return Traced(answer(Numbers(g, x.dtype), x.base), x.order)
    row(name)(each)


for _name, _answer in _QUESTIONS.items():
    _question(_name, _answer)


def _but_nan(g: Lowering, a: Any, b: Any, choose: Callable[[Value, Value], Value]) -> Traced:
    """Returns the selected operand, or the one that is not NaN."""
    _, x, y = _pair(g, a, b)
    x, y = (ops.where(ops.not_equal(one, one), other, one) for one, other in ((x, y), (y, x)))
    return Traced(choose(x, y))


@row("fmax")
def fmax(g: Lowering, a: Any, b: Any) -> Traced:
    return _but_nan(g, a, b, ops.maximum)


@row("fmin")
def fmin(g: Lowering, a: Any, b: Any) -> Traced:
    return _but_nan(g, a, b, ops.minimum)


@row("ldexp.Tensor")
def ldexp(g: Lowering, a: Any, b: Any) -> Traced:
    n, x, y = _pair(g, a, b)
    return Traced(ops.mul(x, ops.exp(n.times(y, math.log(2)))))
