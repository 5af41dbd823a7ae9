#include "formats/quantized.h"

#include <cstdint>

#include "base/check.h"
#include "math/weight_blocks.h"

namespace stowage {

void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to) {
  STOWAGE_CHECK(BytesOf(type, std::ssize(to)) == std::ssize(bytes));
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  float* numbers = to.data();
  float* const end = numbers + to.size();
  const auto put = [&numbers](int i, float number) { numbers[i] = number; };
  switch (type) {
#define STOWAGE_WEIGHT_TYPE(name, count, size)                   \
  case WeightType::k##name:                                      \
    for (; numbers != end; numbers += (count), from += (size)) { \
      math::name(from, put);                                     \
    }                                                            \
    return;
#include "ir/weight_types.def"
  }
}

}  // namespace stowage
