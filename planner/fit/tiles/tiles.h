#ifndef STOWAGE_PLANNER_FIT_TILES_TILES_H_
#define STOWAGE_PLANNER_FIT_TILES_TILES_H_

// Runs parts of a step in smaller tiles of rows.
//
// The loss of a language model makes its logits by tiles of rows (linear_cross_entropy,
// ir/ops.h), in scratch that is often the largest buffer of a step: 256 rows of 151,936
// tokens are 155 MB. Smaller tiles need less, and compute the same; what they cost is that
// the matrix of tokens is read, and its gradient written, once more for each.
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

/// Into how many parts each tile of a step is divided: as they are first.
inline constexpr std::array<int64_t, 3> kTileParts = {1, 4, 16};

/// Rows of a tile that is not divided further: fewer leave a matrix product too little to
/// do for each weight that it reads.
inline constexpr int64_t kMinTileRows = 16;

struct Tiled {
  Graph graph;
  /// The most rows of logits that exist at a time; 0: no tile of the graph can be
  /// divided, and it is as it was.
  int64_t rows = 0;
  /// Bytes of weights and of their gradients that are read and written in addition.
  Bytes extra_traffic = 0;
};

/// `graph` with each tile of logits in `parts` parts, of at least kMinTileRows rows.
/// Nodes keep their places, values their names; bodies stay as they are. Linear.
Result<Tiled> TileLogits(const Graph& graph, int64_t parts);

/// What a byte of extra traffic is taken to cost, in operations: a processor that does 100
/// GFLOP/s beside memory of 10 GB/s.
inline constexpr double kTileFlopsPerByte = 10;

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_TILES_TILES_H_
