#include "cpu/kernels/half_floats.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "cpu/kernels/dispatch.h"
#include "math/small_floats.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace stowage::cpu {
namespace {

#ifdef __F16C__
// Eight at a time, by the processor's own conversion.
constexpr int64_t kLanes = 8;

void WidenHalves(int64_t n, const uint16_t* x, float* y) {
  const auto widen = [](const uint16_t* from, float* to) {
    const auto* packed = reinterpret_cast<const __m128i*>(from);
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(packed)));
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) widen(x + i, y + i);
  if (i == n) return;
  uint16_t from[kLanes] = {};
  float to[kLanes];
  std::copy_n(x + i, n - i, from);
  widen(from, to);
  std::copy_n(to, n - i, y + i);
}

void NarrowHalves(int64_t n, const float* x, uint16_t* y) {
  const auto narrow = [](const float* from, uint16_t* to) {
    const __m128i packed =
        _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packed);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) narrow(x + i, y + i);
  if (i == n) return;
  float from[kLanes] = {};
  uint16_t to[kLanes];
  std::copy_n(x + i, n - i, from);
  narrow(from, to);
  std::copy_n(to, n - i, y + i);
}
#else
void WidenHalves(int64_t n, const uint16_t* x, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::HalfToFloat(x[i]);
}
void NarrowHalves(int64_t n, const float* x, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::FloatToHalf(x[i]);
}
#endif

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
