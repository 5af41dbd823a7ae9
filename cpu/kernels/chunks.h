#ifndef STOWAGE_CPU_KERNELS_CHUNKS_H_
#define STOWAGE_CPU_KERNELS_CHUNKS_H_

// Cutting work into chunks by shapes alone, so that results are the same for
// any number of threads.
//
//   ParallelRanges(pool, rows, RowsPerChunk(columns),
//                  [&](int64_t begin, int64_t end) { ... });

#include <algorithm>
#include <cstdint>

#include "cpu/thread_pool.h"

namespace stowage::cpu {

/// Elements of a chunk of elementwise work: a few microseconds, several times the cost of
/// giving a chunk to a thread.
inline constexpr int64_t kChunkElements = 16384;

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows of `columns` elements per chunk.
constexpr int64_t RowsPerChunk(int64_t columns) {
  return std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, columns));
}

/// Chunks of rows, each with its own partial sums of every column: at most 32, so that the
/// sums stay small compared to the rows.
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

/// The first row of a part, if `rows` are divided evenly among `parts`.
constexpr int64_t FirstRowOfPart(int64_t part, int64_t parts, int64_t rows) {
  return rows / parts * part + std::min(part, rows % parts);
}

/// f(begin, end) over [0, size) in pieces of `piece`, the last one shorter.
template <typename F>
void ParallelRanges(ThreadPool& pool, int64_t size, int64_t piece, F&& f) {
  pool.ParallelFor(CeilDiv(size, piece), [&](int64_t chunk, int) {
    f(chunk * piece, std::min(size, (chunk + 1) * piece));
  });
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CHUNKS_H_
