#include "runtime/initial_values.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"
#include "base/hash.h"
#include "math/philox.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

// Two uniform numbers in (0, 1) of a counter's four words, 53 bits each.
struct UniformPair {
  double first, second;
};

UniformPair Uniforms(uint64_t seed, uint64_t stream, uint64_t index) {
  const math::Philox4 counter{
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
  const math::PhiloxKey key{
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const math::Philox4 words = math::Philox4x32(counter, key);
  const auto uniform = [](uint32_t high, uint32_t low) {
    const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  };
  return {uniform(words.word[0], words.word[1]),
          uniform(words.word[2], words.word[3])};
}

double Element(const Init& init, uint64_t seed, uint64_t stream,
               uint64_t index) {
  switch (init.kind) {
    case Init::Kind::kZeros:
      return 0;
    case Init::Kind::kOnes:
      return 1;
    case Init::Kind::kUniform:
      return init.scale * (2 * Uniforms(seed, stream, index).first - 1);
    case Init::Kind::kNormal: {
      const UniformPair u = Uniforms(seed, stream, index);
      return init.scale * std::sqrt(-2 * std::log(u.first)) *
             std::cos(2 * std::numbers::pi * u.second);
    }
  }
  STOWAGE_CHECK(false);
}

template <typename T>
void Store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

void StoreAs(DType dtype, double value, std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return Store(at, static_cast<float>(value));
    case DType::kF64:
      return Store(at, value);
    case DType::kF16:
      return Store(at, math::FloatToHalf(static_cast<float>(value)));
    case DType::kBF16:
      return Store(at, math::FloatToBFloat16(static_cast<float>(value)));
    case DType::kI16:
      return Store(at, static_cast<int16_t>(value));
    case DType::kI32:
      return Store(at, static_cast<int32_t>(value));
    case DType::kI64:
      return Store(at, static_cast<int64_t>(value));
    case DType::kU8:
    case DType::kBool:
      return Store(at, static_cast<uint8_t>(value != 0));
  }
}

}  // namespace

std::vector<std::byte> InitialValues(const ValueInfo& value, uint64_t seed) {
  Fnv1a stream;
  stream.Update(value.name);
  std::vector<std::byte> bytes(static_cast<size_t>(value.type.bytes()));
  const Bytes element = SizeOf(value.type.dtype);
  for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
    StoreAs(
        value.type.dtype,
        Element(value.init, seed, stream.digest(), static_cast<uint64_t>(i)),
        bytes.data() + i * element);
  }
  return bytes;
}

}  // namespace stowage
