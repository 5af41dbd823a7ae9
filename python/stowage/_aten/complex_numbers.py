"""Complex numbers, as pairs of real tensors, and Fourier transforms, as matmuls with the matrix of
the transform along each axis.

A row of this file, or of real tensors, is called where an operand or the result is complex. Those
of `BY_PARTS` are linear: the row of real tensors is applied to real and imaginary parts.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

from stowage import _core, ops
from stowage._aten import elementwise, products, reductions, special
from stowage._aten.shapes import cat, select, slice_, unsqueeze
from stowage._aten.table import ROWS, Complex, Lowering, Row, Traced
from stowage.errors import Unsupported

# By the name of an op, the positions of those operands that are complex. A list is one operand.
BY_PARTS: Dict[str, Tuple[int, ...]] = {
    **dict.fromkeys((
        "_unsafe_view", "alias", "cat", "clone", "contiguous", "cumsum", "detach", "diagonal",
        "embedding", "expand", "flatten.using_ints", "flip", "gather", "index.Tensor",
        "index_select", "mean", "mean.dim", "movedim.int", "movedim.intlist", "narrow", "neg",
        "permute", "repeat", "repeat_interleave.self_int", "reshape", "roll", "select.int",
        "slice.Tensor", "split.Tensor", "split_with_sizes", "squeeze", "squeeze.dim",
        "squeeze.dims", "stack", "sum", "sum.dim_IntList", "t", "transpose.int", "tril", "triu",
        "unbind.int", "unflatten.int", "unfold", "unsqueeze", "view"), (0,)),
    **dict.fromkeys(("copy", "select_scatter", "slice_scatter"), (0, 1)),
    **dict.fromkeys(("constant_pad_nd", "index_put", "masked_fill.Scalar", "masked_fill.Tensor"),
                    (0, 2)),
    **dict.fromkeys(("where.self", "where.ScalarOther", "where.ScalarSelf"), (1, 2)),
    "index_add": (0, 3),
}
_OWN: Dict[str, Callable[..., Any]] = {}


def row_of(name: str, is_complex: bool) -> Optional[Callable[..., Any]]:
    """Returns the row of an op on complex or real numbers, or None."""
    if not is_complex:
        return ROWS.get(name)
    if name in _OWN:
        return _OWN[name]
    positions = BY_PARTS.get(name.removesuffix(".default"))
    return None if positions is None else lambda g, *args, **kwargs: _by_parts(
        g, ROWS[name], positions, args, kwargs)


def _own(*names: str) -> Callable[[Row], Row]:
    """Registers the row of ops on complex numbers, which may also have one on real numbers."""
    def add(function: Row) -> Row:
        for name in names:
            name = name if "." in name else name + ".default"
            _OWN[name] = function
            ROWS.setdefault(name, function)
        return function
    return add


def _number(g: Lowering, x: Any) -> Complex:
    """Returns an operand as a complex tensor, or a number as a pair of numbers."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, g.torch.Tensor):
        def parts() -> Tuple[Any, Complex]:
            made = (x.real, x.resolve_conj().imag) if x.is_complex() else (x, g.torch.zeros_like(x))
            return x, Complex(*(g.traced(each.contiguous()) for each in made))
        made: Complex = g.once(("parts", id(x)), parts)[1]  # with the tensor, whose id it is
        return made
    if isinstance(x, Traced):
        return Complex(x, Traced(g.fill(x.shape, 0, x.dtype)))
    return Complex(x.real, x.imag)


def _is_real(g: Lowering, x: Any) -> bool:
    if isinstance(x, complex):
        return x.imag == 0
    return not (isinstance(x, Complex) or isinstance(x, g.torch.Tensor) and x.is_complex())


def _plain(x: Any) -> Any:
    """Returns the real part of an operand, which may be a complex number."""
    return x.real if isinstance(x, complex) else x


def _by_parts(g: Lowering, function: Callable[..., Any], positions: Sequence[int],
              args: Sequence[Any], kwargs: Any) -> Any:
    def part(imaginary: bool) -> Any:
        def of(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return [of(each) for each in x]
            return _number(g, x).imaginary if imaginary else _number(g, x).real
        return function(g, *(of(x) if i in positions else x for i, x in enumerate(args)),
                        **kwargs)
    real, imaginary = part(False), part(True)
    if isinstance(real, tuple):
        return tuple(Complex(a, b) for a, b in zip(real, imaginary))
    return Complex(g.traced(real), g.traced(imaginary))


# --- Parts ---


@_own("complex")
def complex_(g: Lowering, real: Any, imaginary: Any) -> Complex:
    if real.shape == imaginary.shape:
        return Complex(g.traced(real), g.traced(imaginary))
    return Complex(*map(Traced, _core.broadcast(g.value(real), g.value(imaginary))))


@_own("view_as_complex")
def view_as_complex(g: Lowering, x: Traced) -> Complex:
    return Complex(select(g, x, -1, 0), select(g, x, -1, 1))


@_own("view_as_real")
def view_as_real(g: Lowering, x: Complex) -> Traced:
    real, imaginary = (unsqueeze(g, each, -1) for each in (x.real, x.imaginary))
    return cat(g, [real, imaginary], -1)


@_own("polar")
def polar(g: Lowering, size: Any, angle: Any) -> Complex:
    angle = g.traced(angle)
    return Complex(elementwise.mul(g, size, Traced(ops.cos(angle.base), angle.order)),
                   elementwise.mul(g, size, Traced(ops.sin(angle.base), angle.order)))


@_own("_conj", "_conj_physical", "conj_physical")
def conj(g: Lowering, x: Complex) -> Complex:
    return Complex(x.real, Traced(ops.neg(x.imaginary.base), x.imaginary.order))


def _squared(g: Lowering, x: Complex) -> Traced:
    return elementwise.add(g, elementwise.mul(g, x.real, x.real),
                           elementwise.mul(g, x.imaginary, x.imaginary))


@_own("abs")
def abs_(g: Lowering, x: Complex) -> Traced:
    return Traced(reductions.root(g, _squared(g, x).value))


@_own("angle")
def angle(g: Lowering, x: Complex) -> Traced:
    return special.atan2(g, x.imaginary, x.real)


@_own("linalg_vector_norm")
def vector_norm(g: Lowering, x: Complex, *args: Any, **kwargs: Any) -> Traced:
    return reductions.vector_norm(g, abs_(g, x), *args, **kwargs)


@_own("_to_copy", "to.dtype")
def to(g: Lowering, x: Any, dtype: Any = None, **_: Any) -> Any:
    if dtype is not None and not dtype.is_complex:
        return g.traced(_number(g, x).real, g.name_of(dtype))
    x = _number(g, x)
    name = "" if dtype is None else g.name_of(dtype.to_real())
    return Complex(g.traced(x.real, name), g.traced(x.imaginary, name))


# --- Arithmetic ---


@_own("add.Tensor", "add.Scalar")
def add(g: Lowering, a: Any, b: Any, alpha: float = 1) -> Complex:
    return _sum(g, elementwise.add, a, b, alpha)


@_own("sub.Tensor", "sub.Scalar")
def sub(g: Lowering, a: Any, b: Any, alpha: float = 1) -> Complex:
    return _sum(g, elementwise.sub, a, b, alpha)


def _sum(g: Lowering, row_: Callable[..., Traced], a: Any, b: Any, alpha: float) -> Complex:
    x, y = _number(g, a), _number(g, b)
    return Complex(row_(g, x.real, y.real, alpha), row_(g, x.imaginary, y.imaginary, alpha))


@_own("mul.Tensor", "mul.Scalar")
def mul(g: Lowering, a: Any, b: Any) -> Complex:
    return _product(g, elementwise.mul, a, b)


@_own("mm", "bmm", "matmul")
def matmul(g: Lowering, a: Any, b: Any) -> Complex:
    return _product(g, products.matmul, a, b)


def _product(g: Lowering, times: Callable[..., Traced], a: Any, b: Any) -> Complex:
    """Returns a product that is linear in both factors."""
    for x, y, swaps in ((a, b, False), (b, a, True)):
        if _is_real(g, y):
            z, real = _number(g, x), _plain(y)
            return Complex(*(times(g, real, each) if swaps else times(g, each, real)
                             for each in (z.real, z.imaginary)))
    x, y = _number(g, a), _number(g, b)
    return Complex(
        elementwise.sub(g, times(g, x.real, y.real), times(g, x.imaginary, y.imaginary)),
        elementwise.add(g, times(g, x.real, y.imaginary), times(g, x.imaginary, y.real)))


@_own("div.Tensor", "div.Scalar")
def div(g: Lowering, a: Any, b: Any) -> Complex:
    if _is_real(g, b):
        x, real = _number(g, a), _plain(b)
        return Complex(elementwise.div(g, x.real, real), elementwise.div(g, x.imaginary, real))
    return mul(g, a, 1 / b if isinstance(b, complex) else reciprocal(g, _number(g, b)))


@_own("reciprocal")
def reciprocal(g: Lowering, x: Complex) -> Complex:
    size = _squared(g, x)
    y = conj(g, x)
    return Complex(elementwise.div(g, y.real, size), elementwise.div(g, y.imaginary, size))


@_own("exp")
def exp(g: Lowering, x: Complex) -> Complex:
    return polar(g, Traced(ops.exp(x.real.base), x.real.order), x.imaginary)


@_own("square")
def square(g: Lowering, x: Complex) -> Complex:
    return mul(g, x, x)


@_own("pow.Tensor_Scalar")
def pow_scalar(g: Lowering, x: Complex, exponent: float) -> Complex:
    if not isinstance(exponent, (int, float)) or exponent != int(exponent) or not (
            1 <= abs(exponent) <= 8):
        raise Unsupported(f"[from_torch] a complex number to the power of {exponent} is not "
                          "supported; expected a whole number of 1 to 8, or its negative")
    made = x
    for _ in range(abs(int(exponent)) - 1):
        made = mul(g, made, x)
    return made if exponent > 0 else reciprocal(g, made)


# --- Fourier transforms ---

BY_ROOT, BY_COUNT = 1, 2  # how torch calls a division of a transform


def _waves(g: Lowering, rows: int, columns: int, count: int, scale: float) -> Tuple[Any, Any]:
    """Returns cos and sin of 2 pi j k / count, times a scale."""
    def make() -> Tuple[Any, Any]:
        # j k modulo count, so that the angles are exact.
        steps = (g.torch.arange(rows)[:, None] * g.torch.arange(columns)) % count
        angles = steps.double() * (2 * math.pi / count)
        return angles.cos() * scale, angles.sin() * scale
    waves: Tuple[Any, Any] = g.once(("waves", rows, columns, count, scale), make)
    return waves


def _times(g: Lowering, x: Traced, dim: int, matrix: Any) -> Traced:
    turned, back = g.last(x, dim)
    return products.matmul(g, turned, g.traced(matrix, x.dtype)).permuted(back)


def _scale(shape: Sequence[int], dims: Sequence[int], normalization: int) -> float:
    count = math.prod(shape[dim] for dim in dims)
    return {BY_ROOT: 1 / math.sqrt(count), BY_COUNT: 1 / count}.get(normalization, 1.0)


@_own("_fft_r2c")
def fft_r2c(g: Lowering, x: Traced, dims: Sequence[int], normalization: int,
            onesided: bool) -> Complex:
    """Returns the transform of real numbers. If `onesided`, only half of the last axis."""
    dims = [g.axis(x, dim) for dim in dims]
    n = x.shape[dims[-1]]
    cos, sin = _waves(g, n, n // 2 + 1 if onesided else n, n,
                      _scale(x.shape, dims, normalization))
    sine = _times(g, x, dims[-1], sin)
    made = conj(g, Complex(_times(g, x, dims[-1], cos), sine))
    return _transformed(g, made, dims[:-1], True)


@_own("_fft_c2c")
def fft_c2c(g: Lowering, x: Complex, dims: Sequence[int], normalization: int,
            forward: bool) -> Complex:
    dims = [g.axis(x, dim) for dim in dims]
    return _transformed(g, x, dims, forward, _scale(x.shape, dims, normalization))


def _transformed(g: Lowering, x: Complex, dims: Sequence[int], forward: bool,
                 scale: float = 1) -> Complex:
    for dim in dims:
        n = x.shape[dim]
        cos, sin = _waves(g, n, n, n, scale)
        a, b = x.real, x.imaginary
        if forward:
            a, b = b, a
        # (a + ib) e^(it), or the conjugate of it.
        turned = (elementwise.sub(g, _times(g, a, dim, cos), _times(g, b, dim, sin)),
                  elementwise.add(g, _times(g, a, dim, sin), _times(g, b, dim, cos)))
        x, scale = Complex(*(turned[::-1] if forward else turned)), 1
    return x


@_own("_fft_c2r")
def fft_c2r(g: Lowering, x: Complex, dims: Sequence[int], normalization: int,
            size: int) -> Traced:
    """Returns the inverse transform of half of the numbers. The other half is conjugate."""
    dims, size = [g.axis(x, dim) for dim in dims], int(size)
    last, half = dims[-1], size // 2 + 1
    x = _transformed(g, x, dims[:-1], False)
    shape = [size if dim == last else n for dim, n in enumerate(x.shape)]
    scale = _scale(shape, dims, normalization)

    def make() -> Tuple[Any, Any]:
        twice = [1 if k == 0 or 2 * k == size else 2 for k in range(half)]
        factors = g.torch.tensor(twice)[:, None]
        cos, sin = _waves(g, half, size, size, scale)
        return factors * cos, factors * sin
    cos, sin = g.once(("half waves", half, size, scale), make)
    real, imaginary = (slice_(g, each, last, 0, half) for each in (x.real, x.imaginary))
    return elementwise.sub(g, _times(g, real, last, cos), _times(g, imaginary, last, sin))
