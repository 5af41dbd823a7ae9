// The definitions of lstm, its gradient and that of its weights, as PyTorch's
// documentation of nn.LSTM tells them, one number at a time.

#include <cmath>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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
