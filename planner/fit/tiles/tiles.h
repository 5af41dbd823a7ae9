#ifndef STOWAGE_PLANNER_FIT_TILES_TILES_H_
#define STOWAGE_PLANNER_FIT_TILES_TILES_H_

// Makes the tiles smaller in which a step computes its logits.
//
// The loss of a language model computes its logits in tiles of rows (linear_cross_entropy,
// ir/ops.h). The workspace for a tile is often the largest buffer of a step. For example, 256 rows
// of 151,936 tokens are 155 MB. Smaller tiles give the same results with less memory. However, each
// additional tile reads the weights, and reads and writes their gradient, another time.
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

/// The numbers of parts into which to divide each tile, in the order in which they are tried. 1
/// does not modify the tiles.
inline constexpr std::array<int64_t, 3> kTileParts = {1, 4, 16};

/// The minimum number of rows of a part. Tiles of no more rows are not divided. A matmul of fewer
/// rows does too little work for each weight that it reads.
inline constexpr int64_t kMinTileRows = 16;

struct Tiled {
  Graph graph;
  /// The largest number of rows of a divided tile. 0 means that no tile can be divided and that the
  /// graph is unmodified.
  int64_t rows = 0;
  /// The bytes of weights and of their gradients that are additionally read and written.
  Bytes extra_traffic = 0;
};

/// Returns `graph` with each tile of logits divided into `parts` parts, or fewer if they would have
/// fewer than kMinTileRows rows. Requires `parts >= 1`. Nodes keep their indices, and values keep
/// their names. Bodies are unmodified. Propagates errors of GraphBuilder, which indicate a bug.
/// Linear.
Result<Tiled> TileLogits(const Graph& graph, int64_t parts);

/// The cost of a byte of extra traffic, in operations. It corresponds to a processor of 100 GFLOP/s
/// with memory of 10 GB/s.
inline constexpr double kTileFlopsPerByte = 10;

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_TILES_TILES_H_
