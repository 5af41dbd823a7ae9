#ifndef STOWAGE_GPU_KERNELS_ROUGH_FLOAT_H_
#define STOWAGE_GPU_KERNELS_ROUGH_FLOAT_H_

// A float for results that 16 bits will hold: its Exp, its Tanh and its quotients take
// a fraction of the instructions of the accurate ones, which is what bounds kernels
// that read few bytes an element. The formulas of math/activations.h, templates over
// the number type, find these functions by its namespace.
//
//   RoughFloat y = math::GeluTanh(RoughFloat(ToFloat(x)));
//   FromFloat<BF16>(y);

#include "gpu/simt.h"
#include "math/portable.h"

namespace stowage::gpu {

struct RoughFloat {
  float value;

  RoughFloat() = default;
  STOWAGE_HOST_DEVICE constexpr RoughFloat(float x) : value(x) {}
  STOWAGE_HOST_DEVICE constexpr explicit RoughFloat(double x)
      : value(static_cast<float>(x)) {}
  STOWAGE_HOST_DEVICE constexpr explicit RoughFloat(int x)
      : value(static_cast<float>(x)) {}
  STOWAGE_HOST_DEVICE constexpr operator float() const { return value; }
};

STOWAGE_DEVICE RoughFloat operator-(RoughFloat a) { return -a.value; }
STOWAGE_DEVICE RoughFloat operator+(RoughFloat a, RoughFloat b) {
  return a.value + b.value;
}
STOWAGE_DEVICE RoughFloat operator-(RoughFloat a, RoughFloat b) {
  return a.value - b.value;
}
STOWAGE_DEVICE RoughFloat operator*(RoughFloat a, RoughFloat b) {
  return a.value * b.value;
}
/// Relative error below 2^-21, where neither b nor 1 / b is subnormal.
STOWAGE_DEVICE RoughFloat operator/(RoughFloat a, RoughFloat b) {
  return a.value * Reciprocal(b.value);
}

/// Relative error below 2^-20 + |x| 2^-23.
STOWAGE_DEVICE RoughFloat Exp(RoughFloat x) {
  return Exp2(x.value * 1.44269504088896341f);  // 1 / log 2
}
/// Absolute error below 2^-19: no relative precision next to 0, which formulas
/// that add 1 do not need.
STOWAGE_DEVICE RoughFloat Tanh(RoughFloat x) {
  return 1.0f - 2.0f * Reciprocal(1.0f + Exp(x + x).value);
}
STOWAGE_DEVICE RoughFloat Erfc(RoughFloat x) { return math::Erfc(x.value); }

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ROUGH_FLOAT_H_
