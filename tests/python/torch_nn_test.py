"""The public modules of torch.nn, with each of their options: three steps are those of torch in
double precision, or the module is refused in words. Runs where torch is installed
(tests/using/torch.sh)."""

import copy
import importlib.util
import inspect
import unittest
import warnings

import numpy as np
import support

import stowage

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn
    from torch_nn import CASES, Net

# Classes that are in no case.
LEFT_OUT = {
    "DataParallel": "computes what its module does, on several GPUs",
    "NLLLoss2d": "deprecated, a NLLLoss",
}
# Options that change nothing in what is computed.
IDLE = {"inplace", "device", "dtype"}
# Those that stand for others.
DEPRECATED = {"size_average": "reduction", "reduce": "reduction",
              "min_value": "min_val", "max_value": "max_val"}
# Of one class.
LEFT_OUT_OPTIONS = {
    "Embedding": {"_weight": "what the table begins with", "_freeze": "requires_grad"},
    "EmbeddingBag": {"_weight": "what the table begins with"},
    "SyncBatchNorm": {"process_group": "of which processes"},
    "TransformerEncoder": {"enable_nested_tensor": "in eval mode alone",
                           "mask_check": "in eval mode alone"},
    "ConvTranspose1d": {"padding_mode": "has one value"},
    "ConvTranspose2d": {"padding_mode": "has one value"},
    "ConvTranspose3d": {"padding_mode": "has one value"},
}
# All that an option of this name may be.
CHOICES = {
    "reduction": {"none", "mean", "sum"},
    "padding_mode": {"zeros", "reflect", "replicate", "circular"},
    "nonlinearity": {"tanh", "relu"},
    "approximate": {"none", "tanh"},
    "EmbeddingBag.mode": {"sum", "mean", "max"},
    "Upsample.mode": {"nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"},
}
# Cases that are trained at once, as the parts of one module.
AT_ONCE = 32
LR = 0.1
DRAWS = 250


def names_of_classes():
    """Of the public modules that have a forward of their own."""
    return [name for name, kind in vars(nn).items()
            if isinstance(kind, type) and issubclass(kind, nn.Module)
            and kind.forward is not nn.Module.forward]


def options_of(kind):
    """The parameters of a class's constructor, by name."""
    made = dict(inspect.signature(kind.__init__).parameters)
    del made["self"]
    if issubclass(kind, nn.RNNBase):
        made = dict(inspect.signature(nn.RNNBase.__init__).parameters)
        for name in ("self", "mode", *([] if kind is nn.LSTM else ["proj_size"])):
            del made[name]
        if kind is nn.RNN:
            made["nonlinearity"] = inspect.Parameter("nonlinearity", inspect.Parameter.KEYWORD_ONLY,
                                                     default="tanh")
    return {name: each for name, each in made.items()
            if each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)}


def given(case):
    """The options of a case, by name."""
    names = [name for name, each in options_of(getattr(nn, case.kind)).items()
             if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    return {**dict(zip(names, case.args)), **case.options}


def is_another(value, default):
    return value is not default and (isinstance(value, torch.Tensor) or value != default)


def from_torch(net):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stowage.from_torch(net, net.inputs, loss="output")


def trainer(net, lr=LR):
    return stowage.Trainer(from_torch(net), optimizer="sgd", lr=lr, device="cpu", threads=1)


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
class TorchNnTest(support.TestCase):
    def setUp(self):
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        torch.set_num_threads(1)

    def check_trains(self, cases):
        net = Net(cases)
        theirs = copy.deepcopy(net).double()
        wide = [x.double() if x.is_floating_point() else x for x in net.inputs]
        with trainer(net) as ours:
            optimizer = torch.optim.SGD(theirs.parameters(), lr=LR)
            for _ in range(3):
                optimizer.zero_grad()
                right = theirs(*wide)
                right.backward()
                optimizer.step()
                size = max(1, abs(right.item()))
                self.assertAlmostEqual(ours.step(*net.inputs) / size, right.item() / size,
                                       delta=1e-5)
            made = {name: np.array(value, np.float64) for name, value in ours.state_dict().items()}
        before, after = net.state_dict(), theirs.state_dict()
        moved = dict.fromkeys(range(len(cases)), 0.0)
        for name, value in made.items():
            right = after[name].numpy()
            case = int(name.split(".")[1])
            by = np.abs(right - before[name].numpy()).max(initial=0)
            moved[case] = max(moved[case], by)
            np.testing.assert_allclose(value, right, rtol=0, atol=min(2e-4, 1e-2 * by + 2e-6),
                                       err_msg=f"{name} of {cases[case]}")
        for case, by in moved.items():
            self.assertGreater(by, 5e-4, f"nothing of {cases[case]} is trained")

    def test_every_class_is_in_a_case(self):
        known = {case.kind for case in CASES}
        for name in names_of_classes():
            kind = getattr(nn, name)
            if issubclass(kind, nn.modules.lazy.LazyModuleMixin):
                name = kind.cls_to_become.__name__
            self.assertTrue(name in known or name in LEFT_OUT,
                            f"torch.nn.{name} is in no case of torch_nn.py")
        self.assertFalse(known & set(LEFT_OUT))
        self.assertLessEqual(known, set(names_of_classes()))

    def test_every_option_is_in_a_case(self):
        lacking = []
        for kind in sorted({case.kind for case in CASES}):
            cases = [given(case) for case in CASES if case.kind == kind]
            for name, option in options_of(getattr(nn, kind)).items():
                values = [case.get(name, option.default) for case in cases]
                if name in IDLE or name in DEPRECATED or name in LEFT_OUT_OPTIONS.get(kind, ()):
                    continue
                if not any(is_another(value, option.default) for value in values):
                    lacking.append(f"{kind}({name}=...)")
                choices = CHOICES.get(f"{kind}.{name}", CHOICES.get(name, set()))
                lacking += [f"{kind}({name}={each!r})" for each in sorted(choices)
                            if not any(isinstance(value, str) and value == each
                                       for value in values)]
        self.assertFalse(lacking, "options that no case of torch_nn.py sets")

    def test_three_steps_are_torchs(self):
        cases = [case for case in CASES if not case.refused and not case.draws]
        for first in range(0, len(cases), AT_ONCE):
            some = cases[first:first + AT_ONCE]
            with self.subTest(modules=", ".join(map(str, some))):
                try:
                    self.check_trains(some)
                except Exception:
                    for case in some:
                        with self.subTest(module=str(case)):
                            self.check_trains([case])
                    raise

    def test_what_is_refused_is_named(self):
        for case in CASES:
            if not case.refused:
                continue
            with self.subTest(module=str(case)):
                net = Net([case])
                with self.assertRaises(stowage.StowageError) as caught:
                    from_torch(net)
                self.assertIn(case.refused, str(caught.exception))

    def test_random_steps_are_torchs_in_their_mean(self):
        for case in CASES:
            if not case.draws or case.refused:
                continue
            with self.subTest(module=str(case)):
                net = Net([case])
                torch.manual_seed(0)
                with torch.no_grad():
                    theirs = np.array([net(*net.inputs).item() for _ in range(DRAWS)])
                with trainer(net, lr=1e-12) as made:
                    ours = np.array([made.step(*net.inputs) for _ in range(DRAWS)])
                error = np.sqrt((theirs.var() + ours.var()) / DRAWS)
                self.assertGreater(error, 0)
                self.assertLess(abs(theirs.mean() - ours.mean()), 4 * error)
                self.assertLess(abs(np.log(theirs.std() / ours.std())), 0.4)


if __name__ == "__main__":
    support.main()
