#ifndef STOWAGE_GPU_KERNELS_MATMUL_H_
#define STOWAGE_GPU_KERNELS_MATMUL_H_

// Matmuls: the workspace of a call, and panels of quantized weights.
//
// The matmul library chooses its algorithm under the workspace limit when a program is bound.
// The limit is fixed when the program is planned, perhaps without a device, so it depends on
// the result's size alone. 32 MiB is what the library recommends for its fastest algorithms
// on large matmuls. Small ones it splits along k, into partial results in f32; eight of them
// are enough, and keep workspaces in proportion to small arenas.
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

/// The limit in bytes, a multiple of 256, for all results of one call together.
constexpr Bytes MatMulWorkspace(int64_t result_elements) {
  constexpr Bytes kMax = Bytes{32} << 20;
  constexpr int64_t kSplits = 8;
  constexpr Bytes kF32 = 4;
  const int64_t elements = std::min(result_elements, kMax);
  return std::min(kMax, AlignUp(kSplits * kF32 * elements, 256));
}

/// Enqueues the matmul of a launch's first two operands, by its attributes transpose_a and
/// transpose_b, into result 0.
void EnqueueProduct(const Launch& launch, Queue& queue);

// Quantized weights, stored in rows of blocks as in their files, are dequantized a panel of
// rows at a time into the workspace, in the type of the matmul.
//
//   ForPanels(w.rows, w.columns, [&](int64_t first, int64_t count) {
//     EnqueueNumbers(w, first, count, dtype, panel, queue);
//     ...
//   });

/// The most numbers of a panel of several rows: 8 MiB of bf16.
inline constexpr int64_t kPanelNumbers = int64_t{1} << 22;

/// Rows of a panel of a matrix.
constexpr int64_t PanelRows(int64_t rows, int64_t columns) {
  return std::min(rows, std::max(int64_t{1}, kPanelNumbers / columns));
}

/// Bytes of a panel.
constexpr Bytes PanelBytes(int64_t rows, int64_t columns, DType dtype) {
  return AlignUp(PanelRows(rows, columns) * columns * SizeOf(dtype), 256);
}

/// Calls f(first row, rows) for each panel of a matrix.
template <typename F>
void ForPanels(int64_t rows, int64_t columns, F&& f) {
  const int64_t most = PanelRows(rows, columns);
  for (int64_t first = 0; first < rows; first += most) {
    f(first, std::min(most, rows - first));
  }
}

/// Dequantizes rows [first, first + count) of `w` to `dtype`, f32, f16 or bf16, contiguously.
void EnqueueNumbers(const BlockMatrix& w, int64_t first, int64_t count,
                    DType dtype, std::byte* to, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_MATMUL_H_
