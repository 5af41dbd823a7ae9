#ifndef STOWAGE_MATH_PORTABLE_H_
#define STOWAGE_MATH_PORTABLE_H_

// Allows the same formulas to be compiled for CPUs and GPUs. Provides the function attribute
// STOWAGE_HOST_DEVICE, and elementary functions with the same names for all number types.
//
// A formula is a template over the number type T that calls Exp, Tanh and so on without a
// namespace. For float and double, these are the functions below. For a type of another namespace,
// such as the SIMD vectors of the CPU kernels, argument-dependent lookup finds the functions of
// that namespace.
//
//   template <typename T>
//   STOWAGE_HOST_DEVICE T Logistic(T x) { return T(1) / (T(1) + Exp(-x)); }

#include <cmath>

#if defined(__CUDACC__)
#define STOWAGE_HOST_DEVICE __host__ __device__
#else
#define STOWAGE_HOST_DEVICE
#endif

namespace stowage::math {

STOWAGE_HOST_DEVICE inline float Exp(float x) { return ::expf(x); }
STOWAGE_HOST_DEVICE inline double Exp(double x) { return ::exp(x); }
STOWAGE_HOST_DEVICE inline float Tanh(float x) { return ::tanhf(x); }
STOWAGE_HOST_DEVICE inline double Tanh(double x) { return ::tanh(x); }
STOWAGE_HOST_DEVICE inline float Erfc(float x) { return ::erfcf(x); }
STOWAGE_HOST_DEVICE inline double Erfc(double x) { return ::erfc(x); }
STOWAGE_HOST_DEVICE inline float Sqrt(float x) { return ::sqrtf(x); }
STOWAGE_HOST_DEVICE inline double Sqrt(double x) { return ::sqrt(x); }

/// Returns the remainder of x / y with the sign of y, in [0, y) or (y, 0].
STOWAGE_HOST_DEVICE inline float Remainder(float x, float y) {
  const float rest = ::fmodf(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
STOWAGE_HOST_DEVICE inline double Remainder(double x, double y) {
  const double rest = ::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/// Returns `yes` if `mask` is true, and `no` otherwise.
template <typename T>
STOWAGE_HOST_DEVICE inline T Select(bool mask, T yes, T no) {
  return mask ? yes : no;
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_PORTABLE_H_
