#ifndef STOWAGE_GPU_EMULATOR_TENSOR_MAP_CODEC_H_
#define STOWAGE_GPU_EMULATOR_TENSOR_MAP_CODEC_H_

// A tensor map's 128 bytes as both oracles of kernels read them, the emulator and the
// interpreter of PTX: in the place of the driver's encoding, which is known to no one.
//
//   const std::optional<TensorMap> map = EncodeTensorMap(spec);
//   const std::optional<TensorMapSpec> same = DecodeTensorMap(*map);

#include <optional>

#include "gpu/tensor_map.h"

namespace stowage::gpu::emulator {

/// None where the driver would refuse it (gpu/tensor_map.h).
std::optional<TensorMap> EncodeTensorMap(const TensorMapSpec& spec);

/// None where EncodeTensorMap has not made it.
std::optional<TensorMapSpec> DecodeTensorMap(const TensorMap& map);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_TENSOR_MAP_CODEC_H_
