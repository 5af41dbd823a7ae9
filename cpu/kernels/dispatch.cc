#include "cpu/kernels/dispatch.h"

#include <algorithm>
#include <cstring>

#include "base/result.h"
#include "math/small_floats.h"

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace stowage::cpu {
namespace {

// A few f16 at a time, by the processor's own conversions where it has them.
#if defined(__F16C__)
constexpr int64_t kLanes = 8;
void WidenLanes(const uint16_t* x, float* y) {
  const auto* packed = reinterpret_cast<const __m128i*>(x);
  _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm_loadu_si128(packed)));
}
void NarrowLanes(const float* x, uint16_t* y) {
  const __m128i packed =
      _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(y), packed);
}
#elif defined(__aarch64__)
constexpr int64_t kLanes = 4;
void WidenLanes(const uint16_t* x, float* y) {
  vst1q_f32(y, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x))));
}
void NarrowLanes(const float* x, uint16_t* y) {
  vst1_u16(y, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x))));
}
#else
constexpr int64_t kLanes = 1;
void WidenLanes(const uint16_t* x, float* y) { *y = math::HalfToFloat(*x); }
void NarrowLanes(const float* x, uint16_t* y) { *y = math::FloatToHalf(*x); }
#endif

void WidenHalves(int64_t n, const uint16_t* x, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) WidenLanes(x + i, y + i);
  if (i == n) return;
  uint16_t from[kLanes] = {};
  float to[kLanes];
  std::copy_n(x + i, n - i, from);
  WidenLanes(from, to);
  std::copy_n(to, n - i, y + i);
}

void NarrowHalves(int64_t n, const float* x, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) NarrowLanes(x + i, y + i);
  if (i == n) return;
  float from[kLanes] = {};
  uint16_t to[kLanes];
  std::copy_n(x + i, n - i, from);
  NarrowLanes(from, to);
  std::copy_n(to, n - i, y + i);
}

}  // namespace

void Widen(DType half, int64_t n, const std::byte* x, int64_t stride,
           float* y) {
  STOWAGE_CHECK(IsHalf(half));
  const auto* bits = reinterpret_cast<const uint16_t*>(x);
  if (stride != 1) {
    for (int64_t i = 0; i < n; ++i) {
      const uint16_t element = bits[i * stride];
      y[i] = half == DType::kF16 ? math::HalfToFloat(element)
                                 : math::BFloat16ToFloat(element);
    }
  } else if (half == DType::kF16) {
    WidenHalves(n, bits, y);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = math::BFloat16ToFloat(bits[i]);
  }
}

void Narrow(DType half, int64_t n, const float* x, std::byte* y) {
  STOWAGE_CHECK(IsHalf(half));
  auto* bits = reinterpret_cast<uint16_t*>(y);
  if (half == DType::kF16) {
    NarrowHalves(n, x, bits);
  } else {
    for (int64_t i = 0; i < n; ++i) bits[i] = math::FloatToBFloat16(x[i]);
  }
}

}  // namespace stowage::cpu
