// The definitions of normalizations, softmax, cross_entropy, glu and lstm, and of their
// gradients, one number at a time.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

int64_t ChannelOf(const Array& x, int64_t i) {
  return Coordinates(x.shape, i)[1];
}

}  // namespace

void BatchNorm(Call& c) {
  const Array& x = c.input(0);
  Array& mean = c.out[1];
  Array& variance = c.out[2];
  const double count =
      static_cast<double>(x.size()) / static_cast<double>(x.shape[1]);
  for (int64_t i = 0; i < x.size(); ++i) mean[ChannelOf(x, i)] += x[i] / count;
  for (int64_t i = 0; i < x.size(); ++i) {
    const double centred = x[i] - mean[ChannelOf(x, i)];
    variance[ChannelOf(x, i)] += centred * centred / count;
  }
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t k = ChannelOf(x, i);
    c.out[0][i] = (x[i] - mean[k]) / std::sqrt(variance[k] + c.Float("eps")) *
                      c.input(1)[k] +
                  c.input(2)[k];
  }
}

// Ioffe & Szegedy 2015, section 3, with the mean and the variance as given.
void BatchNormGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& dy = c.input(4);
  const double count =
      static_cast<double>(x.size()) / static_cast<double>(x.shape[1]);
  const auto rstd = [&](int64_t k) {
    return 1 / std::sqrt(c.input(3)[k] + c.Float("eps"));
  };
  const auto normal = [&](int64_t i) {
    const int64_t k = ChannelOf(x, i);
    return (x[i] - c.input(2)[k]) * rstd(k);
  };
  for (int64_t i = 0; i < x.size(); ++i) {
    c.out[1][ChannelOf(x, i)] += dy[i] * normal(i);
    c.out[2][ChannelOf(x, i)] += dy[i];
  }
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t k = ChannelOf(x, i);
    c.out[0][i] =
        c.input(1)[k] * rstd(k) *
        (dy[i] - c.out[2][k] / count - normal(i) * c.out[1][k] / count);
  }
}

// --- layer_norm -----------------------------------------------------------------------

void LayerNorm(Call& c) {
  const Array& x = c.input(0);
  const int64_t n = x.shape.back();
  const auto count = static_cast<double>(n);
  ForRows(x, [&](int64_t row, int64_t begin) {
    double mean = 0;
    for (int64_t j = 0; j < n; ++j) mean += x[begin + j] / count;
    double variance = 0;
    for (int64_t j = 0; j < n; ++j) {
      variance += (x[begin + j] - mean) * (x[begin + j] - mean) / count;
    }
    const double rstd = 1 / std::sqrt(variance + c.Float("eps"));
    c.out[1][row] = mean;
    c.out[2][row] = rstd;
    for (int64_t j = 0; j < n; ++j) {
      c.out[0][begin + j] =
          (x[begin + j] - mean) * rstd * c.input(1)[j] + c.input(2)[j];
    }
  });
}

void LayerNormGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& gamma = c.input(1);
  const Array& dy = c.input(4);
  const int64_t n = x.shape.back();
  ForRows(x, [&](int64_t row, int64_t begin) {
    const double rstd = c.input(3)[row];
    const auto normal = [&](int64_t j) {
      return (x[begin + j] - c.input(2)[row]) * rstd;
    };
    double mean_g = 0;   // of g = dy gamma
    double mean_gn = 0;  // of g times the normalized x
    for (int64_t j = 0; j < n; ++j) {
      const double g = dy[begin + j] * gamma[j];
      mean_g += g / static_cast<double>(n);
      mean_gn += g * normal(j) / static_cast<double>(n);
      c.out[1][j] += dy[begin + j] * normal(j);
      c.out[2][j] += dy[begin + j];
    }
    for (int64_t j = 0; j < n; ++j) {
      c.out[0][begin + j] =
          rstd * (dy[begin + j] * gamma[j] - mean_g - normal(j) * mean_gn);
    }
  });
}

// --- rms_norm -------------------------------------------------------------------------

void RmsNorm(Call& c) {
  const Array& x = c.input(0);
  const int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    double squares = 0;
    for (int64_t j = row * n; j < (row + 1) * n; ++j) squares += x[j] * x[j];
    const double root =
        std::sqrt(squares / static_cast<double>(n) + c.Float("eps"));
    c.out[1][row] = 1 / root;
    for (int64_t j = 0; j < n; ++j) {
      c.out[0][row * n + j] = x[row * n + j] / root * c.input(1)[j];
    }
  }
}

// y_j = gamma_j x_j r with r = (mean(x^2) + eps)^(-1/2), so that
// d y_j / d x_k = gamma_j r [j = k] - gamma_j x_j x_k r^3 / n.
void RmsNormGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& gamma = c.input(1);
  const Array& dy = c.input(3);
  const int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    const double r = c.input(2)[row];
    const int64_t at = row * n;
    double product = 0;  // of dy gamma and x
    for (int64_t j = 0; j < n; ++j) {
      product += dy[at + j] * gamma[j] * x[at + j];
      c.out[1][j] += dy[at + j] * x[at + j] * r;
    }
    for (int64_t k = 0; k < n; ++k) {
      c.out[0][at + k] = dy[at + k] * gamma[k] * r - product * x[at + k] * r *
                                                         r * r /
                                                         static_cast<double>(n);
    }
  }
}

// --- local_response_norm, as ONNX defines LRN -----------------------------------------

namespace {

// Whether the window of channel `of` has channel `other`.
bool Has(const Call& c, int64_t of, int64_t other) {
  const double half = static_cast<double>(c.Int("size") - 1) / 2;
  const auto distance = static_cast<double>(other - of);
  return -std::floor(half) <= distance && distance <= std::ceil(half);
}

// Calls visit(j, window, base) for each element j, with the places of those that are
// added up for it and what the power is of.
template <typename F>
void ForWindows(const Call& c, const F& visit) {
  const Array& x = c.input(0);
  for (int64_t j = 0; j < x.size(); ++j) {
    const Dims at = Coordinates(x.shape, j);
    std::vector<int64_t> window;
    double squares = 0;
    for (int64_t other = 0; other < x.shape[1]; ++other) {
      if (!Has(c, at[1], other)) continue;
      Dims there = at;
      there[1] = other;
      window.push_back(Position(x.shape, there));
      squares += x[window.back()] * x[window.back()];
    }
    visit(j, window,
          c.Float("bias") +
              c.Float("alpha") / static_cast<double>(c.Int("size")) * squares);
  }
}

}  // namespace

void LocalResponseNorm(Call& c) {
  ForWindows(c, [&](int64_t j, const std::vector<int64_t>&, double base) {
    c.out[0][j] = c.input(0)[j] / std::pow(base, c.Float("beta"));
  });
}

// y_j = x_j b_j^-beta, where d b_j / d x_k = 2 alpha / size x_k for k in its window.
void LocalResponseNormGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& dy = c.input(1);
  const double beta = c.Float("beta");
  const double slope =
      2 * c.Float("alpha") / static_cast<double>(c.Int("size"));
  ForWindows(c, [&](int64_t j, const std::vector<int64_t>& window, double b) {
    c.out[0][j] += dy[j] * std::pow(b, -beta);
    for (const int64_t k : window) {
      c.out[0][k] -=
          dy[j] * x[j] * beta * std::pow(b, -beta - 1) * slope * x[k];
    }
  });
}

// --- Softmaxes, and cross_entropy, which uses one -------------------------------------

namespace {

double LogSumExp(const Array& x, int64_t begin) {
  const auto first = x.data.begin() + begin;
  const double max = *std::max_element(first, first + x.shape.back());
  double sum = 0;
  for (int64_t j = 0; j < x.shape.back(); ++j) {
    sum += std::exp(x[begin + j] - max);
  }
  return max + std::log(sum);
}

}  // namespace

void Softmax(Call& c, bool takes_log) {
  const Array& x = c.input(0);
  ForRows(x, [&](int64_t, int64_t begin) {
    const double lse = LogSumExp(x, begin);
    for (int64_t i = begin; i < begin + x.shape.back(); ++i) {
      c.out[0][i] = takes_log ? x[i] - lse : std::exp(x[i] - lse);
    }
  });
}

void SoftmaxGrad(Call& c, bool took_log) {
  const Array& y = c.input(0);
  const Array& dy = c.input(1);
  ForRows(y, [&](int64_t, int64_t begin) {
    double sum = 0;
    for (int64_t i = begin; i < begin + y.shape.back(); ++i) {
      sum += took_log ? dy[i] : dy[i] * y[i];
    }
    for (int64_t i = begin; i < begin + y.shape.back(); ++i) {
      c.out[0][i] =
          took_log ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
    }
  });
}

void CrossEntropy(Call& c) {
  const Array& x = c.input(0);
  const auto rows = static_cast<double>(x.size() / x.shape.back());
  ForRows(x, [&](int64_t row, int64_t begin) {
    c.out[1][row] = LogSumExp(x, begin);
    const int64_t label = IndexAt(c.input(1), row, x.shape.back());
    c.out[0][0] += (c.out[1][row] - x[begin + label]) / rows;
  });
}

void CrossEntropyGrad(Call& c) {
  const Array& x = c.input(0);
  const auto rows = static_cast<double>(x.size() / x.shape.back());
  ForRows(x, [&](int64_t row, int64_t begin) {
    const int64_t label = IndexAt(c.input(1), row, x.shape.back());
    for (int64_t j = 0; j < x.shape.back(); ++j) {
      const double p = std::exp(x[begin + j] - c.input(2)[row]);
      c.out[0][begin + j] = c.input(3)[0] * (p - (j == label)) / rows;
    }
  });
}

// --- glu ------------------------------------------------------------------------------

namespace {

double NormalDistribution(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double TanhOfGelu(double x) {
  return std::tanh(std::sqrt(2 / std::numbers::pi) *
                   (x + 0.044715 * x * x * x));
}

double Activation(int64_t which, double x) {
  switch (which) {
    case 0:
      return x / (1 + std::exp(-x));
    case 1:
      return 0.5 * x * (1 + TanhOfGelu(x));
    default:
      return x * NormalDistribution(x);
  }
}

double Derivative(int64_t which, double x) {
  if (which == 0) {
    const double s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
  if (which == 1) {
    const double t = TanhOfGelu(x);
    const double inner =
        std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
  }
  const double density =
      std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  return NormalDistribution(x) + x * density;
}

}  // namespace

void Glu(Call& c) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] =
        Activation(c.Int("activation"), c.input(0)[i]) * c.input(1)[i];
  }
}

void GluGrad(Call& c) {
  const int64_t which = c.Int("activation");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double gate = c.input(0)[i];
    const double dy = c.input(2)[i];
    c.out[0][i] = dy * c.input(1)[i] * Derivative(which, gate);
    c.out[1][i] = dy * Activation(which, gate);
  }
}

// --- lstm, as in PyTorch's documentation of nn.LSTM -----------------------------------

namespace {

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

// (B, T, H) or (B, T, 4 H) in places: that of gate `gate` of a unit, of a unit.
struct Places {
  explicit Places(const Call& c)
      : batch(c.input(0).shape[0]),
        time(c.input(0).shape[1]),
        hidden(c.input(0).shape[2] / 4),
        reverse(c.Int("reverse") == 1) {}
  int64_t Gate(int64_t b, int64_t t, int64_t gate, int64_t unit) const {
    return ((b * time + t) * 4 + gate) * hidden + unit;
  }
  int64_t Unit(int64_t b, int64_t t, int64_t unit) const {
    return (b * time + t) * hidden + unit;
  }
  // What is of the position before t: of a sequence, or of the first state.
  double Before(const Array& first, const Array& sequence, int64_t b, int64_t t,
                int64_t unit) const {
    const int64_t before = reverse ? t + 1 : t - 1;
    if (before < 0 || before == time) return first[b * hidden + unit];
    return sequence[Unit(b, before, unit)];
  }
  int64_t batch, time, hidden;
  bool reverse;
};

}  // namespace

void Lstm(Call& c) {
  const Places at(c);
  Array &gates = c.out[0], &h = c.out[1], &cell = c.out[2];
  for (int64_t b = 0; b < at.batch; ++b) {
    for (int64_t step = 0; step < at.time; ++step) {
      const int64_t t = at.reverse ? at.time - 1 - step : step;
      for (int64_t gate = 0; gate < 4; ++gate) {
        for (int64_t u = 0; u < at.hidden; ++u) {
          double sum = c.input(0)[at.Gate(b, t, gate, u)];
          for (int64_t k = 0; k < at.hidden; ++k) {
            sum += c.input(3)[(gate * at.hidden + u) * at.hidden + k] *
                   at.Before(c.input(1), h, b, t, k);
          }
          gates[at.Gate(b, t, gate, u)] =
              gate == 2 ? std::tanh(sum) : Logistic(sum);
        }
      }
      for (int64_t u = 0; u < at.hidden; ++u) {
        const auto gate = [&](int64_t which) {
          return gates[at.Gate(b, t, which, u)];
        };
        const double after =
            gate(1) * at.Before(c.input(2), cell, b, t, u) + gate(0) * gate(2);
        cell[at.Unit(b, t, u)] = after;
        h[at.Unit(b, t, u)] = gate(3) * std::tanh(after);
      }
    }
  }
}

void LstmGrad(Call& c) {
  const Places at(c);
  const Array &gates = c.input(0), &w = c.input(2), &cell = c.input(3);
  for (int64_t b = 0; b < at.batch; ++b) {
    // Of the states of the position at hand, what later ones add.
    Numbers dh(static_cast<size_t>(at.hidden)), dc(dh);
    for (int64_t step = at.time - 1; step >= 0; --step) {
      const int64_t t = at.reverse ? at.time - 1 - step : step;
      Numbers dh_before(dh.size());
      for (int64_t u = 0; u < at.hidden; ++u) {
        double& d_c = dc[static_cast<size_t>(u)];
        const double d_h =
            dh[static_cast<size_t>(u)] + c.input(4)[at.Unit(b, t, u)];
        const auto gate = [&](int64_t which) {
          return gates[at.Gate(b, t, which, u)];
        };
        const double tanh_c = std::tanh(cell[at.Unit(b, t, u)]);
        if (c.in.size() > 5) d_c += c.input(5)[at.Unit(b, t, u)];
        d_c += d_h * gate(3) * (1 - tanh_c * tanh_c);
        const double d[] = {d_c * gate(2),
                            d_c * at.Before(c.input(1), cell, b, t, u),
                            d_c * gate(0), d_h * tanh_c};
        for (int64_t which = 0; which < 4; ++which) {
          const double a = gate(which);
          const double slope = which == 2 ? 1 - a * a : a * (1 - a);
          const double d_sum = d[which] * slope;
          c.out[0][at.Gate(b, t, which, u)] = d_sum;
          for (int64_t k = 0; k < at.hidden; ++k) {
            dh_before[static_cast<size_t>(k)] +=
                d_sum * w[(which * at.hidden + u) * at.hidden + k];
          }
        }
        d_c *= gate(1);
      }
      dh = dh_before;
    }
    for (int64_t u = 0; u < at.hidden; ++u) {
      c.out[1][b * at.hidden + u] = dh[static_cast<size_t>(u)];
      c.out[2][b * at.hidden + u] = dc[static_cast<size_t>(u)];
    }
  }
}

void LstmWeightGrad(Call& c) {
  const Places at(c);
  for (int64_t b = 0; b < at.batch; ++b) {
    for (int64_t t = 0; t < at.time; ++t) {
      for (int64_t row = 0; row < 4 * at.hidden; ++row) {
        const double d = c.input(0)[at.Gate(b, t, 0, row)];
        for (int64_t k = 0; k < at.hidden; ++k) {
          c.out[0][row * at.hidden + k] +=
              d * at.Before(c.input(1), c.input(2), b, t, k);
        }
      }
    }
  }
}

}  // namespace stowage::interpret
