#include "planner/holes.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/index.h"

namespace stowage {
namespace {

// Behind the last node, when the caller has read the results.
Time EndOf(const Plan& plan) {
  return static_cast<Time>(plan.workspace_of.size()) + 1;
}

bool IsSlotOutside(const PlannedBuffer& buffer) {
  return buffer.region == Region::kOutside && buffer.within < 0;
}

// A slot outside, with the time in which it holds nothing.
struct Hole {
  int32_t slot = -1;
  Time lower = 0;
  Time upper = 0;
  std::vector<int32_t> filled_with = {};
};

// The lowest offset at which the hole has room for `buffer`, if any.
std::optional<Bytes> RoomIn(const Plan& plan, const Hole& hole,
                            const PlannedBuffer& buffer) {
  if (buffer.lower < hole.lower || hole.upper < buffer.upper) {
    return std::nullopt;
  }
  std::vector<const PlannedBuffer*> beside;  // by rising offset
  for (const int32_t index : hole.filled_with) {
    const PlannedBuffer& other = plan.buffers[Index(index)];
    if (other.lower < buffer.upper && buffer.lower < other.upper) {
      beside.push_back(&other);
    }
  }
  std::ranges::sort(beside, {}, &PlannedBuffer::offset);
  Bytes offset = 0;
  for (const PlannedBuffer* other : beside) {
    if (offset + buffer.size <= other->offset) break;
    offset =
        std::max(offset, AlignUp(other->offset + other->size, plan.alignment));
  }
  const Bytes room = plan.buffers[Index(hole.slot)].size;
  if (offset > room - buffer.size) return std::nullopt;
  return offset;
}

}  // namespace

bool IsDyingOperand(const Plan& plan, const PlannedBuffer& buffer) {
  return IsSlotOutside(buffer) && buffer.upper < EndOf(plan);
}

void PlaceInHoles(Plan* plan) {
  std::vector<Hole> holes;
  std::vector<int32_t> buffers;
  for (size_t i = 0; i < plan->buffers.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    const PlannedBuffer& buffer = plan->buffers[i];
    if (IsDyingOperand(*plan, buffer)) {
      holes.push_back(
          {.slot = index, .lower = buffer.upper, .upper = EndOf(*plan)});
    } else if (IsSlotOutside(buffer)) {
      holes.push_back({.slot = index, .lower = 0, .upper = buffer.lower});
    }
    if (buffer.region == Region::kActivations) buffers.push_back(index);
  }
  const auto size = [&](int32_t index) {
    return plan->buffers[Index(index)].size;
  };
  std::ranges::stable_sort(holes, {},
                           [&](const Hole& hole) { return size(hole.slot); });
  std::ranges::stable_sort(buffers, std::greater<>(), size);
  for (const int32_t index : buffers) {
    PlannedBuffer& buffer = plan->buffers[Index(index)];
    for (Hole& hole : holes) {
      const std::optional<Bytes> offset = RoomIn(*plan, hole, buffer);
      if (!offset) continue;
      buffer.region = Region::kOutside;
      buffer.within = hole.slot;
      buffer.offset = *offset;
      hole.filled_with.push_back(index);
      break;
    }
  }
}

}  // namespace stowage
