"""The table of conversions ("rows") of ATen ops, and the tensors of the graph being built.

A row is called with a Lowering and an op's arguments, in which tensors are ``Traced``, or
tensors of torch where they are the same in every step:

    @row("addcmul.default")
    def addcmul(g, x, a, b, value=1): ...
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from stowage import ops
from stowage._core import GraphBuilder, Value
from stowage.errors import Unsupported

ROWS: Dict[str, Callable[..., Any]] = {}

Row = TypeVar("Row", bound=Callable[..., Any])


def row(*names: str) -> Callable[[Row], Row]:
    """Registers a function as the row of ATen ops, as "relu.default"; ".default" is optional."""
    def add(function: Row) -> Row:
        for name in names:
            ROWS[name if "." in name else name + ".default"] = function
        return function
    return add


class Traced:
    """A tensor that depends on the step. It is a value of the graph whose axes may be permuted:
    axis i is the value's axis order[i]. A permutation is added only when an op needs it, so that
    permutations that cancel add nothing.

    `linear` is (x, weight) if the value is their matmul, the logits of a language model. A loss may
    use the pair instead of the value, which is computed only on request.
    """

    def __init__(self, value: Optional[Value], order: Sequence[int] = (),
                 linear: Optional[Tuple[Value, Value]] = None,
                 make: Optional[Callable[[], Value]] = None,
                 shape: Sequence[int] = (), dtype: str = "") -> None:
        self._value = value
        self._make = make
        self._shape = tuple(shape) if value is None else tuple(value.shape)
        self.dtype = dtype if value is None else value.dtype
        self.order = tuple(order) or tuple(range(len(self._shape)))
        self.linear = linear

    @property
    def base(self) -> Value:
        """The value, with its axes as stored."""
        if self._value is None:
            assert self._make is not None
            self._value = self._make()
        return self._value

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self._shape[i] for i in self.order)

    @property
    def is_permuted(self) -> bool:
        return self.order != tuple(range(len(self.order)))

    @property
    def value(self) -> Value:
        """The value, with its axes in order."""
        return ops.permute(self.base, order=self.order) if self.is_permuted else self.base

    def permuted(self, order: Sequence[int]) -> Traced:
        if self._value is None:
            return Traced(self.base, [self.order[i] for i in order])
        return Traced(self._value, [self.order[i] for i in order])


class Complex:
    """A tensor of complex numbers: its real and imaginary parts (``complex_numbers.py``)."""

    def __init__(self, real: Any, imaginary: Any) -> None:
        self.real = real
        self.imaginary = imaginary

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self.real.shape)


class Lowering:
    """The state that rows share while a graph is built."""

    def __init__(self, torch: Any, builder: GraphBuilder, is_random: bool = True,
                 is_stilled: bool = False) -> None:
        self.torch = torch
        self.builder = builder
        self.is_random = is_random    # else dropouts let everything through
        self.is_stilled = is_stilled  # other random ops give one number
        self.draws = 0              # random ops so far
        # The number of batches, by the identity of a batch norm's statistics.
        self.counts: Dict[int, Traced] = {}
        self._constants: Dict[Tuple[int, str], Tuple[Any, Value]] = {}
        self._scalars: Dict[Tuple[float, str], Value] = {}
        self._once: Dict[Any, Any] = {}
        self._step: Optional[Tuple[Value, Value]] = None
        self.names = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16",
                      torch.bfloat16: "bf16", torch.int16: "i16", torch.int32: "i32",
                      torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool"}
        self.types = {name: dtype for dtype, name in self.names.items()}

    # --- Types ---

    def name_of(self, dtype: Any) -> str:
        """Returns the dtype name of a torch type."""
        if dtype not in self.names:
            raise Unsupported(f"[from_torch] there are no tensors of {dtype} here; expected one "
                              f"of {', '.join(self.names.values())}")
        return self.names[dtype]

    def dtype_of(self, x: Any) -> Any:
        """Returns the torch type of a tensor."""
        if isinstance(x, Complex):
            return self.types[x.real.dtype].to_complex()
        return self.types[x.dtype] if isinstance(x, Traced) else x.dtype

    def result_type(self, *operands: Any) -> str:
        """Returns the type in which torch computes with these tensors and numbers."""
        def stand_in(x: Any) -> Any:
            if isinstance(x, (Traced, self.torch.Tensor)):
                # By category of rank: scalars, or others.
                return self.torch.empty([0] * min(len(x.shape), 1), dtype=self.dtype_of(x))
            return x
        found = stand_in(operands[0])
        for operand in operands[1:]:
            found = self.torch.empty([0] * self._rank(found, operand),
                                     dtype=self.torch.result_type(found, stand_in(operand)))
        if not isinstance(found, self.torch.Tensor):
            found = self.torch.tensor(found)
        return self.name_of(found.dtype)

    def _rank(self, a: Any, b: Any) -> int:
        return int(any(len(getattr(x, "shape", ())) > 0 for x in (a, b)))

    def is_float(self, x: Any) -> bool:
        return bool(self.dtype_of(x).is_floating_point)

    # --- Values ---

    def scalar(self, number: float, dtype: str) -> Value:
        key = (float(number), dtype)
        if key not in self._scalars:
            self._scalars[key] = self.builder.emit(
                "fill", [], {"dtype": dtype, "shape": [], "value": float(number)})[0]
        return self._scalars[key]

    def fill(self, shape: Sequence[int], number: float, dtype: str) -> Value:
        return self.builder.emit("fill", [], {"dtype": dtype, "shape": list(shape),
                                              "value": float(number)})[0]

    def value(self, x: Any, dtype: str = "") -> Value:
        """Returns a tensor or number as a value, optionally of a given type."""
        if isinstance(x, Traced):
            return self.cast(x.value, dtype or x.dtype)
        if not isinstance(x, self.torch.Tensor):
            return self.scalar(x, dtype or ("f32" if isinstance(x, float) else "i64"))
        dtype = dtype or self.name_of(x.dtype)
        if (id(x), dtype) not in self._constants:
            made = self._constant(x.detach().cpu().to(self.types[dtype]), dtype)
            self._constants[id(x), dtype] = (x, made)  # the tensor, so that its id stays its
        return self._constants[id(x), dtype][1]

    def _constant(self, x: Any, dtype: str) -> Value:
        # For a tensor expanded along axes, only the expanded part.
        flat = x
        for axis in range(x.dim()):
            if x.shape[axis] > 1 and bool((flat == flat.narrow(axis, 0, 1)).all()):
                flat = flat.narrow(axis, 0, 1)
        if flat.numel() == 1:
            return self.fill(x.shape, flat.item(), dtype)
        made = self.builder.constant(flat.contiguous())
        return made if flat.shape == x.shape else ops.broadcast(made, shape=list(x.shape))

    def cast(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else ops.cast(value, dtype=dtype)

    def traced(self, x: Any, dtype: str = "") -> Traced:
        if isinstance(x, Traced) and dtype in ("", x.dtype):
            return x
        if isinstance(x, Traced):
            return Traced(self.cast(x.base, dtype), x.order)
        return Traced(self.value(x, dtype))

    def step(self) -> Tuple[Value, Value]:
        """The keys of random ops: the inputs "seed" and "step"."""
        if self._step is None:
            self._step = (self.builder.input("seed", "i64", []),
                          self.builder.input("step", "i64", []))
        return self._step

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Returns the result of `make`, which is called once, so that ops share equal constants."""
        if key not in self._once:
            self._once[key] = make()
        return self._once[key]

    def next_draw(self) -> int:
        self.draws += 1
        return self.draws - 1

    def axis(self, x: Any, axis: int) -> int:
        rank = len(x.shape)
        return axis + rank if axis < 0 else axis

    def axes(self, x: Any, axes: Any) -> List[int]:
        """Returns nonnegative axes, by default all."""
        if axes is None or (isinstance(axes, (list, tuple)) and not axes):
            return list(range(len(x.shape)))
        listed = [axes] if isinstance(axes, int) else list(axes)
        return sorted({self.axis(x, int(each)) for each in listed})

    def last(self, x: Any, axis: int) -> Tuple[Traced, List[int]]:
        """Moves this axis to the end; also returns the inverse permutation."""
        x = self.traced(x)
        if not x.shape:
            raise Unsupported("[from_torch] an op along an axis of a tensor that has none is not "
                              "supported")
        rank, axis = len(x.shape), self.axis(x, axis)
        order = [i for i in range(rank) if i != axis] + [axis]
        return x.permuted(order), [order.index(i) for i in range(rank)]
