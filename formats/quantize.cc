#include "formats/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/result.h"
#include "base/strings.h"
#include "formats/quantize_k.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

constexpr int kNumbers = 32;  // of a block here

// Products and sums are rounded one by one, as ggml's package rounds them: this package is
// compiled without fused multiply-adds (BUILD).

// 1 / step; 0 where a step is zero or so small that there is no finite one.
float Inverse(float step) {
  const float inverse = step == 0 ? 0.0f : 1.0f / step;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// A scale as f16. False where it is too large.
bool StoreHalf(float value, uint8_t* to) {
  const uint16_t bits = math::FloatToHalf(value);
  std::memcpy(to, &bits, sizeof(bits));
  return std::isfinite(math::HalfToFloat(bits));
}

// The number that is largest without its sign, the first of several.
float LargestOf(const float* x) {
  float largest = x[0];
  for (int i = 1; i < kNumbers; ++i) {
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  }
  return largest;
}

void StoreNibbles(const uint8_t* codes, uint8_t* nibbles) {
  for (int j = 0; j < kNumbers / 2; ++j) {
    nibbles[j] = static_cast<uint8_t>((codes[j] & 15) |
                                      (codes[j + kNumbers / 2] & 15) << 4);
  }
}

void StoreHighBits(const uint8_t* codes, uint8_t* to) {
  uint32_t high = 0;
  for (int j = 0; j < kNumbers; ++j) {
    high |= static_cast<uint32_t>(codes[j] >> 4) << j;
  }
  std::memcpy(to, &high, sizeof(high));
}

uint8_t CodeOf(float scaled, int most) {
  return static_cast<uint8_t>(
      std::clamp(static_cast<int>(scaled), 0, most));  // rounds towards zero
}

// Number i is d (q - half): the largest one takes the code 0 or the last.
bool CodeAround(const float* x, int half, uint8_t* to, uint8_t* codes) {
  const float d = LargestOf(x) / static_cast<float>(-half);
  const float inverse = Inverse(d);
  for (int j = 0; j < kNumbers; ++j) {
    codes[j] = CodeOf(x[j] * inverse + (static_cast<float>(half) + 0.5f),
                      2 * half - 1);
  }
  return StoreHalf(d, to);
}

// Number i is d q + m: the least takes the code 0, the largest the last.
bool CodeFrom(const float* x, int most, uint8_t* to, uint8_t* codes) {
  const auto [low, high] = std::minmax_element(x, x + kNumbers);
  const float m = *low;
  const float d = (*high - m) / static_cast<float>(most);
  if (!std::isfinite(d)) return false;
  const float inverse = Inverse(d);
  for (int j = 0; j < kNumbers; ++j) {
    codes[j] = CodeOf((x[j] - m) * inverse + 0.5f, most);
  }
  const bool fits = StoreHalf(d, to);
  return StoreHalf(m, to + 2) && fits;
}

// Each takes the numbers of a block and stores it; false where they are too large.

bool Q4_0(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeAround(x, 8, to, codes);
  StoreNibbles(codes, to + 2);
  return fits;
}

bool Q4_1(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeFrom(x, 15, to, codes);
  StoreNibbles(codes, to + 4);
  return fits;
}

bool Q5_0(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeAround(x, 16, to, codes);
  StoreHighBits(codes, to + 2);
  StoreNibbles(codes, to + 6);
  return fits;
}

bool Q5_1(const float* x, uint8_t* to) {
  uint8_t codes[kNumbers];
  const bool fits = CodeFrom(x, 31, to, codes);
  StoreHighBits(codes, to + 4);
  StoreNibbles(codes, to + 8);
  return fits;
}

bool Q8_0(const float* x, uint8_t* to) {
  const float d = std::abs(LargestOf(x)) / 127.0f;
  const float inverse = Inverse(d);
  for (int j = 0; j < kNumbers; ++j) {
    const float code = std::round(x[j] * inverse);
    to[2 + j] = static_cast<uint8_t>(static_cast<int8_t>(code));
  }
  return StoreHalf(d, to);
}

bool F32(const float* x, uint8_t* to) {
  std::memcpy(to, x, sizeof(*x));
  return true;
}

bool F16(const float* x, uint8_t* to) { return StoreHalf(*x, to); }

bool BF16(const float* x, uint8_t* to) {
  const uint16_t bits = math::FloatToBFloat16(*x);
  std::memcpy(to, &bits, sizeof(bits));
  return std::isfinite(math::BFloat16ToFloat(bits));
}

bool Q4_K(const float* x, uint8_t* to) {
  return quantize::AffineGroups(x, 15, to);
}
bool Q5_K(const float* x, uint8_t* to) {
  return quantize::AffineGroups(x, 31, to);
}
bool Q6_K(const float* x, uint8_t* to) {
  return quantize::SymmetricGroups(x, to);
}

using EncodeBlock = bool (*)(const float*, uint8_t*);

// Types that are read and not written.
constexpr EncodeBlock Q2_K = nullptr, Q3_K = nullptr, IQ4_NL = nullptr,
                      IQ4_XS = nullptr, TQ1_0 = nullptr, TQ2_0 = nullptr,
                      MXFP4 = nullptr;

EncodeBlock EncoderOf(WeightType type) {
  switch (type) {
#define STOWAGE_WEIGHT_TYPE(name, count, size) \
  case WeightType::k##name:                    \
    return name;
#include "ir/weight_types.def"
  }
  return nullptr;
}

}  // namespace

bool CanQuantize(WeightType type) { return EncoderOf(type) != nullptr; }

Status Quantize(WeightType type, std::span<const float> numbers,
                std::span<std::byte> to) {
  STOWAGE_CHECK(CanQuantize(type));
  STOWAGE_CHECK(BytesOf(type, std::ssize(numbers)) == std::ssize(to));
  const auto wrong = std::ranges::find_if(
      numbers, [](float number) { return !std::isfinite(number); });
  if (wrong != numbers.end()) {
    return Error{ErrorCode::kNotFinite,
                 StrCat("[quantize] number ", wrong - numbers.begin(), " is ",
                        *wrong, "; expected finite numbers")};
  }
  const BlockFormat& format = FormatOf(type);
  const EncodeBlock encode = EncoderOf(type);
  auto* bytes = reinterpret_cast<uint8_t*>(to.data());
  for (size_t at = 0; at < numbers.size();
       at += static_cast<size_t>(format.numbers), bytes += format.bytes) {
    if (encode(numbers.data() + at, bytes)) continue;
    const auto block = numbers.subspan(at, static_cast<size_t>(format.numbers));
    const auto largest = std::ranges::max_element(
        block, {}, [](float number) { return std::abs(number); });
    return InvalidArgumentError(
        "[quantize] number ",
        static_cast<int64_t>(at) + (largest - block.begin()), " is ", *largest,
        ", too large for ", format.name, "; F32 holds it");
  }
  return {};
}

}  // namespace stowage
