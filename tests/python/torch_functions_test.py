"""Functions of torch that are not modules: three steps are those of torch in double precision.
Runs where torch is installed (tests/using/torch.sh)."""

import importlib.util
import unittest

import numpy as np
import support

import stowage

if importlib.util.find_spec("torch"):
    import torch
    from torch import nn
    from torch.nn import functional as F

LR = 0.0625  # the same number in any type


def places():
    return torch.tensor([[0, 2, 1], [3, 0, 2], [1, 3, 0], [2, 1, 3]])


def grid():
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(1, 3, 3, 2, generator=generator) * 2.4 - 1.2).double()


def assigned(x, at, value):
    made = x.clone()
    made[at] = value
    return made


def functions():
    """By name, of a tensor (4, 8) of reals, which are not whole."""
    points = grid()

    def sampled(mode, padding, corners):
        return lambda x: F.grid_sample(x.reshape(1, 2, 4, 4), points + 0.01 * x[0, 0], mode,
                                       padding, corners)

    made = {
        "histc": lambda x: x * torch.histc(x, 5, -1, 1)[2],
        "index_put_of_integers": lambda x: x * torch.zeros(5, dtype=torch.long).index_put(
            (torch.tensor([3, 0]),), torch.tensor([7, 2]))[3],
        "isnan": lambda x: torch.where(torch.isnan(x), 0.0, x),
        "isinf": lambda x: torch.where(torch.isinf(1 / x), 0.0, x),
        "isfinite": lambda x: torch.where(torch.isfinite(x), x, 0.0),
        "nan_to_num": torch.nan_to_num,
        "nansum": lambda x: x.nansum(1),
        "fmax": lambda x: torch.fmax(x, 2 * x), "fmin": lambda x: torch.fmin(x, 2 * x),
        "exp2": torch.exp2, "log2": lambda x: torch.log2(x.abs() + 1),
        "log10": lambda x: torch.log10(x.abs() + 1),
        "logaddexp": lambda x: torch.logaddexp(x, 2 * x),
        "logaddexp2": lambda x: torch.logaddexp2(x, 2 * x),
        "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh,
        "sinh_of_large": lambda x: torch.sinh(1.5 * x) / 4,
        "asinh_of_large": lambda x: torch.asinh(1e6 * x),
        "acosh": lambda x: torch.acosh(x.abs() + 1.1), "atanh": lambda x: torch.atanh(x.tanh()),
        "atan": torch.atan, "atan_of_large": lambda x: torch.atan(100 * x),
        "atan_of_small": lambda x: torch.atan(0.01 * x), "asin": lambda x: torch.asin(x.tanh()),
        "acos": lambda x: torch.acos(x.tanh()),
        "atan2": lambda x: torch.atan2(x[:, :4], x[:, 4:]),
        "hypot": lambda x: torch.hypot(x, x.flip(1)),
        "erfc": torch.erfc,
        "log_of_erfc": lambda x: torch.log(torch.erfc(5 * x.abs())) / 100,
        "log_of_erfc_far": lambda x: torch.log(torch.erfc(x.abs() + 9)) / 100,
        "trunc": lambda x: x * x.trunc(), "frac": torch.frac,
        "copysign": lambda x: torch.copysign(x, -x.flip(1)),
        "ldexp": lambda x: torch.ldexp(x, torch.tensor(3)),
        "pow_by_itself": lambda x: x.relu() ** (x.abs() + 1),
        "cumprod": lambda x: x.cumprod(1), "cumprod_0": lambda x: x.cumprod(0),
        "logcumsumexp": lambda x: x.logcumsumexp(1), "cummax": lambda x: x.cummax(1)[0],
        "cummin": lambda x: x.cummin(0)[0],
        "cummax_places": lambda x: x * x.cummax(1)[1], "median": lambda x: x.median(),
        "median_dim": lambda x: x.median(1)[0], "kthvalue": lambda x: x.kthvalue(3, 1)[0],
        "quantile": lambda x: x.quantile(0.3, 1), "pdist": F.pdist,
        "dist": lambda x: torch.dist(x, 2 * x.flip(0)), "addbmm": lambda x: torch.addbmm(
            x[:, :4], x[None], x.T[None], beta=0.5, alpha=2),
        "diagonal": lambda x: x.diagonal(1), "diagonal_below": lambda x: x.diagonal(-2),
        "diagonal_of_three": lambda x: x.reshape(2, 4, 4).diagonal(0, 1, 2),
        "trace": lambda x: x[:, :4].trace(),
        "unfold": lambda x: x.unfold(1, 3, 2), "unfold_0": lambda x: x.unfold(0, 2, 1),
        "bucketize": lambda x: x * torch.bucketize(
            x, torch.tensor([-0.5, 0.0, 1.0], dtype=torch.double)),
        "searchsorted": lambda x: x * torch.searchsorted(
            torch.tensor([-0.5, 0.0, 1.0], dtype=torch.double), x, right=True),
        "assignment_in_steps": lambda x: assigned(
            x, (slice(None), slice(1, None, 3)), x[:, :3] * x[:, 5:]),
        "assignment_in_steps_of_rows": lambda x: assigned(x, slice(None, None, 2), 3.0),
        "assignment_of_a_row_by_a_mask": lambda x: assigned(x, x[:, 0] > 0, x[1] * x[2]),
        "assignment_of_one_by_a_mask": lambda x: assigned(x, x[:, 0] > 0, x[:1, :1]),
        "assignment_of_columns_by_a_mask": lambda x: assigned(x, (slice(None), x[0] > 0),
                                                              x[:, :1]),
        "scatter": lambda x: x.scatter(1, places(), 2 * x[:, :3]),
        "scatter_value": lambda x: x.scatter(1, places(), 3.0),
        "scatter_of_fewer_rows": lambda x: x.scatter(1, places()[:2], 2 * x[:2, :3]),
        "scatter_add_of_fewer_rows": lambda x: x.scatter_add(1, places()[:2], 2 * x[:2, :3]),
        "scatter_sum": lambda x: x.scatter_reduce(1, places(), 2 * x[:, :3], "sum"),
        "scatter_mean": lambda x: x.scatter_reduce(1, places() % 2, 2 * x[:, :3], "mean"),
        "scatter_mean_alone": lambda x: x.scatter_reduce(1, places() % 2, 2 * x[:, :3], "mean",
                                                         include_self=False),
        "scatter_amax": lambda x: x.scatter_reduce(1, places() % 2, 2 * x[:, :3], "amax"),
        "scatter_amax_alone": lambda x: torch.zeros(4, 8).double().scatter_reduce(
            0, places().repeat(2, 1)[:4].fmod(3), x.relu()[:, :3], "amax", include_self=False),
        "scatter_amin": lambda x: x.scatter_reduce(0, places(), 2 * x[:, :3], "amin"),
        "scatter_of_equal_ones": lambda x: x.round().detach().scatter_reduce(
            1, places() % 2, x[:, :1].expand(4, 3), "amax") + x,
        "pad_of_integers": lambda x: x[:, :5] * F.pad(places(), (1, 1), value=2),
        "pad_of_bools": lambda x: x[:, :4] * F.pad(places() > 1, (1, 0), value=True),
    }
    factors = torch.complex(*torch.arange(50.0).cos().double().reshape(2, 5, 5))
    fft = torch.fft
    made.update({
        "rfft": lambda x: fft.rfft(x).real + 2 * fft.rfft(x).imag,
        "irfft": lambda x: fft.irfft(fft.rfft(x) @ factors, n=8),
        "irfft_of_odd_sizes": lambda x: fft.irfft(fft.rfft(x[:, :7]) * factors[0, 0], n=7),
        "irfft_of_other_sizes": lambda x: fft.irfft(fft.rfft(x, n=16), n=6),
        "irfft_of_a_vector": lambda x: x * fft.irfft(fft.rfft(x[0]) * fft.rfft(x[1], n=9)[:5], n=8),
        "fft2": lambda x: fft.fft2(x.reshape(2, 4, 4)).abs(),
        "irfft2": lambda x: fft.irfft2(fft.rfft2(x.reshape(2, 4, 4)) * factors[0, :3]),
        "ifft2_by_roots": lambda x: fft.ifft2(fft.fft2(x, norm="ortho") ** 2, norm="ortho").imag,
        "ihfft": lambda x: fft.ihfft(x).abs(), "fftshift": lambda x: fft.fftshift(fft.fft(x)).imag,
        "stft": lambda x: torch.stft(x, 4, 2, window=torch.hann_window(4).double(),
                                     return_complex=True).abs(),
        "conj": lambda x: (fft.rfft(x).conj() / (fft.rfft(x) + 3j)).imag,
        "complex_numbers": lambda x: (torch.exp(torch.complex(x, -x) * 0.3j) / (0.1 + 2j)
                                      - torch.complex(x, x + 1) ** -2 + (x - 1j)).real,
        "angle": lambda x: torch.complex(x, x + 1).angle(),
        "abs_of_zeros": lambda x: torch.complex(x.relu(), x.relu()).abs(),
        "polar": lambda x: torch.view_as_real(torch.polar(x.abs(), x.flip(1))),
        "view_as_complex": lambda x: torch.view_as_real(
            torch.view_as_complex(x.reshape(4, 4, 2)) * factors[0, :4]),
        "choices_of_complex_numbers": lambda x: torch.where(
            x > 0, torch.complex(x, -x), 0).flip(1)[:, [0, 2]].sum(0).imag,
        "assignment_of_complex_numbers": lambda x: assigned(
            fft.rfft(x), (slice(None), slice(0, 3)), factors[:4, :3]).abs(),
    })
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border"):
            for corners in (False, True):
                made[f"grid_sample_{mode}_{padding}_{corners}"] = sampled(mode, padding, corners)
    return made


class Of(nn.Module if importlib.util.find_spec("torch") else object):
    """A function of a weight times an input."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 8).double())
        self.function = function

    def forward(self, x):
        return self.function(self.weight * x).square().mean()


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class TorchFunctionsTest(support.TestCase):
    def test_three_steps_are_those_of_torch(self):
        torch.manual_seed(2)
        x = torch.randn(4, 8).double()
        for name, function in functions().items():
            with self.subTest(name):
                net = Of(function)
                model = stowage.from_torch(net, x, loss="output")
                optimizer = torch.optim.SGD(net.parameters(), lr=LR)
                with stowage.Trainer(model, optimizer="sgd", lr=LR,
                                     optimizations="none") as trainer:
                    for _ in range(3):
                        optimizer.zero_grad()
                        loss = net(x)
                        loss.backward()
                        optimizer.step()
                        self.assertAlmostEqual(trainer.step(x) / (1 + abs(loss.item())),
                                               loss.item() / (1 + abs(loss.item())), places=6)
                    # In f64 to its last digits: what is composed is as exact as what it stands for.
                    np.testing.assert_allclose(trainer.state_dict()["weight"],
                                               net.weight.detach().numpy(), rtol=1e-11, atol=1e-12)

    def test_slopes_at_the_ends_are_numbers(self):
        x = torch.tensor([[0.0, 1.0, -1.0, 0.0]]).double()

        class Ends(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(1, 4).double())

            def forward(self, x):
                y = self.weight + x
                return (torch.asinh(y) + torch.sinh(y) + torch.atan(y)).sum()

        net = Ends()
        net(x).backward()
        with stowage.Trainer(stowage.from_torch(net, x, loss="output"), optimizer="sgd", lr=1,
                             optimizations="none") as trainer:
            trainer.step(x)
            np.testing.assert_allclose(-trainer.state_dict()["weight"], net.weight.grad.numpy(),
                                       rtol=1e-12)

    def test_exponential_numbers_have_their_mean(self):
        class Waits(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(1))

            def forward(self, x):
                return (self.weight * torch.empty_like(x).exponential_(2.0) + 0 * x).mean()

        x = torch.zeros(50, 200)
        with stowage.Trainer(stowage.from_torch(Waits(), x, loss="output"), optimizer="sgd", lr=0,
                             optimizations="none") as trainer:
            # 1 / 2; the mean of 10,000 is within 0.02 of it but for one time in 10,000.
            self.assertAlmostEqual(trainer.step(x), 0.5, delta=0.02)

    def test_hard_samples_of_gumbel_are_drawn_by_their_shares(self):
        class Coin(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(1))

            def forward(self, x):
                return F.gumbel_softmax(x + self.weight, hard=True)[:, 0].mean()

        x = torch.tensor([[1.0, 0.0]]).log_softmax(1).repeat(2000, 1)
        with stowage.Trainer(stowage.from_torch(Coin(), x, loss="output"), optimizer="sgd", lr=0,
                             optimizations="none") as trainer:
            shares = [trainer.step(x) for _ in range(5)]
        self.assertEqual(len(set(shares)), 5)
        # e / (1 + e); 10,000 draws are within 0.02 of it but for one time in 10,000.
        self.assertAlmostEqual(np.mean(shares), 0.7311, delta=0.02)


if __name__ == "__main__":
    unittest.main()
