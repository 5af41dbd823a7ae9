#ifndef STOWAGE_MATH_OPTIMIZER_H_
#define STOWAGE_MATH_OPTIMIZER_H_

// Optimizer steps of one element, as templates over the number type (see
// math/portable.h). What is the same for all elements of a step is computed
// once, in double, and rounded once.
//
//   const auto k = math::AdamWConstants::At(step, lr, 0.9, 0.999, 1e-8, 0.01);
//   math::AdamWStep(k, g, &w, &m, &v);

#include <cmath>
#include <cstdint>

#include "math/portable.h"

namespace stowage::math {

/// Whether this number, which multiplies a gradient or says how far a state moves, means
/// that nothing changes at all: an infinite one, which nothing else is. NaN is no such
/// number, and spreads.
template <typename T>
STOWAGE_HOST_DEVICE inline bool SkipsUpdate(T scale) {
  return scale - scale != T(0) && scale == scale;
}

/// w -= lr (g + decay w)
template <typename T>
STOWAGE_HOST_DEVICE inline void SgdStep(T lr, T decay, T g, T* w) {
  *w = *w - lr * (g + decay * *w);
}

/// velocity = momentum velocity + g + decay w;  w -= lr velocity
/// (Polyak 1964, in the form without dampening.)
template <typename T>
STOWAGE_HOST_DEVICE inline void MomentumStep(T lr, T momentum, T decay, T g,
                                             T* w, T* velocity) {
  *velocity = momentum * *velocity + (g + decay * *w);
  *w = *w - lr * *velocity;
}

/// Nesterov's, in the form that looks ahead by the next step's velocity (Sutskever et
/// al. 2013):  velocity = momentum velocity + d;  w -= lr (d + momentum velocity),
/// with d = g + decay w.
template <typename T>
STOWAGE_HOST_DEVICE inline void NesterovStep(T lr, T momentum, T decay, T g,
                                             T* w, T* velocity) {
  const T d = g + decay * *w;
  *velocity = momentum * *velocity + d;
  *w = *w - lr * (d + momentum * *velocity);
}

/// RMSprop (Hinton 2012):  v = alpha v + (1 - alpha) d^2;
/// w -= lr d / (sqrt(v) + eps), with d = g + decay w.
template <typename T>
STOWAGE_HOST_DEVICE inline void RmsPropStep(T lr, T alpha, T one_minus_alpha,
                                            T eps, T decay, T g, T* w, T* v) {
  const T d = g + decay * *w;
  *v = alpha * *v + one_minus_alpha * (d * d);
  *w = *w - lr * d / (Sqrt(*v) + eps);
}

/// Adagrad (Duchi, Hazan & Singer 2011):  v = v + d^2;
/// w -= lr d / (sqrt(v) + eps), with d = g + decay w.
template <typename T>
STOWAGE_HOST_DEVICE inline void AdagradStep(T lr, T eps, T decay, T g, T* w,
                                            T* v) {
  const T d = g + decay * *w;
  *v = *v + d * d;
  *w = *w - lr * d / (Sqrt(*v) + eps);
}

/// 1 - beta^t, without cancellation where beta is next to 1; and without pow,
/// which GPU compilers do not inline. beta in [0, 1), t at least 1.
STOWAGE_HOST_DEVICE inline double OneMinusPower(double beta, double t) {
  return -std::expm1(t * std::log(beta));
}

/// AdamW (Loshchilov & Hutter 2019, algorithm 2):
///   w -= lr decay w
///   m = beta1 m + (1 - beta1) g;    m_hat = m / (1 - beta1^step)
///   v = beta2 v + (1 - beta2) g^2;  v_hat = v / (1 - beta2^step)
///   w -= lr m_hat / (sqrt(v_hat) + eps)
struct AdamWConstants {
  double keep;  // 1 - lr decay
  double rate;  // lr / (1 - beta1^step)
  double beta1, one_minus_beta1;
  double beta2, one_minus_beta2;
  double v_correction;  // 1 / (1 - beta2^step)
  double eps;

  /// `step` counts from 1.
  STOWAGE_HOST_DEVICE static AdamWConstants At(int64_t step, double lr,
                                               double beta1, double beta2,
                                               double eps, double decay) {
    const double first = OneMinusPower(beta1, static_cast<double>(step));
    const double second = OneMinusPower(beta2, static_cast<double>(step));
    return {1 - lr * decay, lr / first, beta1,      1 - beta1,
            beta2,          1 - beta2,  1 / second, eps};
  }
};

template <typename T>
STOWAGE_HOST_DEVICE inline void AdamWStep(const AdamWConstants& k, T g, T* w,
                                          T* m, T* v) {
  *m = T(k.beta1) * *m + T(k.one_minus_beta1) * g;
  *v = T(k.beta2) * *v + T(k.one_minus_beta2) * (g * g);
  const T root = Sqrt(*v * T(k.v_correction));
  *w = T(k.keep) * *w - T(k.rate) * *m / (root + T(k.eps));
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_OPTIMIZER_H_
