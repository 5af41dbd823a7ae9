// The definitions of products, and of what is done to their sums and beside them.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {

void MatMul(Call& c) {
  const Array& a = c.input(0);
  const Array& b = c.input(1);
  Array& y = c.out[0];
  const bool ta = c.Int("transpose_a") != 0;
  const bool tb = c.Int("transpose_b") != 0;
  const int64_t m = y.shape[y.shape.rank() - 2];
  const int64_t n = y.shape.back();
  const int64_t k = a.shape[a.shape.rank() - (ta ? 2 : 1)];
  const bool shares_b = b.shape.rank() == 2;
  for (int64_t batch = 0; batch < y.size() / (m * n); ++batch) {
    const int64_t a0 = batch * m * k;
    const int64_t b0 = shares_b ? 0 : batch * k * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += a[a0 + (ta ? l * m + i : i * k + l)] *
                 b[b0 + (tb ? j * k + l : l * n + j)];
        }
        y[(batch * m + i) * n + j] = sum;
      }
    }
  }
}

namespace {

// The group of a row: the first whose end is behind it; their number where none is.
int64_t GroupOf(const Array& ends, int64_t row) {
  int64_t group = 0;
  while (group < ends.size() && ends[group] <= static_cast<double>(row)) {
    ++group;
  }
  return group;
}

}  // namespace

void GroupedMatMul(Call& c) {
  const Array& x = c.input(0);
  const Array& w = c.input(1);
  Array& y = c.out[0];
  const bool transposed = c.Int("transpose_w") != 0;
  const int64_t k = x.shape[1], n = y.shape[1];
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const int64_t group = GroupOf(c.input(2), row);
    if (group == w.shape[0]) continue;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) {
        y[row * n + j] +=
            x[row * k + l] *
            w[group * k * n + (transposed ? j * k + l : l * n + j)];
      }
    }
  }
}

void GroupedMatMulWeightGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& dy = c.input(1);
  Array& dw = c.out[0];
  const int64_t k = x.shape[1], n = dy.shape[1];
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const int64_t group = GroupOf(c.input(2), row);
    if (group == dw.shape[0]) continue;
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < n; ++j) {
        dw[(group * k + l) * n + j] += x[row * k + l] * dy[row * n + j];
      }
    }
  }
}

void EpilogueMatMul(Call& c) {
  MatMul(c);
  Array& y = c.out[0];
  const int64_t n = y.shape.back();
  size_t next = 2;
  if (c.Int("bias") == 1) {
    const Array& bias = c.input(next++);
    for (int64_t i = 0; i < y.size(); ++i) y[i] += bias[i % n];
  }
  if (c.Int("addend") == 1) {
    const Array& addend = c.input(next++);
    for (int64_t i = 0; i < y.size(); ++i) y[i] += addend[i];
  }
  if (c.Int("gelu_grad") == 1) {
    const Array& x = c.input(next++);
    for (int64_t i = 0; i < y.size(); ++i) y[i] *= GeluTanhSlope(x[i]);
  }
  if (c.Int("a_sums") == 1) {  // of the rows of a, which may lie as columns
    const Array& a = c.input(0);
    for (int64_t i = 0; i < a.size(); ++i) {
      const Dims at = Coordinates(a.shape, i);
      c.out[1][at[c.Int("transpose_a") == 1 ? 1 : 0]] += a[i];
    }
  }
  if (c.Int("b_sums") == 1) {  // of the columns of b, which may lie as rows
    const Array& b = c.input(1);
    for (int64_t i = 0; i < b.size(); ++i) {
      const Dims at = Coordinates(b.shape, i);
      c.out[1][at[c.Int("transpose_b") == 1 ? 0 : 1]] += b[i];
    }
  }
}

double GeluTanhSlope(double x) {
  const double root = std::sqrt(8 / std::acos(-1.0)) / 2;  // of 2 / pi
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  const double du = root * (1 + 3 * 0.044715 * x * x);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * du;
}

}  // namespace stowage::interpret
