#include "planner/lower_bound.h"

#include <algorithm>

#include "base/bytes.h"

namespace stowage {

LowerBound ComputeLowerBound(const Problem& problem) {
  struct Change {
    Time time;
    Bytes bytes;  // positive at a birth, negative at a death
  };
  std::vector<Change> changes;
  changes.reserve(2 * problem.buffers.size());
  for (const Buffer& b : problem.buffers) {
    changes.push_back({b.lower, b.size});
    changes.push_back({b.upper, -b.size});
  }
  // Deaths come before births at the same time: lifetimes are half-open.
  std::sort(changes.begin(), changes.end(), [](Change a, Change b) {
    return a.time != b.time ? a.time < b.time : a.bytes < b.bytes;
  });

  LowerBound bound;
  if (!changes.empty()) bound.time = changes.front().time;
  Bytes live = 0;
  for (const Change& change : changes) {
    live += change.bytes;
    if (live > bound.live) {
      bound.live = live;
      bound.time = change.time;
    }
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

}  // namespace stowage
