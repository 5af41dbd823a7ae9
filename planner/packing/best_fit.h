#ifndef STOWAGE_PLANNER_PACKING_BEST_FIT_H_
#define STOWAGE_PLANNER_PACKING_BEST_FIT_H_

// A heap that never is: blocks of addresses are taken and given back in the order
// of time, and each goes into the tightest gap there is. With lifetimes known, a
// sweep over births and deaths packs a problem of any shape in time that hardly
// depends on it: at a birth, whatever else will share a time with the newcomer and
// was born before is alive now, so what is free now stays free for it.
//
//   BestFit heap(floor);
//   const BestFit::Block block = heap.Take(size, alignment);
//   Use(heap.offset(block));
//   heap.Free(block);
//
// Gaps are kept by size in bins, 64 to each power of two, and a bitmap says which
// have any, as in the two-level segregated fit of Masmano, Ripoll, Crespo and Real
// (2004). So a gap is found in constant time, and is the tightest one to about a
// sixty-fourth of its size. Blocks know their neighbours in address, so what is
// freed merges in constant time too.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/part.h"

namespace stowage::packing {

// The top of what stands in each column of time. A buffer that is put on top of
// it all, as in a game where blocks only fall, finds its place in O(log n): no
// gap below is ever looked for. Wherever buffers nest, as those of a training
// step do, the longest-lived go first and nothing is lost by it.
//
//   Skyline skyline(columns.count);
//   const Bytes at = AlignUp(skyline.Top(range), alignment);
//   skyline.Raise(range, at + size);

class Skyline {
 public:
  /// Zero over columns [0, columns).
  explicit Skyline(int32_t columns);

  /// The highest top in `range`, which is not empty. O(log n).
  Bytes Top(ColumnRange range) const;

  /// Makes `top` the top in all of `range`; at least Top(range). O(log n).
  void Raise(ColumnRange range, Bytes top);

 private:
  // Of a node of the tree over columns: the highest top inside it, and what it
  // has been raised to as a whole.
  struct Node {
    Bytes highest = 0;
    Bytes raised = 0;
  };
  uint32_t leaves_ = 1;      // a power of two
  std::vector<Node> nodes_;  // a heap: the children of k are 2k and 2k + 1
};

class BestFit {
 public:
  using Block = uint32_t;

  /// Everything from `floor` up is free.
  explicit BestFit(Bytes floor);

  /// Takes `size` >= 1 bytes at a multiple of `alignment` >= 1. What lies above
  /// all blocks is taken only when no gap is found between them. O(1).
  Block Take(Bytes size, Bytes alignment);

  /// Where a block that is taken begins.
  Bytes offset(Block block) const { return blocks_[block].begin; }

  /// Gives back a block that is taken. O(1).
  void Free(Block block);

 private:
  static constexpr Block kNone = UINT32_MAX;
  static constexpr int kBinBits = 6;
  static constexpr size_t kBinsPerPower = size_t{1} << kBinBits;
  static constexpr size_t kRows = 64 - kBinBits;  // of bins, one word each

  // A stretch of addresses, taken or a gap.
  struct Stretch {
    Bytes begin = 0;
    Bytes end = 0;
    Block below = kNone;  // neighbours in address
    Block above = kNone;
    Block previous = kNone;  // neighbours in the bin of a gap
    Block next = kNone;
    bool is_gap = false;
  };

  static size_t BinOf(Bytes size);
  size_t NextBin(size_t bin) const;
  Block FindGap(Bytes size, Bytes alignment) const;
  Block NewBlock(Bytes begin, Bytes end, Block below, Block above);
  void AddGap(Block block);
  void RemoveGap(Block block);
  void Merge(Block block, Block above);
  void Forget(Block block);

  Bytes top_;  // all from here on is free, and no block
  Block highest_ = kNone;
  std::vector<Stretch> blocks_;
  std::vector<Block> unused_;  // indices of blocks that are no more
  std::vector<Block> bins_;    // the first gap of each
  std::array<uint64_t, kRows> filled_ = {};
};

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_BEST_FIT_H_
