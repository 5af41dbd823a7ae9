#ifndef STOWAGE_GPU_KERNELS_MATMUL_H_
#define STOWAGE_GPU_KERNELS_MATMUL_H_

// Provides the workspace size of matmuls, and the dequantization of weights for matmuls.
//
// The matmul library chooses its algorithm within the workspace limit when a program is bound. The
// limit is fixed when the program is planned, possibly without a device, so it depends only on the
// size of the result. It is at most 32 MiB, which the library recommends for its fastest algorithms
// on large matmuls. The library divides small matmuls along k, and stores partial results in f32 in
// the workspace. The limit is the size of eight partial results, which is enough and is small
// compared with the arena.
//
//   MatMulWorkspace(64 * 64) == 131072

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "gpu/queue.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// Returns the workspace limit in bytes, which is a multiple of 256. `result_elements` is the
/// number of elements of all results of a call together.
constexpr Bytes MatMulWorkspace(int64_t result_elements) {
  constexpr Bytes kMax = Bytes{32} << 20;
  constexpr int64_t kSplits = 8;
  constexpr Bytes kF32 = 4;
  const int64_t elements = std::min(result_elements, kMax);
  return std::min(kMax, AlignUp(kSplits * kF32 * elements, 256));
}

/// Enqueues the matmul of the first two operands of a launch, transposed according to its
/// attributes transpose_a and transpose_b. The matmul is stored in result 0.
void EnqueueProduct(const Launch& launch, Queue& queue);

// Quantized weights are stored in rows of blocks, as in their files (math/weight_blocks.h). A
// panel, which is a range of rows, is dequantized at a time. It is stored in the workspace, in the
// type of the matmul.
//
//   ForPanels(w.rows, w.columns, [&](int64_t first, int64_t count) {
//     EnqueueNumbers(w, first, count, dtype, panel, queue);
//     ...
//   });

/// The maximum number of elements in a panel, which is 8 MiB of bf16. A panel of one row may have
/// more.
inline constexpr int64_t kPanelNumbers = int64_t{1} << 22;

/// Returns the maximum number of rows in a panel of a (rows, columns) matrix.
constexpr int64_t PanelRows(int64_t rows, int64_t columns) {
  return std::min(rows, std::max(int64_t{1}, kPanelNumbers / columns));
}

/// Returns the size of a panel in bytes, which is a multiple of 256.
constexpr Bytes PanelBytes(int64_t rows, int64_t columns, DType dtype) {
  return AlignUp(PanelRows(rows, columns) * columns * SizeOf(dtype), 256);
}

/// Calls `f(first_row, count)` for each panel of a (rows, columns) matrix, in order.
template <typename F>
void ForPanels(int64_t rows, int64_t columns, F&& f) {
  const int64_t most = PanelRows(rows, columns);
  for (int64_t first = 0; first < rows; first += most) {
    f(first, std::min(most, rows - first));
  }
}

/// Enqueues a kernel that dequantizes rows [first, first + count) of `w` to contiguous elements of
/// `dtype` at `to`. `dtype` must be f32, f16 or bf16.
void EnqueueNumbers(const BlockMatrix& w, int64_t first, int64_t count,
                    DType dtype, std::byte* to, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_MATMUL_H_
