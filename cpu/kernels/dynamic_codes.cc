#include "cpu/kernels/dynamic_codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "math/optimizer.h"

namespace stowage::cpu {
namespace {

// Of magnitudes of `Code`, SignedDynamicCode or DynamicCode.
template <typename Code>
struct DynamicTable {
  static constexpr bool kIsSigned =
      std::is_same_v<Code, math::SignedDynamicCode>;
  using Magnitudes = math::internal::DynamicMagnitudes<kIsSigned ? 0 : 1>;
  static constexpr int kShift = 17;                  // of a float's bits
  static constexpr int32_t kBase = (127 - 23) << 6;  // below 2^-23, all are one
  static constexpr size_t kIntervals = (23 << 6) + 1;

  // The number of the magnitude x >= 0.
  static constexpr int Nearest(float x) {
    const int j = Magnitudes::Nearest(x);
    return kIsSigned || j > 0 || !(x > 0) ? j : 1;
  }

  constexpr DynamicTable() {
    for (size_t i = 1; i < kIntervals; ++i) {
      first[i] = Nearest(
          std::bit_cast<float>((kBase + static_cast<int32_t>(i)) << kShift));
    }
    for (int j = 0; j < Magnitudes::kOne; ++j) {
      // Between the number and the one above, by halves of what lies between.
      auto in = std::bit_cast<int32_t>(Magnitudes::Number(j));
      auto out = std::bit_cast<int32_t>(Magnitudes::Number(j + 1));
      while (out - in > 1) {
        const int32_t middle = in + (out - in) / 2;
        (Nearest(std::bit_cast<float>(middle)) <= j ? in : out) = middle;
      }
      last[static_cast<size_t>(j)] = in;
    }
    last.back() = std::numeric_limits<int32_t>::max();
  }

  // Numbers that are nearest to where an interval begins, and the bits of the last float
  // that a number is nearest to.
  std::array<int32_t, kIntervals> first = {};
  std::array<int32_t, Magnitudes::kOne + 1> last = {};
};

}  // namespace

// Without a promise that nothing overlaps, loads by index are not made vectors of.
template <typename Code>
void EncodeDynamic(const float* __restrict numbers, int64_t count,
                   float inverse, uint8_t* __restrict codes) {
  using Table = DynamicTable<Code>;
  static constexpr Table kTable;
  constexpr auto kOne = std::bit_cast<int32_t>(1.0f);
  constexpr auto kInfinity =
      std::bit_cast<int32_t>(std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < count; ++i) {
    // Floats that are not negative are in the order of their bits, below NaN.
    const auto bits = std::bit_cast<int32_t>(numbers[i] * inverse);
    int32_t magnitude = Table::kIsSigned ? bits & 0x7FFFFFFF : bits;
    magnitude = magnitude > kInfinity ? 0 : magnitude;
    magnitude = std::clamp(magnitude, 0, kOne);
    const int32_t interval =
        std::max((magnitude >> Table::kShift) - Table::kBase, 0);
    int32_t j = kTable.first[static_cast<size_t>(interval)];
    j += magnitude > kTable.last[static_cast<size_t>(j)] ? 1 : 0;
    j += magnitude > kTable.last[static_cast<size_t>(j)] ? 1 : 0;
    if (Table::kIsSigned) {
      const int32_t most = std::min(j, 127);  // -1 is no number
      j = bits < 0 ? -most : j;
    }
    codes[i] = static_cast<uint8_t>(j);
  }
}

template void EncodeDynamic<math::SignedDynamicCode>(const float*, int64_t,
                                                     float, uint8_t*);
template void EncodeDynamic<math::DynamicCode>(const float*, int64_t, float,
                                               uint8_t*);

}  // namespace stowage::cpu
