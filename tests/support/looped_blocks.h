#ifndef STOWAGE_TESTS_SUPPORT_LOOPED_BLOCKS_H_
#define STOWAGE_TESTS_SUPPORT_LOOPED_BLOCKS_H_

// Builds a net of identical residual blocks, as a loop over stacked weights, in a branch, or as
// branches in a loop.
//
//   const Graph forward = MakeLoopedBlocks({.rows = 1024});

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// The control flow that contains the blocks. With kLoop, each block is an iteration of a loop.
/// With kBranch, the only block is the second body of a cond. That body is the one that runs, and
/// the first body has one layer fewer. With kBranchInLoop, each iteration of a loop contains that
/// cond.
enum class BlocksIn : uint8_t { kLoop, kBranch, kBranchInLoop };

struct LoopedBlocks {
  int64_t rows = 1024;
  int64_t blocks = 8;
  int64_t width = 16;  // columns of the value carried between blocks
  int64_t inner = 64;  // columns of the values inside a block
  int layers = 6;      // layers per block
  BlocksIn in = BlocksIn::kLoop;
};

/// Returns the forward graph, whose scalar output is "loss". A block applies `layers` layers
/// a = tanh(a W), which have `inner` columns and begin with a = h. It then returns h + a W, which
/// has `width` columns. The result of layer i is named "a<i>" in the body. The value whose mean is
/// the loss is named "a5" in the graph.
Graph MakeLoopedBlocks(const LoopedBlocks& options);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_LOOPED_BLOCKS_H_
