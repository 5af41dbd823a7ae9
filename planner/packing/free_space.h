#ifndef STOWAGE_PLANNER_PACKING_FREE_SPACE_H_
#define STOWAGE_PLANNER_PACKING_FREE_SPACE_H_

// Provides three data structures that find an offset for a buffer: Hold, Skyline and
// BestFit. Columns are intervals of time (planner/packing/part.h).
//
// Hold stores the occupied addresses of each column, and finds the lowest gap for a new buffer. It
// is a segment tree over columns. Each node of the tree is a range of columns with two sets of
// addresses: `across` contains the addresses of buffers that span the whole node but not its
// parent, and `within` contains the addresses of all buffers that are live anywhere in the node. A
// range of columns is the union of O(log n) nodes. A buffer in this range must avoid the `within`
// addresses of these nodes and the `across` addresses of their ancestors. Adjacent spans of
// addresses merge, so a thousand buffers without gaps between them are skipped in one step.
//
//   Hold hold(columns.count);
//   const Bytes at = hold.LowestFit(range, size, alignment);
//   hold.Occupy(range, at, at + size);
//
// Skyline stores the highest end of a buffer in each column. A new buffer is placed on top of all
// buffers in its columns, without a search for gaps below. If lifetimes nest, as most lifetimes of
// a training step do, and buffers with longer lifetimes are placed first, no gaps remain.
//
//   Skyline skyline(columns.count);
//   const Bytes at = AlignUp(skyline.Top(range), alignment);
//   skyline.Raise(range, at + size);
//
// BestFit is a simulated heap. Its user allocates and frees blocks in the order of time. Each block
// is allocated in the smallest gap that fits, among a limited number of gaps that are examined. All
// older blocks that overlap a new block in time are allocated when the new block is, so a gap
// that is free at this time remains free for the new block's lifetime. Gaps are stored in bins by
// size, 64 bins per power of two, with a bitmap of the bins in use, as in the two-level segregated
// fit of Masmano, Ripoll, Crespo and Real (2004). Allocating and freeing are O(1).
//
//   BestFit heap(floor);  // Addresses below `floor` are not used.
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

/// A set of addresses, stored as disjoint half-open spans in ascending order. Adjacent
/// spans are merged.
class SpanSet {
 public:
  bool empty() const { return spans_.empty(); }
  void Clear() { spans_.clear(); }

  /// Adds [begin, end). Requires `begin < end`. Returns the number of stored spans that it moved in
  /// memory, which is at most the number of spans at higher addresses.
  int64_t Add(Bytes begin, Bytes end);

  /// The free addresses [begin, end).
  struct Gap {
    Bytes begin;
    Bytes end;
    int64_t steps;  // The number of spans that LowestGap skipped.
  };

  /// Returns the lowest gap that begins at a multiple of `alignment` at or above `from` and
  /// holds `size` bytes. `from` must be a multiple of `alignment`. The gap above the last
  /// span ends at the largest representable number. Takes time in proportion to the logarithm of
  /// the number of spans, plus the number of skipped spans.
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
  /// Creates an empty hold over columns [0, columns).
  explicit Hold(int32_t columns);

  /// Returns the lowest multiple of `alignment` at which `size` bytes are free in all columns of
  /// `range`. Requires `size >= 1`, `alignment >= 1` and a range that is not empty.
  Bytes LowestFit(ColumnRange range, Bytes size, Bytes alignment);

  /// Marks the addresses [begin, end) as occupied in all columns of `range`. Only Clear frees
  /// addresses.
  void Occupy(ColumnRange range, Bytes begin, Bytes end);

  /// Empties the hold, but keeps its memory for reuse.
  void Clear();

  /// Returns the number of steps of all calls to LowestFit. This measure of effort is the
  /// same on every machine.
  int64_t work() const { return work_; }

  /// Returns work() plus the number of steps of all calls to Occupy: one step for each set of
  /// addresses that was changed, and one for every eight spans that were moved.
  int64_t effort() const { return work_ + occupying_; }

 private:
  struct Node {
    SpanSet across;
    SpanSet within;
  };

  // Calls `inside` for the nodes that `range` splits into, and `above` for all ancestors of
  // these nodes.
  template <typename Inside, typename Above>
  void VisitNodes(ColumnRange range, Inside inside, Above above) const;

  int32_t leaves_ = 1;       // A power of two.
  std::vector<Node> nodes_;  // A heap: the children of k are 2k and 2k + 1.
  int64_t work_ = 0;
  int64_t occupying_ = 0;
};

class Skyline {
 public:
  /// Creates a skyline of height 0 over columns [0, columns).
  explicit Skyline(int32_t columns);

  /// Returns the largest height of a column in `range`, which must not be empty. O(log n).
  Bytes Top(ColumnRange range) const;

  /// Sets the height of all columns in `range` to `top`, which must be at least Top(range).
  /// O(log n).
  void Raise(ColumnRange range, Bytes top);

 private:
  // A node of the tree over columns: the highest top inside the node, and the height that
  // the node has been raised to as a whole.
  struct Node {
    Bytes highest = 0;
    Bytes raised = 0;
  };
  uint32_t leaves_ = 1;      // A power of two.
  std::vector<Node> nodes_;  // A heap: the children of k are 2k and 2k + 1.
};

class BestFit {
 public:
  using Block = uint32_t;

  /// Creates a heap in which all addresses from `floor` on are free.
  explicit BestFit(Bytes floor);

  /// Allocates `size` bytes at a multiple of `alignment`. Both must be at least 1. The block is
  /// placed above all other blocks only if no gap that fits was found below. O(1).
  Block Take(Bytes size, Bytes alignment);

  /// Returns the first address of an allocated block.
  Bytes offset(Block block) const { return blocks_[block].begin; }

  /// Frees an allocated block. O(1).
  void Free(Block block);

 private:
  static constexpr Block kNone = UINT32_MAX;
  static constexpr int kBinBits = 6;
  static constexpr size_t kBinsPerPower = size_t{1} << kBinBits;
  /// Rows of bins, one word each.
  static constexpr size_t kRows = 64 - kBinBits;

  // A contiguous range of addresses: an allocated block or a gap.
  struct Stretch {
    Bytes begin = 0;
    Bytes end = 0;
    Block below = kNone;  // Neighbors by address.
    Block above = kNone;
    Block previous = kNone;  // Neighbors in the bin of a gap.
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

  Bytes top_;  // All addresses from here on are free, without a block.
  Block highest_ = kNone;
  std::vector<Stretch> blocks_;
  std::vector<Block> unused_;  // Indices of blocks to reuse.
  std::vector<Block> bins_;    // The first gap in each bin.
  std::array<uint64_t, kRows> filled_ = {};
};

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_FREE_SPACE_H_
