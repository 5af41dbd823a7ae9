#ifndef STOWAGE_GPU_TENSOR_MAP_H_
#define STOWAGE_GPU_TENSOR_MAP_H_

// Tensor maps: descriptions of an array in global memory for the tensor memory accelerator
// (TMA), with its address, sizes and steps, and the box that one copy transfers to shared
// memory. The host describes the array, the driver encodes the description in 128 bytes that
// only the device reads, and a kernel receives those among its params.
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
// Elements of a box outside the array arrive as zeros.

#include <array>
#include <cstddef>
#include <cstdint>

namespace stowage::gpu {

inline constexpr size_t kMaxTensorMapDims = 5;

/// An array and a box of it. Dimensions are the innermost first; entries from `rank` on are
/// 0. The PTX ISA requires: `data` aligned to 16 bytes; sizes from 1 to 2^32; steps[0] =
/// element_bytes, further steps multiples of 16 below 2^40, in any order; sides of the box
/// from 1 to 256; box[0] * element_bytes a multiple of 16, at most `swizzle` unless that is
/// 0.
struct TensorMapSpec {
  const void* data = nullptr;
  int element_bytes = 0;                              // 2
  int rank = 0;                                       // 1 to kMaxTensorMapDims
  std::array<int64_t, kMaxTensorMapDims> sizes = {};  // elements
  std::array<int64_t, kMaxTensorMapDims> steps = {};  // bytes
  std::array<int, kMaxTensorMapDims> box = {};        // elements
  /// Bytes of a row of the box in shared memory whose 16-byte chunks are permuted: 32, 64 or
  /// 128; 0 for no permutation.
  int swizzle = 0;

  bool operator==(const TensorMapSpec&) const = default;
};

/// The driver's encoding of a TensorMapSpec.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> words = {};
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_TENSOR_MAP_H_
