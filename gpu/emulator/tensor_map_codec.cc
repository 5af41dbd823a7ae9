#include "gpu/emulator/tensor_map_codec.h"

#include <cstddef>
#include <cstdint>

namespace stowage::gpu::emulator {
namespace {

constexpr uint64_t kMapMark = 0x70616D726F736E74;

bool IsTaken(const TensorMapSpec& spec) {
  constexpr int64_t kMaxSize = int64_t{1} << 32;
  constexpr int64_t kStepEnd = int64_t{1} << 40;
  constexpr int kMaxSide = 256;
  const bool known_swizzle = spec.swizzle == 0 || spec.swizzle == 32 ||
                             spec.swizzle == 64 || spec.swizzle == 128;
  if (reinterpret_cast<uintptr_t>(spec.data) % 16 != 0 ||
      spec.data == nullptr || spec.element_bytes != 2 || spec.rank < 1 ||
      spec.rank > static_cast<int>(kMaxTensorMapDims) || !known_swizzle) {
    return false;
  }
  for (size_t i = 0; i < kMaxTensorMapDims; ++i) {
    if (i >= static_cast<size_t>(spec.rank)) {
      if (spec.sizes[i] != 0 || spec.steps[i] != 0 || spec.box[i] != 0)
        return false;
      continue;
    }
    const bool good_step = i == 0 ? spec.steps[0] == spec.element_bytes
                                  : spec.steps[i] >= 0 &&
                                        spec.steps[i] % 16 == 0 &&
                                        spec.steps[i] < kStepEnd;
    if (spec.sizes[i] < 1 || spec.sizes[i] > kMaxSize || !good_step ||
        spec.box[i] < 1 || spec.box[i] > kMaxSide) {
      return false;
    }
  }
  const int row = spec.box[0] * spec.element_bytes;
  return row % 16 == 0 && (spec.swizzle == 0 || row <= spec.swizzle);
}

}  // namespace

std::optional<TensorMap> EncodeTensorMap(const TensorMapSpec& spec) {
  if (!IsTaken(spec)) return std::nullopt;
  TensorMap map;
  map.words[0] = kMapMark;
  map.words[1] = reinterpret_cast<uintptr_t>(spec.data);
  map.words[2] = static_cast<uint64_t>(spec.element_bytes) |
                 static_cast<uint64_t>(spec.rank) << 8 |
                 static_cast<uint64_t>(spec.swizzle) << 16;
  for (size_t i = 0; i < kMaxTensorMapDims; ++i) {
    map.words[3 + i] = static_cast<uint64_t>(spec.sizes[i]);
    // A side of 256 does not fit 8 bits; a step takes 40.
    map.words[8 + i] = static_cast<uint64_t>(spec.steps[i]) |
                       static_cast<uint64_t>(spec.box[i]) << 48;
  }
  return map;
}

std::optional<TensorMapSpec> DecodeTensorMap(const TensorMap& map) {
  if (map.words[0] != kMapMark) return std::nullopt;
  TensorMapSpec spec;
  spec.data = reinterpret_cast<const void*>(map.words[1]);
  spec.element_bytes = static_cast<int>(map.words[2] & 0xFF);
  spec.rank = static_cast<int>(map.words[2] >> 8 & 0xFF);
  spec.swizzle = static_cast<int>(map.words[2] >> 16);
  for (size_t i = 0; i < kMaxTensorMapDims; ++i) {
    spec.sizes[i] = static_cast<int64_t>(map.words[3 + i]);
    spec.steps[i] =
        static_cast<int64_t>(map.words[8 + i] & ((uint64_t{1} << 48) - 1));
    spec.box[i] = static_cast<int>(map.words[8 + i] >> 48);
  }
  if (!IsTaken(spec)) return std::nullopt;
  return spec;
}

}  // namespace stowage::gpu::emulator
