#ifndef STOWAGE_GPU_TENSOR_MAP_H_
#define STOWAGE_GPU_TENSOR_MAP_H_

// What a device's tensor memory accelerator (TMA) is told of an array in global memory: where it
// begins, how far its elements are apart along each dimension, and which box of them one
// copy takes to shared memory. The host describes it, the driver encodes it in 128 bytes
// that only the device reads, and a kernel is given those among its params.
//
//   // Rows of 64 elements of 16 bits, 4,096 bytes apart; 128 of them a copy.
//   const TensorMapSpec spec = {.data = q,
//                               .element_bytes = 2,
//                               .rank = 2,
//                               .sizes = {64, rows},
//                               .steps = {2, 4096},
//                               .box = {64, 128},
//                               .swizzle = 128};
//
// What a box has beyond the array's sizes, at either end, arrives as zeros.

#include <array>
#include <cstddef>
#include <cstdint>

namespace stowage::gpu {

inline constexpr size_t kMaxTensorMapDims = 5;

/// An array and a box of it. Dimensions are the innermost first; entries from `rank` on
/// are 0. What the PTX ISA wants of it: `data` at a multiple of 16 bytes; each size from
/// 1 to 2^32; steps[0] = element_bytes, each further step a multiple of 16 below 2^40,
/// whatever the order of steps; each side of the box from 1 to 256; box[0] *
/// element_bytes a multiple of 16, and no more than `swizzle` where that is not 0.
struct TensorMapSpec {
  const void* data = nullptr;
  int element_bytes = 0;                              // 2
  int rank = 0;                                       // 1 to kMaxTensorMapDims
  std::array<int64_t, kMaxTensorMapDims> sizes = {};  // elements
  std::array<int64_t, kMaxTensorMapDims> steps = {};  // bytes
  std::array<int, kMaxTensorMapDims> box = {};        // elements
  /// Bytes of a row of the box in shared memory whose 16-byte chunks are exchanged: 32,
  /// 64 or 128; 0 for none.
  int swizzle = 0;

  bool operator==(const TensorMapSpec&) const = default;
};

/// What the driver makes of a TensorMapSpec.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> words = {};
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_TENSOR_MAP_H_
