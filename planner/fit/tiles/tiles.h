#ifndef STOWAGE_PLANNER_FIT_TILES_TILES_H_
#define STOWAGE_PLANNER_FIT_TILES_TILES_H_

// Divides the tiles of logits of a step.
//
// The loss of a language model computes its logits in tiles of rows (linear_cross_entropy,
// ir/ops.h), in a workspace that is often the largest buffer of a step: 256 rows of 151,936
// tokens are 155 MB. Smaller tiles compute the same in less memory, but read the weights, and
// write their gradient, once more for each tile.
//
//   linear_cross_entropy(x, w, labels) {chunk=256}     256 rows x 49,152 tokens: 50.3 MB
//   linear_cross_entropy(x, w, labels) {chunk=64}       64 rows x 49,152 tokens: 12.6 MB
//
//   for (const int64_t parts : kTileParts) {
//     Result<Tiled> tiled = TileLogits(step, parts);
//     if (tiled->rows > 0) ...
//   }

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage::fit {

/// The numbers of parts to try for each tile; 1 leaves them unmodified.
inline constexpr std::array<int64_t, 3> kTileParts = {1, 4, 16};

/// Tiles of this many rows are not divided further: matmuls of fewer rows do too little work for
/// each weight that they read.
inline constexpr int64_t kMinTileRows = 16;

struct Tiled {
  Graph graph;
  /// The most rows of logits at a time; 0: no tile can be divided, and the graph is unmodified.
  int64_t rows = 0;
  /// Additional bytes of weights and their gradients that are read and written.
  Bytes extra_traffic = 0;
};

/// `graph` with each tile of logits in `parts` parts, of at least kMinTileRows rows.
/// Nodes keep their places, values their names; bodies stay as they are. Linear.
Result<Tiled> TileLogits(const Graph& graph, int64_t parts);

/// The cost of a byte of extra traffic in operations: a processor of 100 GFLOP/s with memory of
/// 10 GB/s.
inline constexpr double kTileFlopsPerByte = 10;

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_TILES_TILES_H_
