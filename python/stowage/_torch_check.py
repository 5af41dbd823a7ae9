"""Checks that a step of a model equals a step of a copy of the torch module that it was made
from."""

from __future__ import annotations

import contextlib
import copy
import random
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple

import numpy as np

from stowage import _core
from stowage._aten.exported import first_line, leaves_of, place_of, real_view
from stowage._aten.random import STILL_NORMAL, STILL_UNIFORM
from stowage._torch import TorchModule, class_axis
from stowage.errors import StowageError, Unsupported

# Random ops that the check can still: each draw is one number, on both sides.
STILLED = {"rand", "randn", "rand_like", "randn_like", "bernoulli", "exponential",
           "rrelu_with_noise_functional"}
TRIES = 8  # of a module that draws by Python


def check_module(made: TorchModule) -> None:
    """Checks that the loss, the gradients and the buffers of a step without randomness equal
    torch's, and that an earlier call does not change what the module computes."""
    try:
        differs = ""
        try:
            _Check(made).run()
        except _Differs as error:  # whose traceback holds the copies
            differs = str(error)
        # Through many batch norms of few images, f32's rounding alone may be as large.
        if differs and not _agrees_in_double(made):
            raise Unsupported(differs)
    finally:
        _core.return_free_memory()


class _Differs(Unsupported):
    """Raised for a number that differs from torch's."""


def _agrees_in_double(made: TorchModule) -> bool:
    torch = made.torch
    floats = [x for x in [*made.module.parameters(), *made.module.buffers()]
              if x.is_floating_point()]
    if any(x.dtype != torch.float32 for x in floats):
        return False

    def double(x: Any) -> Any:
        is_real = isinstance(x, torch.Tensor) and x.is_floating_point()
        return x.double() if is_real else x
    try:
        args, kwargs, labels = torch.utils._pytree.tree_map(
            double, (made.args, made.kwargs, made.loss.example_labels))
        _Check(TorchModule(torch, _copy(made.module).double(), args, kwargs,
                           made.loss._replace(example_labels=labels), made.input_names)).run()
    except Exception:
        return False
    return True


class _Step(NamedTuple):
    """The results of a torch step on a copy of the module."""

    loss: float
    bits: float                # the precision of the loss
    gradients: Dict[str, Any]  # by the names of params that require one
    buffers: Dict[str, Any]


class _Check:
    """Runs the check with few copies at a time. torch's activations are freed before the arena is
    allocated."""

    def __init__(self, made: TorchModule) -> None:
        self.made = made
        self.torch = made.torch
        self.exported = made.exported(True, made.batch)

    def run(self) -> None:
        made, torch = self.made, self.torch
        draws = made.draws(self.exported)
        # torch makes dropouts of the op that others draw by.
        has_coins = any(node.op == "call_function" and "bernoulli.p" in str(node.target)
                        for node in self.exported.graph.nodes)
        with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(), \
                _stilled(torch), _same_draws() as state:
            net = _copy(made.module)
            args, kwargs, labels = _copy((made.args, made.kwargs, made.loss.example_labels))
            kept = self._kept(net)
            once = self._called(net, args, kwargs)
            for name, before, version in kept:
                now = _attribute(net, name)
                if now is not before or now._version != version:
                    raise Unsupported(f'[from_torch] the module reads and writes its tensor '
                                      f'"{name}", which is neither a param nor a buffer; register '
                                      "it as a buffer")
            if state != _python_draws():
                self._expect_one_outcome()
            if draws <= STILLED and not has_coins:
                model = self._model()
                step, labels = self._their_step(net, once, labels)
                del once
                net.zero_grad(set_to_none=True)
                self._expect_no_memory(net)
                del net
                self._check_step(model, step, labels)
            else:
                del once
                self._expect_no_memory(net)

    def _called(self, net: Any, args: Any, kwargs: Any) -> Any:
        try:
            return net(*args, **kwargs)
        except StowageError:
            raise
        except Exception as error:
            raise Unsupported("[from_torch] a copy of the module cannot be called on the examples, "
                              f"so that it cannot be checked: {first_line(error)}"
                              f"{place_of(error)}; if the module itself can be, give check=False"
                              ) from error

    def _their_step(self, net: Any, once: Any, labels: Any) -> Tuple[_Step, Any]:
        loss, labels = self._their_loss(once, labels)
        try:
            loss.backward()
        except RuntimeError as error:
            raise Unsupported("[from_torch] torch cannot differentiate the module: "
                              f"{first_line(error)}") from error
        gradients = {name: None if param.grad is None else
                     real_view(self.torch, param.grad.detach().to_dense()).float().numpy()
                     for name, param in net.named_parameters() if param.requires_grad}
        buffers = {name: buffer.detach().cpu().clone() for name, buffer in (
            *net.named_buffers(), *self.made.state_tensors(net).items())}
        return _Step(float(loss.detach()), float(self.torch.finfo(loss.dtype).eps), gradients,
                     buffers), labels

    def _check_step(self, model: Any, step: _Step, labels: Any) -> None:
        made, torch = self.made, self.torch
        leaves = [x.contiguous()
                  for x in torch.utils._pytree.tree_leaves((made.args, made.kwargs, labels))
                  if isinstance(x, torch.Tensor)]
        kept_buffers = {**dict(made.module.named_buffers()), **made.state_tensors(made.module)}
        with self._trainer(model) as trainer:
            ours = trainer.step(*leaves)
            _expect_close("its loss is", ours, step.loss, max(1e-3, 2 * step.bits), 1e-6)
            self._check_gradients(step.gradients, trainer)
            for name, buffer in step.buffers.items():
                was = kept_buffers[name].detach().cpu()
                is_state = name in made.states
                if not is_state and not torch.equal(was, buffer):
                    raise Unsupported(
                        f'[from_torch] forward gives the buffer "{name}" a new tensor, which an '
                        "export does not keep; write it in place, as by copy_")
                now = trainer.read(name) if is_state else was.double().numpy()
                _expect_close(f'the buffer "{name}" has', now, buffer.double().numpy(), 1e-3, 1e-5)

    def _model(self) -> Any:
        return self.made.model(is_random=False)

    def _trainer(self, model: Any) -> Any:
        from stowage._trainers import Trainer

        try:
            return Trainer(model, optimizer="sgd", lr=1.0, optimizations="none", device="cpu")
        except StowageError as error:
            # What a row has refused, rather than that a function has raised.
            raise error.__cause__ if isinstance(error.__cause__, StowageError) else error

    def _outputs(self, net: Any, args: Any, kwargs: Any) -> List[Any]:
        """Returns the results of a copy whose buffers are those of the module."""
        made = self.made
        now = {**dict(net.named_buffers()), **made.state_tensors(net)}
        with self.torch.no_grad():
            for name, buffer in (*made.module.named_buffers(),
                                 *made.state_tensors(made.module).items()):
                if name in now and now[name].shape == buffer.shape:
                    now[name].copy_(buffer)
            return [x.detach().double() for _, x in leaves_of(self.torch, net(*args, **kwargs))
                    if isinstance(x, self.torch.Tensor) and not x.is_complex()]

    def _differ(self, some: List[Any], others: List[Any]) -> bool:
        return len(some) != len(others) or any(
            a.shape != b.shape or not self.torch.allclose(a, b, 1e-4, 1e-6, equal_nan=True)
            for a, b in zip(some, others))

    def _expect_one_outcome(self) -> None:
        """Checks that random numbers of Python or NumPy do not change the module's results."""
        made, net = self.made, _copy(self.made.module)
        tried = []
        for seed in range(TRIES):
            random.seed(seed)
            np.random.seed(seed)
            tried.append(self._outputs(net, made.args, made.kwargs))
        if any(self._differ(tried[0], each) for each in tried[1:]):
            raise Unsupported("[from_torch] the module draws random numbers by Python or NumPy, "
                              "of which an export keeps one outcome; use torch's random functions")

    def _expect_no_memory(self, used: Any) -> None:
        """Checks that a copy that was called before gives the same results as a new copy, on other
        inputs."""
        torch, made = self.torch, self.made

        def other(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or not x.dim():
                return x
            x = x.detach().flip(0)
            return x * 0.75 if x.is_floating_point() else x
        args, kwargs = torch.utils._pytree.tree_map(other, (made.args, made.kwargs))
        made_by = []
        for net in (_copy(made.module), used):
            random.seed(0)
            np.random.seed(0)
            torch.manual_seed(0)
            try:
                made_by.append(self._outputs(net, args, kwargs))
            except Exception:
                return  # inputs that are none
        if not self._differ(*made_by):
            return
        changed = sorted(self._changed(used))
        named = f" ({', '.join(changed[:3])})" if changed else ""
        raise Unsupported("[from_torch] the output of the module depends on earlier calls: forward "
                          f"changes an attribute that is neither a param nor a buffer{named}, and "
                          "an export keeps its first value; make it a buffer, or leave it")

    def _changed(self, used: Any) -> Iterator[str]:
        """Returns the attributes that a call has changed."""
        copies = dict(used.named_modules())
        for path, each in self.made.module.named_modules():
            now = vars(copies[path]) if path in copies else {}
            for name, value in now.items():
                before = vars(each).get(name)
                is_plain = isinstance(value, (int, float, str, type(None), self.torch.Tensor))
                sized = isinstance(value, (list, dict, set)) and isinstance(before, type(value))
                if name not in vars(each) or type(before) is not type(value) or (
                        len(before) != len(value) if sized else
                        is_plain and not isinstance(value, self.torch.Tensor) and before != value):
                    yield f'"{path}.{name}"' if path else f'"{name}"'

    def _kept(self, net: Any) -> List[Tuple[str, Any, int]]:
        """Returns the tensors that a copy of the module has as plain attributes and reads, by name,
        with their versions."""
        read = {x.data_ptr() for x in self.exported.constants.values()
                if isinstance(x, self.torch.Tensor)}
        found = []
        for path, each in self.made.module.named_modules():
            for name, x in vars(each).items():
                if isinstance(x, self.torch.Tensor) and x.data_ptr() in read:
                    whole = f"{path}.{name}" if path else name
                    copied = _attribute(net, whole)
                    found.append((whole, copied, copied._version))
        return found

    def _their_loss(self, output: Any, labels: Any) -> Tuple[Any, Any]:
        torch, loss = self.torch, self.made.loss
        kind = loss.kind
        if kind == "call":
            assert loss.call is not None
            return loss.call(output, labels), labels
        named = [(name, x) for name, x in leaves_of(torch, output) if isinstance(x, torch.Tensor)]
        names = [name for name, _ in self.exported.outputs]
        x: Any = named[0][1]
        if loss.output and len(names) > 1:
            x = dict(named)[loss.output]
        if not kind:
            return x.sum(), None
        generator = torch.Generator().manual_seed(0)
        shape = tuple(self.made.labels_shape(x.shape))
        functional = torch.nn.functional
        if kind != "cross_entropy":
            labels = torch.rand(shape, generator=generator).to(x.dtype)
            judge = (functional.mse_loss if kind == "mse" else
                     functional.binary_cross_entropy_with_logits)
            return judge(x, labels), labels
        axis = class_axis(tuple(x.shape), shape)
        labels = torch.randint(0, x.shape[axis], shape, generator=generator)
        rows = x.movedim(axis, -1).reshape(-1, x.shape[axis])
        return functional.cross_entropy(rows, labels.reshape(-1)), labels

    def _check_gradients(self, gradients: Mapping[str, Any], trainer: Any) -> None:
        params = dict(self.made.module.named_parameters())
        largest = max((float(np.abs(g).max(initial=0)) for g in gradients.values()
                       if g is not None), default=0.0)
        for name, gradient in gradients.items():
            before = real_view(self.torch, params[name].detach()).cpu().double().numpy()
            g = np.zeros(before.shape, np.float32) if gradient is None else gradient
            step = before - trainer.read(name)
            # A param of few bits takes up so much of its gradient.
            bits = float(self.torch.finfo(params[name].dtype).eps)
            slack = 4 * bits * float(np.abs(before).max(initial=0)) + 1e-4 * largest
            if not np.isfinite(g).all() and np.isnan(step).any():
                raise Unsupported(f'[from_torch] the gradient of "{name}" is not finite in torch '
                                  "either, on the examples; expected a module that can be trained "
                                  "on them")
            off = float(np.abs(step - g).max(initial=0))
            if not off <= slack + (2e-2 + 8 * bits) * float(np.abs(g).max(initial=0)):
                raise _Differs(
                    f'[from_torch] "{name}" would be trained otherwise than torch trains it: on '
                    f"the examples its gradient is off by {off:.3g}, of "
                    f"{float(np.abs(g).max(initial=0)):.3g}; if the difference is meant, give "
                    "check=False")


@contextlib.contextmanager
def _same_draws() -> Iterator[Any]:
    """Restores the states of Python's and NumPy's random generators afterwards."""
    states = random.getstate(), np.random.get_state()
    try:
        yield _python_draws()
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _python_draws() -> Tuple[Any, ...]:
    """Returns the states of Python's and NumPy's random generators."""
    state = np.random.get_state()
    assert isinstance(state, tuple)
    return random.getstate(), bytes(state[1]), state[2]


def _stilled(torch: Any) -> Any:
    """Returns a mode in which dropout keeps all elements and other random ops return a constant."""
    aten = torch.ops.aten

    def filled(number: float) -> Any:
        return lambda size, **kwargs: torch.full(size, number, **{
            name: x for name, x in kwargs.items() if name != "generator"})

    def like(number: float) -> Any:
        return lambda x, **kwargs: torch.full_like(x, number, **kwargs)

    def rrelu(x: Any, noise: Any, low: float = 1 / 8, high: float = 1 / 3, train: bool = False,
              generator: Any = None) -> Any:
        slope = low + (high - low) * STILL_UNIFORM if train else (low + high) / 2
        noise.copy_(torch.where(x > 0, 1.0, slope))
        return x * noise

    instead = {
        # Of a dropout, which divides by what is kept.
        aten.bernoulli_.float: lambda x, p=0.5, **_: x.fill_(p),
        aten.native_dropout.default: lambda x, *_, **__: (
            x.clone(), torch.ones_like(x, dtype=torch.bool)),
        aten.rand.default: filled(STILL_UNIFORM), aten.randn.default: filled(STILL_NORMAL),
        aten.rand_like.default: like(STILL_UNIFORM), aten.randn_like.default: like(STILL_NORMAL),
        aten.bernoulli.default: lambda x, **_: (x > STILL_UNIFORM).to(x.dtype),
        aten.exponential_.default: lambda x, rate=1.0, **_: x.fill_(
            -np.log1p(-STILL_UNIFORM) / rate),
        aten.rrelu_with_noise.default: rrelu,
    }

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            return instead.get(function, function)(*args, **(kwargs or {}))

    return Mode()


def _attribute(net: Any, name: str) -> Any:
    for part in name.split("."):
        net = getattr(net, part)
    return net


def _copy(x: Any) -> Any:
    # Results of ops, which torch does not copy, are kept as attributes by hooks that compute them
    # anew before each call, such as those of torch.nn.utils.weight_norm and prune.
    modules = x.modules() if hasattr(x, "modules") else ()
    copied = {id(value): value.detach().clone() for each in modules
              for value in vars(each).values() if getattr(value, "grad_fn", None) is not None}
    try:
        return copy.deepcopy(x, copied)
    except Exception as error:
        raise Unsupported("[from_torch] the module cannot be copied, so that it cannot be tried: "
                          f"{first_line(error)}; give check=False") from error


def _expect_close(what: str, ours: Any, theirs: Any, relative: float, absolute: float) -> None:
    if np.allclose(ours, theirs, rtol=relative, atol=absolute, equal_nan=True):
        return
    at = np.argmax(np.abs(np.asarray(ours) - np.asarray(theirs)))
    raise _Differs("[from_torch] the module would be trained otherwise than torch trains it: on "
                   f"the examples {what} {np.ravel(ours)[at]:.6g}, and "
                   f"{np.ravel(theirs)[at]:.6g} in torch; if the difference is meant, give "
                   "check=False")
