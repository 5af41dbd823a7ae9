#ifndef STOWAGE_GPU_TENSOR_MAP_H_
#define STOWAGE_GPU_TENSOR_MAP_H_

// Declares tensor maps, which describe arrays in global memory to the tensor memory accelerator
// (TMA). A tensor map contains the address, sizes and strides of an array, and the sizes of the
// box, which is the range of elements that one copy transfers to shared memory. The host describes
// the array in a TensorMapSpec. The driver encodes it as a TensorMap, in 128 bytes whose format is
// not public. A kernel receives the TensorMap in its params.
//
//   // Rows of 64 16-bit elements, 4,096 bytes apart. A copy transfers 128 rows.
//   const TensorMapSpec spec = {.data = q,
//                               .element_bytes = 2,
//                               .rank = 2,
//                               .sizes = {64, rows},
//                               .steps = {2, 4096},
//                               .box = {64, 128},
//                               .swizzle = 128};
//
// Elements of a box that are outside the array are copied as zeros.

#include <array>
#include <cstddef>
#include <cstdint>

namespace stowage::gpu {

inline constexpr size_t kMaxTensorMapDims = 5;

/// An array, and the sizes of a box. The innermost dimension comes first, and entries of the arrays
/// beyond the first `rank` must be zero. The PTX ISA requires the following. `data` must be aligned
/// to 16 bytes. Sizes must be in [1, 2^32]. `steps[0]` must be `element_bytes`, and further steps
/// must be multiples of 16 below 2^40, in any order. Sides of the box must be in [1, 256].
/// `box[0] * element_bytes` must be a multiple of 16, and at most `swizzle` unless `swizzle` is 0.
struct TensorMapSpec {
  const void* data = nullptr;
  int element_bytes = 0;                              // must be 2
  int rank = 0;                                       // 1 to kMaxTensorMapDims
  std::array<int64_t, kMaxTensorMapDims> sizes = {};  // elements
  std::array<int64_t, kMaxTensorMapDims> steps = {};  // bytes
  std::array<int, kMaxTensorMapDims> box = {};        // elements
  /// The swizzle of the box in shared memory, which permutes 16-byte chunks within each range of
  /// this number of bytes: 32, 64 or 128. 0 means no permutation.
  int swizzle = 0;

  bool operator==(const TensorMapSpec&) const = default;
};

/// The driver's encoding of a TensorMapSpec.
struct alignas(64) TensorMap {
  std::array<uint64_t, 16> words = {};
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_TENSOR_MAP_H_
