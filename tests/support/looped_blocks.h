#ifndef STOWAGE_TESTS_SUPPORT_LOOPED_BLOCKS_H_
#define STOWAGE_TESTS_SUPPORT_LOOPED_BLOCKS_H_

// A net of equal blocks, as one loop over stacked weights or in a branch.
//
//   const Graph forward = MakeLoopedBlocks({.rows = 1024});

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// The place of the blocks: iterations of a loop; one block in the second body of a cond, which
/// is the body that runs (the first has one layer less); or such conds in a loop.
enum class BlocksIn : uint8_t { kLoop, kBranch, kBranchInLoop };

struct LoopedBlocks {
  int64_t rows = 1024;
  int64_t blocks = 8;
  int64_t width = 16;  // of what is carried from block to block
  int64_t inner = 64;  // of what a block makes in between
  int layers = 6;      // of a block
  BlocksIn in = BlocksIn::kLoop;
};

/// The forward graph, with the scalar output "loss": each block carries on h plus what
/// `layers` times tanh(a W), of the width `inner`, and one more product make of it. What
/// layer i makes is called "a<i>" in the body; what the loss is the mean of is "a5", too.
Graph MakeLoopedBlocks(const LoopedBlocks& options);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_LOOPED_BLOCKS_H_
