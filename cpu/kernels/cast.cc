// cast: every element type to every other.
//
// To a float type rounds to the nearest, ties to even, once. A float to an
// integer truncates; what is outside the integer's range becomes its nearest
// bound, and NaN 0. An integer to a narrower one wraps around. Anything to bool
// is whether it is not zero.

#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "math/small_floats.h"

namespace stowage::cpu {
namespace {

// Element types that C++ has no name for, as they lie in memory.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

template <typename F>
auto OnAny(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kF16:
      return f(Half{});
    case DType::kBF16:
      return f(BFloat16{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kBool:
      return f(Bool{});
  }
  STOWAGE_CHECK(false);
}

// The number that an element stands for, exactly.
template <typename T>
T Number(T x) {
  return x;
}
float Number(Half x) { return math::HalfToFloat(x.bits); }
float Number(BFloat16 x) { return math::BFloat16ToFloat(x.bits); }
uint8_t Number(Bool x) { return x.byte != 0; }

// A float that rounds to 16 bits as `x` does: x itself, or, where a float
// cannot hold it, one whose last bit says that something was cut off.
float Sticky(float x) { return x; }
float Sticky(double x) { return math::RoundToOddFloat(x); }
template <std::integral T>
float Sticky(T integer) {
  const int64_t x = integer;
  // A double holds 53 bits; gather any lower ones in the last of those.
  const uint64_t magnitude =
      x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  uint64_t kept = magnitude;
  if (magnitude >> 53 != 0) {
    constexpr uint64_t kLow = (uint64_t{1} << 12) - 1;
    kept = (magnitude & ~kLow) | ((magnitude & kLow) != 0 ? kLow + 1 : 0);
  }
  const double number = static_cast<double>(kept);
  return math::RoundToOddFloat(x < 0 ? -number : number);
}

template <typename To, typename From>
To Converted(From x) {
  if constexpr (std::is_same_v<To, Half>) {
    return {math::FloatToHalf(Sticky(x))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {math::FloatToBFloat16(Sticky(x))};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != From(0))};
  } else if constexpr (std::is_integral_v<To> &&
                       std::is_floating_point_v<From>) {
    // -2^k or 0, and 2^k: exact in From.
    constexpr From kLowest = static_cast<From>(std::numeric_limits<To>::min());
    const From beyond = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (x != x) return 0;
    if (x <= kLowest) return std::numeric_limits<To>::min();
    if (x >= beyond) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

StepCode RunCast(const Launch& launch, ThreadPool& pool) noexcept {
  OnAny(launch.inputs[0].dtype(), [&](auto from) {
    OnAny(launch.outputs[0].dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      Elementwise<To, From>(launch, pool,
                            [](int64_t n, int64_t, To* y, const From* x) {
                              // The result may lie over the operand, as another
                              // type: read and write by bytes, a block before
                              // the next.
                              constexpr int64_t kBlock = 256;
                              From before[kBlock];
                              To after[kBlock];
                              for (int64_t i = 0; i < n; i += kBlock) {
                                const int64_t count = std::min(kBlock, n - i);
                                const auto size = static_cast<size_t>(count);
                                std::memcpy(before, x + i, size * sizeof(From));
                                for (int64_t j = 0; j < count; ++j) {
                                  after[j] = Converted<To>(Number(before[j]));
                                }
                                std::memcpy(y + i, after, size * sizeof(To));
                              }
                            });
    });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Cast = {.run = RunCast, .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
