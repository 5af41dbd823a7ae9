// The definitions of batch_norm and its gradient.

#include <cmath>
#include <cstdint>

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

}  // namespace stowage::interpret
