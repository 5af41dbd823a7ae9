#include "formats/quantized.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

constexpr std::array<BlockFormat, kWeightTypes> kFormats = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
}};

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float LoadHalf(const uint8_t* from) {
  return math::HalfToFloat(Load<uint16_t>(from));
}

// One block of each type: `from` its bytes, `to` its numbers.

void F32(const uint8_t* from, float* to) { *to = Load<float>(from); }
void F16(const uint8_t* from, float* to) { *to = LoadHalf(from); }
void BF16(const uint8_t* from, float* to) {
  *to = math::BFloat16ToFloat(Load<uint16_t>(from));
}

// 32 numbers d q + m of 16 bytes of nibbles, and a fifth bit where there is one.
void Nibbles(const uint8_t* nibbles, uint32_t high, float d, float m,
             float* to) {
  for (int j = 0; j < 16; ++j) {
    const uint32_t low_q = (nibbles[j] & 15u) | (high >> j & 1u) << 4;
    const uint32_t high_q =
        static_cast<uint32_t>(nibbles[j] >> 4) | (high >> (j + 16) & 1u) << 4;
    to[j] = d * static_cast<float>(static_cast<int32_t>(low_q)) + m;
    to[j + 16] = d * static_cast<float>(static_cast<int32_t>(high_q)) + m;
  }
}

void Q4_0(const uint8_t* from, float* to) {
  const float d = LoadHalf(from);
  Nibbles(from + 2, 0, d, -8 * d, to);
}
void Q4_1(const uint8_t* from, float* to) {
  Nibbles(from + 4, 0, LoadHalf(from), LoadHalf(from + 2), to);
}
void Q5_0(const uint8_t* from, float* to) {
  const float d = LoadHalf(from);
  Nibbles(from + 6, Load<uint32_t>(from + 2), d, -16 * d, to);
}
void Q5_1(const uint8_t* from, float* to) {
  Nibbles(from + 8, Load<uint32_t>(from + 4), LoadHalf(from),
          LoadHalf(from + 2), to);
}
void Q8_0(const uint8_t* from, float* to) {
  const float d = LoadHalf(from);
  for (int j = 0; j < 32; ++j) {
    to[j] = d * static_cast<float>(static_cast<int8_t>(from[2 + j]));
  }
}

struct ScaleAndMinimum {
  float scale, minimum;
};
// Of the g-th 32 numbers of a block of Q4_K or Q5_K.
ScaleAndMinimum ScaleOf(const uint8_t* scales, int g) {
  if (g < 4) {
    return {static_cast<float>(scales[g] & 63),
            static_cast<float>(scales[g + 4] & 63)};
  }
  const int both = scales[g + 4];
  return {static_cast<float>((both & 15) | (scales[g - 4] >> 6 << 4)),
          static_cast<float>((both >> 4) | (scales[g] >> 6 << 4))};
}

// `high` is null where no number has a fifth bit.
void KNibbles(const uint8_t* from, const uint8_t* high, const uint8_t* nibbles,
              float* to) {
  const float d = LoadHalf(from), m = LoadHalf(from + 2);
  for (int g = 0; g < 8; ++g, to += 32) {
    const auto [scale, minimum] = ScaleOf(from + 4, g);
    const float ds = d * scale, mt = m * minimum;
    const uint8_t* const bytes = nibbles + g / 2 * 32;
    const int shift = g % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      int q = bytes[j] >> shift & 15;
      if (high != nullptr) q |= (high[j] >> g & 1) << 4;
      to[j] = ds * static_cast<float>(q) - mt;
    }
  }
}

void Q4_K(const uint8_t* from, float* to) {
  KNibbles(from, nullptr, from + 16, to);
}
void Q5_K(const uint8_t* from, float* to) {
  KNibbles(from, from + 16, from + 48, to);
}
void Q6_K(const uint8_t* from, float* to) {
  const float d = LoadHalf(from + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* const nibbles = from + half * 64;
    const uint8_t* const high = from + 128 + half * 32;
    for (int g = 0; g < 4; ++g, to += 32) {
      const uint8_t* const scales = from + 192 + half * 8 + g * 2;
      const uint8_t* const bytes = nibbles + g % 2 * 32;
      const int shift = g / 2 * 4;
      for (int j = 0; j < 32; ++j) {
        const int q = (bytes[j] >> shift & 15) | (high[j] >> (2 * g) & 3) << 4;
        const float ds =
            d * static_cast<float>(static_cast<int8_t>(scales[j / 16]));
        to[j] = ds * static_cast<float>(q - 32);
      }
    }
  }
}

using BlockFunction = void (*)(const uint8_t*, float*);
template <BlockFunction kBlock>
void Blocks(const BlockFormat& format, const uint8_t* from,
            std::span<float> to) {
  for (size_t i = 0; i < to.size(); i += static_cast<size_t>(format.numbers)) {
    kBlock(from, to.data() + i);
    from += format.bytes;
  }
}

}  // namespace

const BlockFormat& FormatOf(WeightType type) {
  return kFormats[static_cast<size_t>(type)];
}

Bytes BytesOf(WeightType type, int64_t numbers) {
  const BlockFormat& format = FormatOf(type);
  STOWAGE_CHECK(numbers % format.numbers == 0);
  return numbers / format.numbers * format.bytes;
}

void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to) {
  STOWAGE_CHECK(BytesOf(type, std::ssize(to)) == std::ssize(bytes));
  const BlockFormat& format = FormatOf(type);
  const auto* const from = reinterpret_cast<const uint8_t*>(bytes.data());
  switch (type) {
    case WeightType::kF32:
      return Blocks<F32>(format, from, to);
    case WeightType::kF16:
      return Blocks<F16>(format, from, to);
    case WeightType::kBF16:
      return Blocks<BF16>(format, from, to);
    case WeightType::kQ4_0:
      return Blocks<Q4_0>(format, from, to);
    case WeightType::kQ4_1:
      return Blocks<Q4_1>(format, from, to);
    case WeightType::kQ5_0:
      return Blocks<Q5_0>(format, from, to);
    case WeightType::kQ5_1:
      return Blocks<Q5_1>(format, from, to);
    case WeightType::kQ8_0:
      return Blocks<Q8_0>(format, from, to);
    case WeightType::kQ4_K:
      return Blocks<Q4_K>(format, from, to);
    case WeightType::kQ5_K:
      return Blocks<Q5_K>(format, from, to);
    case WeightType::kQ6_K:
      return Blocks<Q6_K>(format, from, to);
  }
}

}  // namespace stowage
