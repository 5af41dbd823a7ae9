#ifndef STOWAGE_GPU_KERNELS_WEIGHT_BLOCKS_H_
#define STOWAGE_GPU_KERNELS_WEIGHT_BLOCKS_H_

// Matrices that lie as their files have them, in rows of blocks. A panel of rows at a
// time becomes numbers in the workspace, of the type that the products take.
//
//   ForPanels(w.rows, w.columns, [&](int64_t first, int64_t count) {
//     EnqueueNumbers(w, first, count, dtype, panel, queue);
//     ...
//   });

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "gpu/queue.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// Numbers of a panel, at most, where a row has fewer: 8 MiB of bf16.
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

/// Rows [first, first + count) of `w` as numbers of `dtype`, f32, f16 or bf16, one row
/// after the other.
void EnqueueNumbers(const BlockMatrix& w, int64_t first, int64_t count,
                    DType dtype, std::byte* to, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_WEIGHT_BLOCKS_H_
