#ifndef STOWAGE_AUTODIFF_SHARD_WEIGHTS_H_
#define STOWAGE_AUTODIFF_SHARD_WEIGHTS_H_

// A graph whose params are split among ranks: each keeps its own block, all gather a
// param before it is read and drop it after.
//
// What a layer reads is gathered a layer ahead, in front of the node of the same phase
// that reads a matrix before it does: so it travels while that one computes
// (ir/exchanges.h), and takes the memory of two layers' weights. What was gathered serves
// readers that follow one another closely; those of another phase, or farther away, gather
// anew.
//
//   Result<Graph> step = ShardWeights(step_with_split_states, /*ranks=*/4);
//   Result<Graph> evaluation = ShardWeights(forward, 4);  // over the same blocks

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// How many nodes may lie between two readers of what was gathered once.
inline constexpr int kReadersApart = 16;

/// `graph` with the param "own:w" (OwnName), a block, in the place of each param "w".
/// In a training step, the updates of a param must be those of its own block, gathered
/// as its new content (Sharding::kGradients): there, a block's update becomes the
/// param's. Params that are not so updated, frozen ones among them, are split as well.
/// A block's Init is zeros: it is to be given its part of what the param starts from.
/// Error kUnsupported: the graph outputs a param, or updates one as a whole.
Result<Graph> ShardWeights(const Graph& graph, int64_t ranks);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SHARD_WEIGHTS_H_
