#include "planner/columns.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace stowage {

Columns ComputeColumns(const Problem& problem) {
  const size_t count = problem.buffers.size();
  STOWAGE_CHECK(count <= std::numeric_limits<int32_t>::max());
  struct Event {
    Time time;
    uint32_t birth;  // 0 for a death: deaths come first at the same time
    uint32_t buffer;
  };
  std::vector<Event> events;
  events.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.size == 0) continue;
    events.push_back({b.lower, 1, static_cast<uint32_t>(i)});
    events.push_back({b.upper, 0, static_cast<uint32_t>(i)});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.birth < b.birth;
  });

  Columns columns;
  columns.ranges.resize(count);
  bool open = false;  // something was born since the last column closed
  for (const Event& event : events) {
    if (event.birth) {
      open = true;
      columns.ranges[event.buffer].begin = columns.count;
    } else {
      if (open) ++columns.count;
      open = false;
      columns.ranges[event.buffer].end = columns.count;
    }
  }
  return columns;
}

}  // namespace stowage
