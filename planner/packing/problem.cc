#include "planner/packing/problem.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_set>

#include "base/bytes.h"
#include "base/strings.h"

namespace stowage::packing {
namespace {

Error Malformed(const Problem& problem, size_t index, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[pack] buffer ", BufferName(problem, index), " ", what)};
}

Status CheckBuffer(const Problem& problem, size_t index) {
  const Buffer& b = problem.buffers[index];
  if (b.upper <= b.lower) {
    return Malformed(problem, index,
                     StrCat("has the lifetime [", b.lower, ", ", b.upper,
                            "); upper must be above lower"));
  }
  if (b.size < 0) {
    return Malformed(
        problem, index,
        StrCat("has the size ", b.size, "; a size must be 0 or more"));
  }
  if (b.alignment < 1) {
    return Malformed(problem, index,
                     StrCat("has the alignment ", b.alignment,
                            "; an alignment must be 1 or more"));
  }
  if (b.offset && *b.offset < 0) {
    return Malformed(problem, index,
                     StrCat("is fixed at offset ", *b.offset,
                            "; an offset must be 0 or more"));
  }
  if (b.offset && *b.offset % b.alignment != 0) {
    return Malformed(
        problem, index,
        StrCat("is fixed at offset ", *b.offset,
               ", which is no multiple of its alignment ", b.alignment));
  }
  return {};
}

// Whatever order the buffers are stacked in, on top of the highest fixed one,
// with the most padding each can need, the sum must fit.
Status CheckSums(const Problem& problem) {
  Bytes base = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (!b.offset) continue;
    std::optional<Bytes> end = CheckedAdd(*b.offset, b.size);
    if (end) end = CheckedAdd(*end, b.alignment - 1);
    if (!end) {
      return Malformed(problem, i,
                       StrCat("ends at offset ", *b.offset, " + size ", b.size,
                              ", which with padding does not fit 64 bits"));
    }
    base = std::max(base, *end);
  }
  // Without the offsets that are given, too: whoever checks a packing has none.
  std::optional<Bytes> sum = base, all = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    all = CheckedAdd(*all, b.size);
    if (all) all = CheckedAdd(*all, b.alignment - 1);
    if (!b.offset && sum) {
      sum = CheckedAdd(*sum, b.size);
      if (sum) sum = CheckedAdd(*sum, b.alignment - 1);
    }
    if (!sum || !all) {
      return Malformed(problem, i,
                       StrCat("takes the sum of sizes and padding past 64 bits:"
                              " its size is ",
                              b.size, ", its alignment ", b.alignment));
    }
  }
  return {};
}

Status CheckIds(const Problem& problem) {
  std::unordered_set<std::string_view> seen;
  seen.reserve(problem.buffers.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const std::string& id = problem.buffers[i].id;
    if (!id.empty() && !seen.insert(id).second) {
      return Malformed(problem, i,
                       StrCat("at index ", i,
                              " has the id of an earlier buffer; ids must be "
                              "unique or empty"));
    }
  }
  return {};
}

// Sweeps the fixed buffers by birth, keeping the live ones by offset; they are
// disjoint up to the first overlap, so only two neighbours need a look.
Status CheckFixedPlacements(const Problem& problem) {
  std::vector<size_t> births;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].offset && problem.buffers[i].size > 0) {
      births.push_back(i);
    }
  }
  std::vector<size_t> deaths = births;
  std::stable_sort(births.begin(), births.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].lower < problem.buffers[b].lower;
  });
  std::stable_sort(deaths.begin(), deaths.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].upper < problem.buffers[b].upper;
  });

  const auto overlap = [&](size_t a, size_t b) {
    const Buffer& x = problem.buffers[a];
    const Buffer& y = problem.buffers[b];
    return Malformed(
        problem, a,
        StrCat("is fixed at [", *x.offset, ", ", *x.offset + x.size,
               ") and lives in [", x.lower, ", ", x.upper,
               "), where it overlaps ", BufferName(problem, b), " fixed at [",
               *y.offset, ", ", *y.offset + y.size, "), which lives in [",
               y.lower, ", ", y.upper, ")"));
  };
  std::map<Bytes, size_t> live;
  size_t dead = 0;
  for (const size_t i : births) {
    const Buffer& b = problem.buffers[i];
    for (; problem.buffers[deaths[dead]].upper <= b.lower; ++dead) {
      live.erase(*problem.buffers[deaths[dead]].offset);
    }
    const auto above = live.lower_bound(*b.offset);
    if (above != live.end() && above->first < *b.offset + b.size) {
      return overlap(i, above->second);
    }
    if (above != live.begin()) {
      const size_t below = std::prev(above)->second;
      const Buffer& other = problem.buffers[below];
      if (*other.offset + other.size > *b.offset) return overlap(i, below);
    }
    live.emplace(*b.offset, i);
  }
  return {};
}

}  // namespace

Status CheckProblem(const Problem& problem) {
  if (problem.capacity && *problem.capacity < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[pack] capacity ", *problem.capacity,
                        " is negative; it must be 0 or more bytes")};
  }
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    STOWAGE_RETURN_IF_ERROR(CheckBuffer(problem, i));
  }
  STOWAGE_RETURN_IF_ERROR(CheckIds(problem));
  STOWAGE_RETURN_IF_ERROR(CheckSums(problem));
  return CheckFixedPlacements(problem);
}

std::string BufferName(const Problem& problem, size_t index) {
  const std::string& id = problem.buffers[index].id;
  return id.empty() ? StrCat("#", index) : Quoted(id);
}

}  // namespace stowage::packing
