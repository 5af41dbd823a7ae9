// The definitions of updates by optimizers whose states are of f32 or f64.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

// The clip factor, operand `i`, if there is one.
double ScaleAt(const Call& c, size_t i) {
  return c.in.size() > i ? c.input(i)[0] : 1;
}

// Leaves all as it is if that factor is infinite.
bool Skipped(Call& c, size_t scale) {
  if (!std::isinf(ScaleAt(c, scale))) return false;
  for (size_t i = 0; i < c.out.size(); ++i) c.out[i].data = c.input(i).data;
  return true;
}

}  // namespace

void SgdUpdate(Call& c) {
  if (Skipped(c, 3)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double g = c.input(1)[i] * ScaleAt(c, 3);
    c.out[0][i] = w - c.input(2)[0] * (g + c.Float("decay") * w);
  }
}

void MomentumUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double g = c.input(2)[i] * ScaleAt(c, 4);
    c.out[1][i] =
        c.Float("momentum") * c.input(1)[i] + g + c.Float("decay") * w;
    c.out[0][i] = w - c.input(3)[0] * c.out[1][i];
  }
}

void NesterovUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(2)[i] * ScaleAt(c, 4) + c.Float("decay") * w;
    c.out[1][i] = c.Float("momentum") * c.input(1)[i] + d;
    c.out[0][i] = w - c.input(3)[0] * (d + c.Float("momentum") * c.out[1][i]);
  }
}

void RmsPropUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  const double alpha = c.Float("alpha");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(2)[i] * ScaleAt(c, 4) + c.Float("decay") * w;
    const double v = alpha * c.input(1)[i] + (1 - alpha) * d * d;
    c.out[0][i] = w - c.input(3)[0] * d / (std::sqrt(v) + c.Float("eps"));
    c.out[1][i] = v;
  }
}

void AdagradUpdate(Call& c) {
  if (Skipped(c, 4)) return;
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(2)[i] * ScaleAt(c, 4) + c.Float("decay") * w;
    const double v = c.input(1)[i] + d * d;
    c.out[0][i] = w - c.input(3)[0] * d / (std::sqrt(v) + c.Float("eps"));
    c.out[1][i] = v;
  }
}

void AdamUpdate(Call& c) {
  if (Skipped(c, 6)) return;
  const double lr = c.input(4)[0];
  const double step = c.input(5)[0];
  const double b1 = c.Float("beta1");
  const double b2 = c.Float("beta2");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double w = c.input(0)[i];
    const double d = c.input(3)[i] * ScaleAt(c, 6) + c.Float("decay") * w;
    const double m = b1 * c.input(1)[i] + (1 - b1) * d;
    const double v = b2 * c.input(2)[i] + (1 - b2) * d * d;
    const double m_hat = m / (1 - std::pow(b1, step));
    const double v_hat = v / (1 - std::pow(b2, step));
    c.out[0][i] = w - lr * m_hat / (std::sqrt(v_hat) + c.Float("eps"));
    c.out[1][i] = m;
    c.out[2][i] = v;
  }
}

void AdamWUpdate(Call& c) {
  if (Skipped(c, 6)) return;
  const double lr = c.input(4)[0];
  const double step = c.input(5)[0];
  const double b1 = c.Float("beta1");
  const double b2 = c.Float("beta2");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double g = c.input(3)[i] * ScaleAt(c, 6);
    const double m = b1 * c.input(1)[i] + (1 - b1) * g;
    const double v = b2 * c.input(2)[i] + (1 - b2) * g * g;
    const double decayed = c.input(0)[i] * (1 - lr * c.Float("decay"));
    const double m_hat = m / (1 - std::pow(b1, step));
    const double v_hat = v / (1 - std::pow(b2, step));
    c.out[0][i] = decayed - lr * m_hat / (std::sqrt(v_hat) + c.Float("eps"));
    c.out[1][i] = m;
    c.out[2][i] = v;
  }
}

}  // namespace stowage::interpret
