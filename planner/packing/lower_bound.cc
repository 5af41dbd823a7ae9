#include "planner/packing/lower_bound.h"

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"

namespace stowage::packing {

namespace {

// The largest sum of live sizes, and the first time at which it lives. `change`
// is what is born less what dies at each of the times, which ascend.
template <typename TimeOf>
void FindFullest(const std::vector<Bytes>& change, TimeOf time_of,
                 LowerBound* bound) {
  Bytes live = 0;
  for (size_t i = 0; i < change.size(); ++i) {
    live += change[i];
    if (live > bound->live) {
      bound->live = live;
      bound->time = time_of(i);
    }
  }
}

}  // namespace

LowerBound ComputeLowerBound(const Problem& problem) {
  LowerBound bound;
  if (problem.buffers.empty()) return bound;
  Time first = problem.buffers[0].lower;
  Time last = problem.buffers[0].upper;
  for (const Buffer& b : problem.buffers) {
    first = std::min(first, b.lower);
    last = std::max(last, b.upper);
  }
  bound.time = first;
  const size_t count = problem.buffers.size();
  // The difference of any two times fits an unsigned number.
  const uint64_t span =
      static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
  if (span <= 4 * static_cast<uint64_t>(count)) {
    std::vector<Bytes> change(static_cast<size_t>(span) + 1, 0);
    for (const Buffer& b : problem.buffers) {
      change[static_cast<size_t>(b.lower - first)] += b.size;
      change[static_cast<size_t>(b.upper - first)] -= b.size;
    }
    FindFullest(
        change, [&](size_t i) { return first + static_cast<Time>(i); }, &bound);
  } else {
    std::vector<Time> times;
    times.reserve(2 * count);
    for (const Buffer& b : problem.buffers) {
      times.push_back(b.lower);
      times.push_back(b.upper);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    std::vector<Bytes> change(times.size(), 0);
    const auto at = [&](Time time) -> Bytes& {
      return change[static_cast<size_t>(
          std::lower_bound(times.begin(), times.end(), time) - times.begin())];
    };
    for (const Buffer& b : problem.buffers) {
      at(b.lower) += b.size;
      at(b.upper) -= b.size;
    }
    FindFullest(
        change, [&](size_t i) { return times[i]; }, &bound);
  }
  bound.bytes = bound.live;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.offset && *b.offset + b.size > bound.bytes) {
      bound.bytes = *b.offset + b.size;
      bound.fixed = i;
    }
  }
  return bound;
}

std::vector<size_t> LiveAt(const Problem& problem, Time time) {
  std::vector<size_t> live;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.lower <= time && time < b.upper) live.push_back(i);
  }
  std::stable_sort(live.begin(), live.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].size > problem.buffers[b].size;
  });
  return live;
}

}  // namespace stowage::packing
