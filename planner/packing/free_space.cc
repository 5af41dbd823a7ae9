#include "planner/packing/free_space.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/bytes.h"

namespace stowage::packing {

int64_t SpanSet::Add(Bytes begin, Bytes end) {
  // [first, last) are the spans that touch [begin, end).
  const auto first =
      std::lower_bound(spans_.begin(), spans_.end(), begin,
                       [](const Span& s, Bytes b) { return s.end < b; });
  auto last = first;
  for (; last != spans_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  const int64_t above = spans_.end() - last;
  if (first == last) {
    spans_.insert(first, {begin, end});
    return above;
  }
  *first = {begin, end};
  if (last - first == 1) return 0;
  spans_.erase(first + 1, last);
  return above;
}

SpanSet::Gap SpanSet::LowestGap(Bytes from, Bytes size, Bytes alignment) const {
  auto span =
      std::lower_bound(spans_.begin(), spans_.end(), from,
                       [](const Span& s, Bytes b) { return s.end <= b; });
  const auto first = span;
  for (; span != spans_.end() && span->begin < from + size; ++span) {
    from = AlignUp(span->end, alignment);
  }
  const Bytes end =
      span == spans_.end() ? std::numeric_limits<Bytes>::max() : span->begin;
  return {from, end, span - first};
}

Hold::Hold(int32_t columns) {
  while (leaves_ < columns) leaves_ *= 2;
  nodes_.resize(2 * static_cast<size_t>(leaves_));
}

template <typename Inside, typename Above>
void Hold::VisitNodes(ColumnRange range, Inside inside, Above above) const {
  const uint32_t begin = static_cast<uint32_t>(range.begin + leaves_);
  const uint32_t end = static_cast<uint32_t>(range.end + leaves_);
  // [left, right) are the nodes of this level not yet visited as inside;
  // `first` and `last` are the ancestors of the range's two outermost leaves.
  uint32_t left = begin;
  uint32_t right = end;
  for (int level = 0; (begin >> level) > 0; ++level) {
    const uint32_t first = begin >> level;
    const uint32_t last = (end - 1) >> level;
    const auto sticks_out = [&](uint32_t node) {
      return (node << level) < begin || ((node + 1) << level) > end;
    };
    if (sticks_out(first)) above(first);
    if (last != first && sticks_out(last)) above(last);
    if (left < right) {
      if (left & 1) inside(left++);
      if (right & 1) inside(--right);
      left /= 2;
      right /= 2;
    }
  }
}

Bytes Hold::LowestFit(ColumnRange range, Bytes size, Bytes alignment) {
  // The sets to avoid; each is known to be free in [at, free_until).
  struct Obstacle {
    const SpanSet* set;
    Bytes free_until;
  };
  std::array<Obstacle, 4 * 32> obstacles;  // two of each kind on every level
  size_t count = 0;
  const auto add = [&](const SpanSet& set) {
    if (!set.empty()) obstacles[count++] = {&set, 0};
  };
  VisitNodes(
      range, [&](uint32_t node) { add(nodes_[node].within); },
      [&](uint32_t node) { add(nodes_[node].across); });

  // Each set in turn moves the offset up to its next gap, until all agree.
  Bytes at = 0;
  size_t agreed = 0;
  for (size_t i = 0; agreed < count; i = i + 1 < count ? i + 1 : 0) {
    ++agreed;
    ++work_;
    if (at + size <= obstacles[i].free_until) continue;
    const SpanSet::Gap gap = obstacles[i].set->LowestGap(at, size, alignment);
    obstacles[i].free_until = gap.end;
    work_ += gap.steps;
    if (gap.begin == at) continue;
    at = gap.begin;
    agreed = 1;
  }
  return at;
}

void Hold::Occupy(ColumnRange range, Bytes begin, Bytes end) {
  const auto add = [&](SpanSet* set) {
    occupying_ += 1 + set->Add(begin, end) / 8;
  };
  VisitNodes(
      range,
      [&](uint32_t node) {
        add(&nodes_[node].across);
        add(&nodes_[node].within);
      },
      [&](uint32_t node) { add(&nodes_[node].within); });
}

void Hold::Clear() {
  for (Node& node : nodes_) {
    node.across.Clear();
    node.within.Clear();
  }
}

Skyline::Skyline(int32_t columns) {
  while (leaves_ < static_cast<uint32_t>(columns)) leaves_ *= 2;
  nodes_.resize(2 * static_cast<size_t>(leaves_));
}

Bytes Skyline::Top(ColumnRange range) const {
  const uint32_t begin = static_cast<uint32_t>(range.begin) + leaves_;
  const uint32_t end = static_cast<uint32_t>(range.end) + leaves_;
  Bytes top = 0;
  for (uint32_t left = begin, right = end; left < right;
       left /= 2, right /= 2) {
    if (left & 1) top = std::max(top, nodes_[left++].highest);
    if (right & 1) top = std::max(top, nodes_[--right].highest);
  }
  // Above both ends of the range; what is between lies under one of these.
  for (uint32_t node = begin / 2; node > 0; node /= 2) {
    top = std::max(top, nodes_[node].raised);
  }
  for (uint32_t node = (end - 1) / 2; node > 0; node /= 2) {
    top = std::max(top, nodes_[node].raised);
  }
  return top;
}

void Skyline::Raise(ColumnRange range, Bytes top) {
  const uint32_t begin = static_cast<uint32_t>(range.begin) + leaves_;
  const uint32_t end = static_cast<uint32_t>(range.end) + leaves_;
  for (uint32_t left = begin, right = end; left < right;
       left /= 2, right /= 2) {
    if (left & 1) nodes_[left++] = {top, top};
    if (right & 1) nodes_[--right] = {top, top};
  }
  for (uint32_t node = begin / 2; node > 0; node /= 2) {
    nodes_[node].highest = std::max(nodes_[node].highest, top);
  }
  for (uint32_t node = (end - 1) / 2; node > 0; node /= 2) {
    nodes_[node].highest = std::max(nodes_[node].highest, top);
  }
}

namespace {

// How many gaps are looked at for one that is tight and whose beginning suits the
// alignment. After that the first gap is taken that surely has room for padding.
constexpr int kLooks = 32;

// How many gaps of one bin are looked at; they differ by little.
constexpr int kLooksPerBin = 8;

}  // namespace

BestFit::BestFit(Bytes floor)
    : top_(floor), bins_(kRows * kBinsPerPower, kNone) {}

// Sizes below 64 have a bin each; from there on the six bits that follow the
// first one count.
size_t BestFit::BinOf(Bytes size) {
  const auto bits = static_cast<uint64_t>(size);
  if (bits < kBinsPerPower) return static_cast<size_t>(bits);
  const int shift = std::bit_width(bits) - 1 - kBinBits;
  return static_cast<size_t>(shift) * kBinsPerPower +
         static_cast<size_t>(bits >> shift);
}

// The first bin from `bin` on that has a gap, or the number of bins.
size_t BestFit::NextBin(size_t bin) const {
  size_t row = bin / kBinsPerPower;
  if (row >= kRows) return bins_.size();
  uint64_t bins = filled_[row] >> bin % kBinsPerPower << bin % kBinsPerPower;
  while (bins == 0) {
    if (++row == kRows) return bins_.size();
    bins = filled_[row];
  }
  return row * kBinsPerPower + static_cast<size_t>(std::countr_zero(bins));
}

BestFit::Block BestFit::FindGap(Bytes size, Bytes alignment) const {
  // Every gap of this bin and those that follow holds the buffer, padding and
  // all.
  const size_t surely = BinOf(size + (alignment - 1)) + 1;
  int looks = 0;
  for (size_t bin = NextBin(BinOf(size)); bin < bins_.size();
       bin = NextBin(bin + 1)) {
    if (looks >= kLooks && bin < surely) bin = NextBin(surely);
    if (bin == bins_.size()) break;
    Block tightest = kNone;
    int looks_here = 0;
    for (Block gap = bins_[bin]; gap != kNone && looks_here < kLooksPerBin;
         gap = blocks_[gap].next, ++looks_here) {
      const Stretch& g = blocks_[gap];
      if (g.end - g.begin < size) continue;
      if (AlignUp(g.begin, alignment) > g.end - size) continue;
      if (tightest == kNone ||
          g.end - g.begin < blocks_[tightest].end - blocks_[tightest].begin) {
        tightest = gap;
      }
    }
    if (tightest != kNone) return tightest;
    looks += looks_here;
  }
  return kNone;
}

BestFit::Block BestFit::Take(Bytes size, Bytes alignment) {
  const Block gap = FindGap(size, alignment);
  if (gap == kNone) {
    const Bytes begin = AlignUp(top_, alignment);
    if (begin > top_) AddGap(NewBlock(top_, begin, highest_, kNone));
    top_ = begin + size;
    return NewBlock(begin, top_, highest_, kNone);
  }
  RemoveGap(gap);
  const Bytes gap_begin = blocks_[gap].begin;
  const Bytes gap_end = blocks_[gap].end;
  const Bytes begin = AlignUp(gap_begin, alignment);
  const Bytes end = begin + size;
  blocks_[gap].begin = begin;
  blocks_[gap].end = end;
  if (begin > gap_begin) {
    AddGap(NewBlock(gap_begin, begin, blocks_[gap].below, gap));
  }
  if (end < gap_end) {
    AddGap(NewBlock(end, gap_end, gap, blocks_[gap].above));
  }
  return gap;
}

void BestFit::Free(Block block) {
  const Block below = blocks_[block].below;
  if (below != kNone && blocks_[below].is_gap) {
    RemoveGap(below);
    Merge(below, block);
    block = below;
  }
  const Block above = blocks_[block].above;
  if (above == kNone) {
    top_ = blocks_[block].begin;
    Forget(block);
    return;
  }
  if (blocks_[above].is_gap) {
    RemoveGap(above);
    Merge(block, above);
  }
  AddGap(block);
}

BestFit::Block BestFit::NewBlock(Bytes begin, Bytes end, Block below,
                                 Block above) {
  Block block = static_cast<Block>(blocks_.size());
  if (unused_.empty()) {
    blocks_.emplace_back();
  } else {
    block = unused_.back();
    unused_.pop_back();
  }
  blocks_[block] = {.begin = begin, .end = end, .below = below, .above = above};
  if (below != kNone) blocks_[below].above = block;
  if (above != kNone) {
    blocks_[above].below = block;
  } else {
    highest_ = block;
  }
  return block;
}

void BestFit::AddGap(Block block) {
  Stretch& gap = blocks_[block];
  const size_t bin = BinOf(gap.end - gap.begin);
  gap.is_gap = true;
  gap.previous = kNone;
  gap.next = bins_[bin];
  if (gap.next != kNone) blocks_[gap.next].previous = block;
  bins_[bin] = block;
  filled_[bin / kBinsPerPower] |= uint64_t{1} << bin % kBinsPerPower;
}

void BestFit::RemoveGap(Block block) {
  Stretch& gap = blocks_[block];
  const size_t bin = BinOf(gap.end - gap.begin);
  gap.is_gap = false;
  if (gap.next != kNone) blocks_[gap.next].previous = gap.previous;
  if (gap.previous != kNone) {
    blocks_[gap.previous].next = gap.next;
    return;
  }
  bins_[bin] = gap.next;
  if (gap.next == kNone) {
    filled_[bin / kBinsPerPower] &= ~(uint64_t{1} << bin % kBinsPerPower);
  }
}

// `above` becomes part of `block`, which lies below it.
void BestFit::Merge(Block block, Block above) {
  blocks_[block].end = blocks_[above].end;
  Forget(above);
}

void BestFit::Forget(Block block) {
  const Block below = blocks_[block].below;
  const Block above = blocks_[block].above;
  if (below != kNone) blocks_[below].above = above;
  if (above != kNone) {
    blocks_[above].below = below;
  } else {
    highest_ = below;
  }
  unused_.push_back(block);
}

}  // namespace stowage::packing
