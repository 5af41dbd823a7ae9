// The definitions of softmaxes, and of cross_entropy, which is made of one.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
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

}  // namespace stowage::interpret
