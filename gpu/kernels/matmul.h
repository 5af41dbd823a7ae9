#ifndef STOWAGE_GPU_KERNELS_MATMUL_H_
#define STOWAGE_GPU_KERNELS_MATMUL_H_

// Provides the workspace size of matmuls, and panels of quantized weights.
//
// The matmul library chooses its algorithm within the workspace limit when a program is bound. The
// limit is fixed when the program is planned, possibly without a device, so it depends only on the
// size of the result. The maximum is 32 MiB, which the library recommends for its fastest
// algorithms on large matmuls. The library splits small matmuls along k into partial results in
// f32. Eight partial results are enough, and keep workspaces in proportion to small arenas.
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

/// Returns the workspace limit in bytes, a multiple of 256. It applies to all results of a call
/// together.
constexpr Bytes MatMulWorkspace(int64_t result_elements) {
  constexpr Bytes kMax = Bytes{32} << 20;
  constexpr int64_t kSplits = 8;
  constexpr Bytes kF32 = 4;
  const int64_t elements = std::min(result_elements, kMax);
  return std::min(kMax, AlignUp(kSplits * kF32 * elements, 256));
}

/// Enqueues the matmul of the first two operands of a launch into result 0, according to its
/// attributes transpose_a and transpose_b.
void EnqueueProduct(const Launch& launch, Queue& queue);

// Quantized weights are stored in rows of blocks, as in their files. They are dequantized to the
// type of the matmul in the workspace, one panel of rows at a time.
//
//   ForPanels(w.rows, w.columns, [&](int64_t first, int64_t count) {
//     EnqueueNumbers(w, first, count, dtype, panel, queue);
//     ...
//   });

/// The maximum number of elements in a panel with several rows: 8 MiB of bf16.
inline constexpr int64_t kPanelNumbers = int64_t{1} << 22;

/// Returns the number of rows in a panel of a matrix.
constexpr int64_t PanelRows(int64_t rows, int64_t columns) {
  return std::min(rows, std::max(int64_t{1}, kPanelNumbers / columns));
}

/// Returns the bytes of a panel.
constexpr Bytes PanelBytes(int64_t rows, int64_t columns, DType dtype) {
  return AlignUp(PanelRows(rows, columns) * columns * SizeOf(dtype), 256);
}

/// Calls `f(first_row, rows)` for each panel of a matrix.
template <typename F>
void ForPanels(int64_t rows, int64_t columns, F&& f) {
  const int64_t most = PanelRows(rows, columns);
  for (int64_t first = 0; first < rows; first += most) {
    f(first, std::min(most, rows - first));
  }
}

/// Enqueues a kernel that dequantizes rows [first, first + count) of `w` to `to`, contiguously.
/// `dtype` must be f32, f16 or bf16.
void EnqueueNumbers(const BlockMatrix& w, int64_t first, int64_t count,
                    DType dtype, std::byte* to, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_MATMUL_H_
