#ifndef STOWAGE_PLANNER_PACKING_FREE_SPACE_H_
#define STOWAGE_PLANNER_PACKING_FREE_SPACE_H_

// Three data structures that answer where a buffer fits: Hold, Skyline and BestFit.
//
// Hold knows the addresses that are taken in each column of time, and finds the lowest gap
// for a new buffer. It keeps no list of conflicts but a tree over time. A node of the tree
// is a range of columns with two sets of addresses: `across`, taken by buffers that span
// the whole node but not its parent, and `within`, taken by anything inside the node. A
// range of columns splits into O(log n) nodes; a buffer there must avoid the addresses
// within these nodes and those across their ancestors. Neighbouring spans merge, so a dense
// block of a thousand buffers is stepped over at once.
//
//   Hold hold(columns.count);
//   const Bytes at = hold.LowestFit(range, size, alignment);
//   hold.Occupy(range, at, at + size);
//
// Skyline keeps the highest end in each column and places buffers on top, without looking
// for gaps below. Lifetimes of a training step nest; placed longest first, they leave no
// gaps.
//
//   Skyline skyline(columns.count);
//   const Bytes at = AlignUp(skyline.Top(range), alignment);
//   skyline.Raise(range, at + size);
//
// BestFit is a simulated heap: blocks are taken and freed in the order of time, each from
// the tightest gap. All buffers that share a time with a new one and were born before it are
// live at its birth, so a gap that is free then stays free for it. Gaps are kept by size in
// bins, 64 to each power of two, with a bitmap of the bins in use, as in the two-level
// segregated fit of Masmano, Ripoll, Crespo and Real (2004). Taking and freeing are O(1).
//
//   BestFit heap(floor);
//   const BestFit::Block block = heap.Take(size, alignment);
//   heap.offset(block);
//   heap.Free(block);

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/part.h"

namespace stowage::packing {

/// A set of addresses: disjoint half-open spans in ascending order, no two of
/// which touch.
class SpanSet {
 public:
  bool empty() const { return spans_.empty(); }
  void Clear() { spans_.clear(); }

  /// Adds [begin, end), begin < end. Returns how many spans it had to move:
  /// all above, at worst.
  int64_t Add(Bytes begin, Bytes end);

  /// Free addresses, [begin, end).
  struct Gap {
    Bytes begin;
    Bytes end;
    int64_t steps;  // how many spans were stepped over to find it
  };

  /// The lowest gap that begins at a multiple of `alignment` at or above `from`
  /// (itself such a multiple) and holds `size` bytes. The gap above the last
  /// span ends at the largest number. O(log spans + spans stepped over).
  Gap LowestGap(Bytes from, Bytes size, Bytes alignment) const;

 private:
  struct Span {
    Bytes begin;
    Bytes end;
  };
  std::vector<Span> spans_;
};

class Hold {
 public:
  /// An empty hold over columns [0, columns).
  explicit Hold(int32_t columns);

  /// The lowest aligned offset where `size` >= 1 bytes are free in all of
  /// `range`, which is not empty.
  Bytes LowestFit(ColumnRange range, Bytes size, Bytes alignment);

  /// Takes [begin, end) in all of `range`. What is taken stays taken.
  void Occupy(ColumnRange range, Bytes begin, Bytes end);

  /// Empties the hold; keeps its memory for the next filling.
  void Clear();

  /// The steps of LowestFit so far: effort that is the same on every machine.
  int64_t work() const { return work_; }

  /// The work, and the steps of Occupy: one for each set of addresses, and one for every
  /// eight spans moved.
  int64_t effort() const { return work_ + occupying_; }

 private:
  struct Node {
    SpanSet across;
    SpanSet within;
  };

  // Calls `inside` for the nodes that `range` splits into, `above` for all
  // nodes above these.
  template <typename Inside, typename Above>
  void VisitNodes(ColumnRange range, Inside inside, Above above) const;

  int32_t leaves_ = 1;       // a power of two
  std::vector<Node> nodes_;  // a heap: the children of k are 2k and 2k + 1
  int64_t work_ = 0;
  int64_t occupying_ = 0;
};

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

  /// Takes `size` >= 1 bytes at a multiple of `alignment` >= 1, above all blocks only if
  /// no gap between them fits. O(1).
  Block Take(Bytes size, Bytes alignment);

  /// The first address of a block that is taken.
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

#endif  // STOWAGE_PLANNER_PACKING_FREE_SPACE_H_
