#include "planner/packing/hold.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

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

}  // namespace stowage::packing
