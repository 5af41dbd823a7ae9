#ifndef STOWAGE_MATH_OPTIMIZER_H_
#define STOWAGE_MATH_OPTIMIZER_H_

// Provides the optimizer updates of a single element, as templates over the number type
// (math/portable.h). Also provides the low-precision formats of weights and moments: weights split
// into a bf16 number and a correction (SplitMaster, ShortSplitMaster), and 8-bit moments
// (SignedDynamicCode and the other codes). Constants of a step are computed once, in double
// precision, and rounded once.
//
//   const auto k = math::AdamWConstants::At(step, lr, 0.9, 0.999, 1e-8, 0.01);
//   math::AdamWStep(k, g, &w, &m, &v);
//
//   const math::SplitMaster parts = math::Split(0.1f);
//   math::Join(parts) == 0.1f;  // bit for bit

#include <cmath>
#include <cstdint>

#include "math/portable.h"
#include "math/small_floats.h"

namespace stowage::math {

/// Returns true if `scale` is infinite. `scale` is the factor by which an update multiplies a
/// gradient or the change of a state. If it is infinite, the update must be skipped. NaN does not
/// skip the update, so that it propagates.
template <typename T>
STOWAGE_HOST_DEVICE inline bool SkipsUpdate(T scale) {
  return scale - scale != T(0) && scale == scale;
}

/// Updates w with SGD: w -= lr (g + decay w).
template <typename T>
STOWAGE_HOST_DEVICE inline void SgdStep(T lr, T decay, T g, T* w) {
  *w = *w - lr * (g + decay * *w);
}

/// Updates w with momentum (Polyak 1964), without dampening:
///   velocity = momentum velocity + g + decay w
///   w -= lr velocity
template <typename T>
STOWAGE_HOST_DEVICE inline void MomentumStep(T lr, T momentum, T decay, T g,
                                             T* w, T* velocity) {
  *velocity = momentum * *velocity + (g + decay * *w);
  *w = *w - lr * *velocity;
}

/// Updates w with Nesterov momentum (Sutskever et al. 2013):
///   d = g + decay w
///   velocity = momentum velocity + d
///   w -= lr (d + momentum velocity)
template <typename T>
STOWAGE_HOST_DEVICE inline void NesterovStep(T lr, T momentum, T decay, T g,
                                             T* w, T* velocity) {
  const T d = g + decay * *w;
  *velocity = momentum * *velocity + d;
  *w = *w - lr * (d + momentum * *velocity);
}

/// Updates w with RMSprop (Hinton 2012):
///   d = g + decay w
///   v = alpha v + (1 - alpha) d^2
///   w -= lr d / (sqrt(v) + eps)
template <typename T>
STOWAGE_HOST_DEVICE inline void RmsPropStep(T lr, T alpha, T one_minus_alpha,
                                            T eps, T decay, T g, T* w, T* v) {
  const T d = g + decay * *w;
  *v = alpha * *v + one_minus_alpha * (d * d);
  *w = *w - lr * d / (Sqrt(*v) + eps);
}

/// Updates w with Adagrad (Duchi, Hazan & Singer 2011):
///   d = g + decay w
///   v = v + d^2
///   w -= lr d / (sqrt(v) + eps)
template <typename T>
STOWAGE_HOST_DEVICE inline void AdagradStep(T lr, T eps, T decay, T g, T* w,
                                            T* v) {
  const T d = g + decay * *w;
  *v = *v + d * d;
  *w = *w - lr * d / (Sqrt(*v) + eps);
}

/// Returns 1 - beta^t. The formula avoids cancellation for beta close to 1. It also avoids pow,
/// which GPU compilers do not inline. `beta` must be in [0, 1), and `t` must be at least 1.
STOWAGE_HOST_DEVICE inline double OneMinusPower(double beta, double t) {
  return -std::expm1(t * std::log(beta));
}

/// The constants of a step of AdamW (Loshchilov & Hutter 2019, algorithm 2):
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

  /// Returns the constants of step `step`, which counts from 1.
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

/// A float weight that is stored as a bf16 number and a 16-bit integer. The model computes with the
/// bf16 number. The optimizer restores the float exactly, by Join. Together the two numbers need
/// four bytes, whereas a bf16 weight and a separate f32 master weight need six.
///
/// The bf16 number is the upper half of the float's bits, rounded to nearest with ties away from
/// zero. The integer is the rounding error, as a difference of bit patterns. It is in [-2^15, 2^15)
/// for every finite float, so it fits 16 bits. (With ties to even, it could be 2^15.)
///
/// Finite floats with a magnitude of at least 0x1.FFp127 round to infinity and have a negative
/// integer. An infinite bf16 number therefore represents infinity if the integer is 0, and a finite
/// float otherwise. NaN becomes a quiet NaN with the integer 0.
struct SplitMaster {
  uint16_t weight;  // the bits of a bf16
  int16_t delta;    // bits of the float - (weight << 16)
};

STOWAGE_HOST_DEVICE inline SplitMaster Split(float master) {
  const uint32_t bits = FloatBits(master);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {FloatToBFloat16(master), 0};
  const auto weight = static_cast<uint16_t>((bits + 0x8000) >> 16);
  // The lower half, as a signed number, is the distance to the rounded upper half.
  return {weight, static_cast<int16_t>(static_cast<uint16_t>(bits))};
}

/// Returns the original float. Both fields must come from the same call of Split. If the weight has
/// been replaced, `delta` must be set to 0.
STOWAGE_HOST_DEVICE inline float Join(SplitMaster parts) {
  const auto delta = static_cast<uint32_t>(int32_t{parts.delta});
  return BitsFloat((uint32_t{parts.weight} << 16) + delta);
}

/// A float weight that is stored in three bytes, as a bf16 number and an 8-bit integer. Together
/// they are the upper 24 bits of the float, rounded to nearest. The relative error of a normal
/// float is at most 2^-16. (Compare Gonzalez Ortiz et al. 2026, "FlashOptim", where the integers
/// are fractions of the distance to the next bf16 number.)
struct ShortSplitMaster {
  uint16_t weight;  // the bits of a bf16
  uint8_t delta;    // an int8_t: (bits of the float - (weight << 16)) / 256
};

/// Rounds `master` to the nearest float whose lower 8 bits are 0, with ties away from zero, and
/// returns its two numbers. NaN becomes a quiet NaN with the integer 0.
STOWAGE_HOST_DEVICE inline ShortSplitMaster SplitShort(float master) {
  const uint32_t bits = FloatBits(master);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {FloatToBFloat16(master), 0};
  const SplitMaster parts = Split(BitsFloat((bits + 0x80) & 0xFFFFFF00));
  return {parts.weight, static_cast<uint8_t>(parts.delta / 256)};
}

/// Returns the rounded float that SplitShort has split. If the weight has been replaced, `delta`
/// must be set to 0.
STOWAGE_HOST_DEVICE inline float JoinShort(ShortSplitMaster parts) {
  const auto delta =
      static_cast<int16_t>(static_cast<int8_t>(parts.delta) * 256);
  return Join(SplitMaster{parts.weight, delta});
}

// Codes of 8-bit optimizer moments. A block of elements shares a scale, which is the largest
// magnitude among them. A byte encodes element / scale, which is in [-1, 1] for a first moment and
// in [0, 1] for a second moment.
//
//   const float inverse = InverseOf(scale);
//   m_byte = SignedCompandedCode::Encode(m * inverse);
//   m = scale * SignedCompandedCode::Decode(m_byte);
//
// SignedDynamicCode and DynamicCode (Dettmers, Lewis, Shleifer & Zettlemoyer 2022, "8-bit
// optimizers via block-wise quantization") use the table of create_dynamic_map in bitsandbytes. The
// table has seven decades, each with twice as many numbers as the decade below. Decade i, from 0 to
// 6, has n = 2^i numbers (2^(i+1) in the unsigned code): 10^(i-6) (0.1 + 0.9 (k + 1/2) / n) for 0
// <= k < n. 0 and 1 are also in the table, but -1 is not. An element is encoded as the nearest
// number.
//
// SignedCompandedCode and CompandedCode (Gonzalez Ortiz et al. 2026, "FlashOptim", arXiv
// 2602.23349) have equal steps on a curve that is steep near 0. A first moment is encoded as
// round(127 z) with z = 2x / (1 + |x|), and decoded as x = z / (2 - |z|). A second moment is
// encoded as round(255 sqrt(x)).
//
// In all codes, byte 0 decodes to 0, so zero states stay zero for any finite scale. Unlike in these
// papers, a positive x is never encoded as 0 if x is a second moment divided by its scale, because
// an update divides by the moment's square root. (The division itself can underflow to 0.) If an
// element is non-finite, the scale of its block is non-finite, and so is the whole block after
// decoding. Values above 1, which rounding can produce, are encoded as 1. Values below -1 are
// encoded as the smallest number of the code. NaN is encoded as 0.

/// Returns 1 / scale, or 0 if the scale is 0 or non-finite. The result is infinite for a scale of
/// at most 2^-128. A nonzero element is then encoded as the largest magnitude, and 0 as 0.
STOWAGE_HOST_DEVICE inline float InverseOf(float scale) {
  return scale > 0 ? 1 / scale : 0.0f;
}

namespace internal {

// The table of magnitudes of the dynamic codes. kMore is 0 for the signed code, and 1 for the
// unsigned code, which has twice as many numbers per decade.
template <int kMore>
struct DynamicMagnitudes {
  static constexpr int kOne = (128 << kMore) - kMore;  // the index of 1
  static constexpr int kDecades = 7;

  // Loops always run over all decades, so that the threads of a warp do not diverge. Divisions by
  // powers of two are written as multiplications, which are exact.

  // Returns the number with index j, where the numbers are in ascending order. Decade i begins at j
  // = 2^(i + kMore) - kMore.
  STOWAGE_HOST_DEVICE static constexpr float Number(int j) {
    if (j == 0) return 0;
    if (j == kOne) return 1;
    const int at = j + kMore;
    int n = 64 << kMore;
    float of_one = 1.0f / static_cast<float>(n);
    float power = 1;  // exact
    for (int decade = 1; decade < kDecades; ++decade) {
      const bool is_below = n > at;
      n = is_below ? n / 2 : n;
      of_one = is_below ? of_one * 2 : of_one;
      power = is_below ? power * 10 : power;
    }
    const float middle = static_cast<float>(at - n) + 0.5f;
    return (0.1f + 0.9f * middle * of_one) / power;
  }

  // Returns the index of the number nearest to x, or the lower index in a tie. A decade is divided
  // into cells of equal length, whose centers are the numbers. The result is therefore the index of
  // the cell that contains x, except near the ends of decades.
  STOWAGE_HOST_DEVICE static constexpr int Nearest(float x) {
    if (!(x > 0)) return 0;
    if (x >= 1) return kOne;
    int n = 64 << kMore;
    float in_decade = x;
    for (int decade = 1; decade < kDecades; ++decade) {
      const bool is_below = in_decade < 0.1f;
      n = is_below ? n / 2 : n;
      in_decade = is_below ? in_decade * 10 : in_decade;
    }
    const float cell =
        (in_decade - 0.1f) * (static_cast<float>(n) * (1 / 0.9f));
    int k = cell > 0 ? static_cast<int>(cell) : 0;
    if (k > n - 1) k = n - 1;
    const int j = n - kMore + k;
    if (k == 0 && x - Number(j - 1) <= Number(j) - x) return j - 1;
    if (j + 1 == kOne && 1 - x < x - Number(j)) return kOne;
    return j;
  }
};

}  // namespace internal

/// The dynamic code of a first moment. A byte, read as signed, is the index of the magnitude with
/// the sign of x. 1 has the index 128, so its byte is -128.
struct SignedDynamicCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    using Magnitudes = internal::DynamicMagnitudes<0>;
    int j = Magnitudes::Nearest(x < 0 ? -x : x);
    if (x < 0) j = j == Magnitudes::kOne ? 1 - j : -j;
    return static_cast<uint8_t>(j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    using Magnitudes = internal::DynamicMagnitudes<0>;
    if (code == Magnitudes::kOne) return 1;
    const int j = static_cast<int8_t>(code);
    return j < 0 ? -Magnitudes::Number(-j) : Magnitudes::Number(j);
  }
};

/// The dynamic code of a second moment.
struct DynamicCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    const int j = internal::DynamicMagnitudes<1>::Nearest(x);
    return static_cast<uint8_t>(j == 0 && x > 0 ? 1 : j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    return internal::DynamicMagnitudes<1>::Number(code);
  }
};

/// The companded code of a first moment. Codes are signed bytes.
struct SignedCompandedCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    const float magnitude = x < 0 ? -x : x;
    if (!(magnitude > 0)) return 0;
    const float z = magnitude < 1 ? 2 * magnitude / (1 + magnitude) : 1.0f;
    const int j = static_cast<int>(127 * z + 0.5f);
    return static_cast<uint8_t>(x < 0 ? -j : j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    const float z =
        static_cast<float>(static_cast<int8_t>(code)) * (1.0f / 127);
    return z / (2 - (z < 0 ? -z : z));
  }
};

/// The companded code of a second moment.
struct CompandedCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    if (!(x > 0)) return 0;
    const int j = x < 1 ? static_cast<int>(255 * Sqrt(x) + 0.5f) : 255;
    return static_cast<uint8_t>(j == 0 ? 1 : j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    const float root = static_cast<float>(code) * (1.0f / 255);
    return root * root;
  }
};

}  // namespace stowage::math

#endif  // STOWAGE_MATH_OPTIMIZER_H_
