#include "planner/packing/repack.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/packing/restarts.h"
#include "planner/packing/validate.h"

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

namespace {

constexpr double kSlack = 1.0 / 256;

// A stretch is worth packing when at most this share of the buffers lives in it
// alone, with this much work.
constexpr size_t kStretchShare = 4;
constexpr int64_t kStretchWork = 200'000;

bool LiveTogether(const Buffer& a, const Buffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

}  // namespace

Repacker::Repacker(Problem problem, Solution solution)
    : problem_(std::move(problem)), solution_(std::move(solution)) {
  problem_.capacity.reset();
  STOWAGE_CHECK(solution_.offsets.size() == problem_.buffers.size());
  bound_ = ComputeLowerBound(problem_).bytes;
  MeasureHeight();
  share_ = ShareAbove();
}

Bytes Repacker::HighestAllowed() const {
  return bound_ +
         static_cast<Bytes>(static_cast<double>(bound_) * (share_ + kSlack));
}

Result<RepackKind> Repacker::Change(size_t index, const Buffer& changed) {
  STOWAGE_CHECK(index < problem_.buffers.size());
  Buffer before = std::exchange(problem_.buffers[index], changed);
  if (Status status = CheckProblem(problem_); !status.ok()) {
    problem_.buffers[index] = std::move(before);
    return status.error();
  }
  Move(index);
  bound_ = ComputeLowerBound(problem_).bytes;
  if (solution_.height <= HighestAllowed()) return RepackKind::kMoved;
  if (PackStretch()) return RepackKind::kStretch;
  PackAll();
  return RepackKind::kAll;
}

// Finds new places for the changed buffer and for what it now lies on.
void Repacker::Move(size_t index) {
  const Buffer& changed = problem_.buffers[index];
  std::vector<bool> loose(problem_.buffers.size(), false);
  std::vector<size_t> to_place;
  if (changed.offset) {
    solution_.offsets[index] = *changed.offset;
    for (size_t i = 0; i < problem_.buffers.size(); ++i) {
      const Buffer& b = problem_.buffers[i];
      const Bytes at = solution_.offsets[i];
      if (i == index || b.size == 0 || !LiveTogether(b, changed)) continue;
      if (changed.size > 0 && at < *changed.offset + changed.size &&
          *changed.offset < at + b.size) {
        loose[i] = true;
        to_place.push_back(i);
      }
    }
  } else {
    loose[index] = true;
    to_place.push_back(index);
  }
  std::stable_sort(to_place.begin(), to_place.end(), [&](size_t a, size_t b) {
    return problem_.buffers[a].size > problem_.buffers[b].size;
  });
  for (const size_t i : to_place) {
    PlaceLowest(i, loose);
    loose[i] = false;
  }
  MeasureHeight();
}

// Gives a buffer the lowest gap between those that are not loose.
void Repacker::PlaceLowest(size_t index, const std::vector<bool>& loose) {
  const Buffer& placed = problem_.buffers[index];
  struct Taken {
    Bytes begin;
    Bytes end;
  };
  std::vector<Taken> taken;
  for (size_t i = 0; i < problem_.buffers.size(); ++i) {
    const Buffer& b = problem_.buffers[i];
    if (loose[i] || i == index || b.size == 0 || !LiveTogether(b, placed)) {
      continue;
    }
    taken.push_back({solution_.offsets[i], solution_.offsets[i] + b.size});
  }
  std::sort(taken.begin(), taken.end(),
            [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
  Bytes at = 0;
  for (const Taken& t : taken) {
    if (at + placed.size <= t.begin) break;
    at = std::max(at, AlignUp(t.end, placed.alignment));
  }
  solution_.offsets[index] = placed.size == 0 ? 0 : at;
}

void Repacker::MeasureHeight() {
  solution_.height = 0;
  for (size_t i = 0; i < problem_.buffers.size(); ++i) {
    solution_.height = std::max(
        solution_.height, solution_.offsets[i] + problem_.buffers[i].size);
  }
}

// Packs anew what lives only in the stretch of time of whatever ends above the
// allowed height. False, with nothing changed, when that does not lower it
// enough or is too much.
bool Repacker::PackStretch() {
  const Bytes allowed = HighestAllowed();
  bool any = false;
  Time begin = 0;
  Time end = 0;
  for (size_t i = 0; i < problem_.buffers.size(); ++i) {
    const Buffer& b = problem_.buffers[i];
    if (solution_.offsets[i] + b.size <= allowed) continue;
    begin = any ? std::min(begin, b.lower) : b.lower;
    end = any ? std::max(end, b.upper) : b.upper;
    any = true;
  }
  Problem inner;
  std::vector<size_t> indices;
  size_t inside = 0;
  for (size_t i = 0; i < problem_.buffers.size(); ++i) {
    const Buffer& b = problem_.buffers[i];
    if (b.size == 0 || b.lower >= end || b.upper <= begin) continue;
    const bool is_inside = b.lower >= begin && b.upper <= end;
    inside += is_inside;
    inner.buffers.push_back(
        {.id = "",
         .lower = std::max(b.lower, begin),
         .upper = std::min(b.upper, end),
         .size = b.size,
         .alignment = b.alignment,
         .offset = is_inside ? b.offset : solution_.offsets[i]});
    indices.push_back(i);
  }
  if (inside > problem_.buffers.size() / kStretchShare) return false;
  const GreedyPacking packing = PackGreedily(inner, allowed, kStretchWork);
  if (packing.solution.height > allowed) return false;
  for (size_t k = 0; k < indices.size(); ++k) {
    solution_.offsets[indices[k]] = packing.solution.offsets[k];
  }
  MeasureHeight();
  return true;
}

void Repacker::PackAll() {
  const Bytes allowed = HighestAllowed();
  const Bytes target = bound_ + static_cast<Bytes>(static_cast<double>(bound_) *
                                                   (share_ + kSlack / 2));
  GreedyPacking packing = PackGreedily(problem_, target);
  if (packing.solution.height < solution_.height) {
    solution_ = std::move(packing.solution);
  }
  if (solution_.height > allowed) share_ = ShareAbove();
}

double Repacker::ShareAbove() const {
  if (bound_ == 0) return 0;
  return static_cast<double>(solution_.height - bound_) /
         static_cast<double>(bound_);
}

}  // namespace stowage::packing
