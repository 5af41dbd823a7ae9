#include "planner/packing/greedy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/columns.h"
#include "planner/packing/divide.h"
#include "planner/packing/linear.h"
#include "planner/packing/part.h"

namespace stowage::packing {
namespace {

// Packs all buffers that take bytes; the others go to offset 0 or where they are
// fixed.
GreedyPacking PackAll(const Problem& problem, Bytes target, int64_t work,
                      Deadline deadline) {
  const Columns columns = ComputeColumns(problem);
  GreedyPacking packing;
  std::vector<Bytes>& offsets = packing.solution.offsets;
  Bytes& height = packing.solution.height;
  offsets.resize(problem.buffers.size());
  Part all;
  all.columns = columns.count;
  std::vector<uint32_t> indices;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (b.offset) {
      offsets[i] = *b.offset;
      height = std::max(height, *b.offset + b.size);
    }
    if (b.size == 0) continue;
    all.items.push_back({.range = columns.ranges[i],
                         .size = b.size,
                         .alignment = b.alignment,
                         .offset = b.offset.value_or(Item::kFree),
                         .lower = b.lower,
                         .upper = b.upper});
    indices.push_back(static_cast<uint32_t>(i));
  }
  if (indices.empty()) return packing;
  PartPacking best = PackDivided(all, target, work, deadline);
  for (size_t k = 0; k < indices.size(); ++k) {
    offsets[indices[k]] = best.offsets[k];
  }
  height = std::max(height, best.height);
  packing.order = std::move(best.order);
  return packing;
}

}  // namespace

GreedyPacking PackGreedily(const Problem& problem, Bytes target, int64_t work,
                           Deadline deadline) {
  GreedyPacking best = PackAll(problem, target, work, deadline);
  // Padding and fixed buffers can make reuse the worse choice.
  if (best.solution.height > target) {
    Solution linear = PackLinearly(problem);
    if (linear.height < best.solution.height) {
      best = {std::move(linear), "no reuse"};
    }
  }
  return best;
}

}  // namespace stowage::packing
