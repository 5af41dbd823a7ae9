#include "planner/packing/part.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/packing/greedy.h"

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

bool IsLasting(const Part& part, const Item& item) {
  return item.range.begin == 0 && item.range.end == part.columns;
}

bool WastesLess(const Item& a, const Item& b) {
  if (a.alignment != b.alignment) return a.alignment > b.alignment;
  return a.size % a.alignment == 0 && b.size % b.alignment != 0;
}

namespace {

// How often parts are divided again at most.
constexpr int kDeepest = 32;

// Takes parts apart where it can, and packs equal ones once.
class Divider {
 public:
  Divider(Bytes target, int64_t work, Deadline deadline)
      : target_(target), work_(work), deadline_(deadline) {}

  PartPacking Pack(const Part& part) const { return Pack(part, work_, 0); }

 private:
  PartPacking Pack(const Part& part, int64_t work, int depth) const {
    if (depth < kDeepest) {
      if (std::optional<PartPacking> packing =
              PackStretches(part, work, depth)) {
        return std::move(*packing);
      }
    }
    return PackPart(part, target_, work, deadline_);
  }

  // Where nothing crosses from one column to the next but what lasts: the ends
  // of the stretches between. One when nothing can be divided.
  static std::vector<int32_t> FindStretches(const Part& part) {
    std::vector<int32_t> crossing(static_cast<size_t>(part.columns) + 1, 0);
    for (const Item& item : part.items) {
      if (IsLasting(part, item)) continue;
      ++crossing[static_cast<size_t>(item.range.begin) + 1];
      --crossing[static_cast<size_t>(item.range.end)];
    }
    std::vector<int32_t> ends;
    int32_t open = 0;
    for (int32_t c = 1; c <= part.columns; ++c) {
      open += crossing[static_cast<size_t>(c)];
      if (open == 0 || c == part.columns) ends.push_back(c);
    }
    return ends;
  }

  // Nothing when something is fixed, or all hangs together.
  std::optional<PartPacking> PackStretches(const Part& part, int64_t work,
                                           int depth) const {
    for (const Item& item : part.items) {
      if (item.offset != Item::kFree) return std::nullopt;
    }
    const std::vector<int32_t> ends = FindStretches(part);
    if (ends.size() < 2) return std::nullopt;

    PartPacking packing;
    packing.offsets.resize(part.items.size());
    packing.order = "stack";
    packing.height = StackLasting(part, &packing.offsets);
    std::vector<Part> stretches(ends.size());
    std::vector<std::vector<size_t>> indices(ends.size());
    for (size_t s = 0; s < ends.size(); ++s) {
      stretches[s].columns = ends[s] - (s == 0 ? 0 : ends[s - 1]);
      stretches[s].floor = packing.height;
    }
    for (size_t k = 0; k < part.items.size(); ++k) {
      Item item = part.items[k];
      if (IsLasting(part, item)) continue;
      const auto s = static_cast<size_t>(
          std::upper_bound(ends.begin(), ends.end(), item.range.begin) -
          ends.begin());
      const int32_t first = s == 0 ? 0 : ends[s - 1];
      item.range = {item.range.begin - first, item.range.end - first};
      stretches[s].items.push_back(item);
      indices[s].push_back(k);
    }

    const std::vector<size_t> twins = FindTwins(stretches);
    size_t distinct = 0;
    for (size_t s = 0; s < stretches.size(); ++s) {
      if (twins[s] == s) distinct += stretches[s].items.size();
    }
    for (size_t s = 0; s < stretches.size(); ++s) {
      if (twins[s] != s) {  // packed before
        for (size_t k = 0; k < indices[s].size(); ++k) {
          packing.offsets[indices[s][k]] =
              packing.offsets[indices[twins[s]][k]];
        }
        continue;
      }
      if (indices[s].empty()) continue;
      const double share = static_cast<double>(indices[s].size()) /
                           static_cast<double>(distinct);
      PartPacking own = Pack(
          stretches[s], static_cast<int64_t>(share * static_cast<double>(work)),
          depth + 1);
      for (size_t k = 0; k < indices[s].size(); ++k) {
        packing.offsets[indices[s][k]] = own.offsets[k];
      }
      if (own.height > packing.height) {
        packing.height = own.height;
        packing.order = std::move(own.order);
      }
    }
    return packing;
  }

  // Stacks what lasts on the floor; returns the floor of the rest.
  static Bytes StackLasting(const Part& part, std::vector<Bytes>* offsets) {
    std::vector<size_t> lasting;
    for (size_t k = 0; k < part.items.size(); ++k) {
      if (IsLasting(part, part.items[k])) lasting.push_back(k);
    }
    std::stable_sort(lasting.begin(), lasting.end(), [&](size_t i, size_t j) {
      return WastesLess(part.items[i], part.items[j]);
    });
    Bytes floor = part.floor;
    for (const size_t k : lasting) {
      (*offsets)[k] = AlignUp(floor, part.items[k].alignment);
      floor = (*offsets)[k] + part.items[k].size;
    }
    return floor;
  }

  // Of each part, the first that is equal to it: the same items in the same
  // columns.
  static std::vector<size_t> FindTwins(const std::vector<Part>& parts) {
    std::unordered_map<uint64_t, std::vector<size_t>> firsts;  // by hash
    std::vector<size_t> twins;
    for (size_t p = 0; p < parts.size(); ++p) {
      std::vector<size_t>& candidates = firsts[HashOf(parts[p])];
      const auto twin = std::find_if(
          candidates.begin(), candidates.end(),
          [&](size_t other) { return AreEqual(parts[p], parts[other]); });
      twins.push_back(twin == candidates.end() ? p : *twin);
      if (twin == candidates.end()) candidates.push_back(p);
    }
    return twins;
  }

  static uint64_t HashOf(const Part& part) {
    uint64_t hash = part.items.size();
    const auto add = [&](int64_t value) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    };
    for (const Item& item : part.items) {
      add(item.range.begin);
      add(item.range.end);
      add(item.size);
      add(item.alignment);
    }
    return hash;
  }

  static bool AreEqual(const Part& a, const Part& b) {
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(),
                      b.items.end(), [](const Item& x, const Item& y) {
                        return x.range.begin == y.range.begin &&
                               x.range.end == y.range.end && x.size == y.size &&
                               x.alignment == y.alignment;
                      });
  }

  const Bytes target_;
  const int64_t work_;
  const Deadline deadline_;
};

}  // namespace

PartPacking PackDivided(const Part& part, Bytes target, int64_t work,
                        Deadline deadline) {
  return Divider(target, work, deadline).Pack(part);
}

Solution PackLinearly(const Problem& problem) {
  std::vector<size_t> fixed;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.offset && b.size > 0) fixed.push_back(i);
  }
  std::stable_sort(fixed.begin(), fixed.end(), [&](size_t a, size_t b) {
    return *problem.buffers[a].offset < *problem.buffers[b].offset;
  });

  Solution solution;
  Bytes top = 0;    // all below it is taken or left behind
  size_t next = 0;  // the first fixed buffer not yet below `top`
  for (const Buffer& b : problem.buffers) {
    Bytes offset = b.offset.value_or(0);
    if (!b.offset && b.size > 0) {
      offset = AlignUp(top, b.alignment);
      for (; next < fixed.size(); ++next) {
        const Buffer& obstacle = problem.buffers[fixed[next]];
        if (offset + b.size <= *obstacle.offset) break;
        offset = std::max(
            offset, AlignUp(*obstacle.offset + obstacle.size, b.alignment));
      }
      top = offset + b.size;
    }
    solution.offsets.push_back(offset);
    solution.height = std::max(solution.height, offset + b.size);
  }
  return solution;
}

}  // namespace stowage::packing
