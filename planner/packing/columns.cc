#include "planner/packing/columns.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace stowage::packing {

namespace {

// Whether anything is born, and whether anything dies, at one time; then the
// columns that such births and deaths mean.
struct Moment {
  bool births = false;
  bool deaths = false;
  int32_t column = 0;  // of its births; where the range of its deaths ends
};

// Deaths come first at the same time, so a column ends where something dies and
// something was born since the last one ended.
int32_t NumberColumns(std::vector<Moment>* moments) {
  int32_t count = 0;
  bool open = false;
  for (Moment& moment : *moments) {
    if (moment.deaths && open) {
      ++count;
      open = false;
    }
    open = open || moment.births;
    moment.column = count;
  }
  return count;
}

template <typename IndexOf>
Columns Compute(const Problem& problem, size_t moment_count, IndexOf index_of) {
  std::vector<Moment> moments(moment_count);
  for (const Buffer& b : problem.buffers) {
    if (b.size == 0) continue;
    moments[index_of(b.lower)].births = true;
    moments[index_of(b.upper)].deaths = true;
  }
  Columns columns;
  columns.count = NumberColumns(&moments);
  columns.ranges.resize(problem.buffers.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.size == 0) continue;
    columns.ranges[i] = {moments[index_of(b.lower)].column,
                         moments[index_of(b.upper)].column};
  }
  return columns;
}

}  // namespace

Columns ComputeColumns(const Problem& problem) {
  const size_t count = problem.buffers.size();
  STOWAGE_CHECK(count <= std::numeric_limits<int32_t>::max());
  if (count == 0) return {};
  Time first = problem.buffers[0].lower;
  Time last = problem.buffers[0].upper;
  for (const Buffer& b : problem.buffers) {
    first = std::min(first, b.lower);
    last = std::max(last, b.upper);
  }
  // The difference of any two times fits an unsigned number.
  const uint64_t span =
      static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
  if (span <= 4 * static_cast<uint64_t>(count)) {
    return Compute(problem, static_cast<size_t>(span) + 1, [&](Time time) {
      return static_cast<size_t>(time - first);
    });
  }
  std::vector<Time> times;
  times.reserve(2 * count);
  for (const Buffer& b : problem.buffers) {
    times.push_back(b.lower);
    times.push_back(b.upper);
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return Compute(problem, times.size(), [&](Time time) {
    return static_cast<size_t>(
        std::lower_bound(times.begin(), times.end(), time) - times.begin());
  });
}

}  // namespace stowage::packing
