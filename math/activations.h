#ifndef STOWAGE_MATH_ACTIVATIONS_H_
#define STOWAGE_MATH_ACTIVATIONS_H_

// Provides activation functions and their derivatives, as templates over the number type
// (math/portable.h), so that every backend computes the same formula.
//
//   float y = math::GeluTanh(1.5f);
//   float dx = dy * math::GeluTanhDerivative(1.5f);

#include "math/portable.h"

namespace stowage::math {

/// Returns 1 / (1 + exp(-x)).
template <typename T>
STOWAGE_HOST_DEVICE inline T Sigmoid(T x) {
  return T(1) / (T(1) + Exp(-x));
}

/// Returns the derivative of Sigmoid, given its output y: y (1 - y).
template <typename T>
STOWAGE_HOST_DEVICE inline T SigmoidDerivativeFromOutput(T y) {
  return y * (T(1) - y);
}

/// Returns the derivative of tanh, given its output y: 1 - y^2.
template <typename T>
STOWAGE_HOST_DEVICE inline T TanhDerivativeFromOutput(T y) {
  return T(1) - y * y;
}

/// Returns x sigmoid(x), which is also called swish (Elfwing, Uchibe & Doya 2018).
template <typename T>
STOWAGE_HOST_DEVICE inline T Silu(T x) {
  return x / (T(1) + Exp(-x));
}

/// Returns the derivative of Silu: s + x s (1 - s) with s = sigmoid(x).
template <typename T>
STOWAGE_HOST_DEVICE inline T SiluDerivative(T x) {
  const T s = Sigmoid(x);
  return s + x * s * (T(1) - s);
}

/// Returns x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the approximation of GELU in Hendrycks &
/// Gimpel 2016, section 2, which GPT-2 uses.
template <typename T>
STOWAGE_HOST_DEVICE inline T GeluTanh(T x) {
  const T root = T(0.79788456080286535588);  // sqrt(2/pi)
  const T inner = root * x * (T(1) + T(0.044715) * x * x);
  return T(0.5) * x * (T(1) + Tanh(inner));
}

/// Returns the derivative of GeluTanh.
template <typename T>
STOWAGE_HOST_DEVICE inline T GeluTanhDerivative(T x) {
  const T root = T(0.79788456080286535588);  // sqrt(2/pi)
  const T square = T(0.044715) * x * x;
  const T t = Tanh(root * x * (T(1) + square));
  const T inner_derivative = root * (T(1) + T(3) * square);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner_derivative;
}

/// Returns GELU, x Phi(x), where Phi is the normal distribution function. Phi is computed as
/// erfc(-x/sqrt 2)/2, so that the left tail keeps its relative precision.
template <typename T>
STOWAGE_HOST_DEVICE inline T GeluErf(T x) {
  return T(0.5) * x * Erfc(x * T(-0.70710678118654752440));
}

/// Returns the derivative of GeluErf: Phi(x) + x phi(x), where phi is the normal density.
template <typename T>
STOWAGE_HOST_DEVICE inline T GeluErfDerivative(T x) {
  const T distribution = T(0.5) * Erfc(x * T(-0.70710678118654752440));
  const T density = T(0.39894228040143267794) * Exp(T(-0.5) * x * x);
  return distribution + x * density;
}

/// Returns x tanh(log(1 + e^x)) (Misra 2019), computed as x n / (n + 2) with n = e^x (e^x + 2). For
/// x >= 20, the factor n / (n + 2) rounds to 1, so e^20 replaces e^x.
template <typename T>
STOWAGE_HOST_DEVICE inline T Mish(T x) {
  const T e = Exp(Select(x <= T(20), x, T(20)));
  const T n = e * (e + T(2));
  return x * (n / (n + T(2)));
}

/// Returns the derivative of Mish: n / (n + 2) + 4 x e (1 + e) / (n + 2)^2 with e = e^x and n = e
/// (e + 2).
template <typename T>
STOWAGE_HOST_DEVICE inline T MishDerivative(T x) {
  const T e = Exp(Select(x <= T(20), x, T(20)));
  const T n = e * (e + T(2));
  const T part = e / (n + T(2));
  return n / (n + T(2)) + T(4) * x * part * ((T(1) + e) / (n + T(2)));
}

/// Returns x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019), or NaN if x is NaN.
template <typename T>
STOWAGE_HOST_DEVICE inline T HardSwish(T x) {
  const T inner = x * (x + T(3)) * T(1.0 / 6);
  return Select(x <= T(-3), T(0), Select(T(3) <= x, x, inner));
}

/// Returns the derivative of HardSwish. It is 0 at x = -3 and 1 at x = 3.
template <typename T>
STOWAGE_HOST_DEVICE inline T HardSwishDerivative(T x) {
  const T inner = (x + x + T(3)) * T(1.0 / 6);
  return Select(x <= T(-3), T(0), Select(T(3) <= x, T(1), inner));
}

/// Returns the derivative of ELU, y = scale (x > 0 ? x : alpha (e^x - 1)), given its output y:
/// `scale` if y > 0, and y + scale alpha otherwise. `alpha` and `scale` must not be negative.
template <typename T>
STOWAGE_HOST_DEVICE inline T EluDerivativeFromOutput(T y, T alpha, T scale) {
  return Select(T(0) < y, scale, y + scale * alpha);
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_ACTIVATIONS_H_
