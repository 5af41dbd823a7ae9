#ifndef STOWAGE_CPU_KERNELS_CHUNKS_H_
#define STOWAGE_CPU_KERNELS_CHUNKS_H_

// Divides work into chunks. The division depends only on shapes, so results are the same for any
// number of threads.
//
//   ParallelRanges(pool, rows, RowsPerChunk(columns),
//                  [&](int64_t begin, int64_t end) { ... });

#include <algorithm>
#include <cstdint>

#include "cpu/thread_pool.h"

namespace stowage::cpu {

/// The number of elements in a chunk of elementwise work. A chunk takes a few microseconds,
/// several times the cost of dispatching it to a thread.
inline constexpr int64_t kChunkElements = 16384;

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Returns the number of rows, of `columns` elements each, in a chunk.
constexpr int64_t RowsPerChunk(int64_t columns) {
  return std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, columns));
}

/// Divides the rows of a matrix into `count` chunks of `piece` rows, for kernels that sum every
/// column. The last chunk may be shorter. Each chunk has its own partial sums. There are at most 32
/// chunks, so that the partial sums are small compared with the matrix.
struct RowSumChunks {
  RowSumChunks(int64_t of_rows, int64_t of_columns)
      : columns(of_columns),
        rows(of_rows),
        piece(std::max(RowsPerChunk(columns), CeilDiv(rows, 32))),
        count(CeilDiv(rows, piece)) {}
  int64_t columns;
  int64_t rows;
  int64_t piece;
  int64_t count;
};

/// Returns the first row of range `part` if `rows` rows are divided into `parts` ranges. The first
/// `rows % parts` ranges have one row more than the others.
constexpr int64_t FirstRowOfPart(int64_t part, int64_t parts, int64_t rows) {
  return rows / parts * part + std::min(part, rows % parts);
}

/// Calls f(begin, end) for ranges of `piece` indices that cover [0, size). The last range may
/// be shorter.
template <typename F>
void ParallelRanges(ThreadPool& pool, int64_t size, int64_t piece, F&& f) {
  pool.ParallelFor(CeilDiv(size, piece), [&](int64_t chunk, int) {
    f(chunk * piece, std::min(size, (chunk + 1) * piece));
  });
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CHUNKS_H_
