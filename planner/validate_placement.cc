#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "planner/placement.h"

namespace stowage {
namespace {

// The live buffers of all regions, on a walk over programs.
class PlacementVerifier {
 public:
  PlacementVerifier(const Placement& placement, size_t limit)
      : placement_(placement), limit_(limit) {}

  std::vector<std::string> Verify(std::span<const ProgramPlan> programs) {
    if (programs.size() != placement_.programs.size()) {
      Complain("the placement is of ", placement_.programs.size(),
               " programs; there are ", programs.size());
      return std::move(texts_);
    }
    for (const ProgramPlan& program : programs) {
      if (const Status is_for = CheckPlanFits(program.plan, program.graph);
          !is_for.ok()) {
        Complain(is_for.error().message);
        return std::move(texts_);
      }
    }
    for (size_t p = 0; p < programs.size(); ++p) {
      if (!HasPlaces(programs[p].plan, placement_.programs[p])) {
        Complain("the placement of ", Quoted(programs[p].graph.name()),
                 " is for another plan");
        return std::move(texts_);
      }
    }
    for (size_t p = 0; p < programs.size(); ++p) {
      AddShared(programs[p], placement_.programs[p], p == 0);
    }
    for (size_t p = 0; p < programs.size(); ++p) {
      Walk(programs[p].graph, programs[p].plan, placement_.programs[p]);
    }
    return std::move(texts_);
  }

 private:
  struct Live {
    const PlannedBuffer* buffer;
    Bytes begin, end;
  };

  template <typename... Args>
  void Complain(const Args&... args) {
    if (texts_.size() < limit_)
      texts_.push_back(StrCat("[validate] ", args...));
  }

  static bool HasPlaces(const Plan& plan, const PlacedPlan& placed) {
    if (placed.buffers.size() != plan.buffers.size() ||
        placed.bodies.size() != plan.bodies.size()) {
      return false;
    }
    for (size_t b = 0; b < plan.bodies.size(); ++b) {
      if (!HasPlaces(plan.bodies[b].plan, placed.bodies[b])) return false;
    }
    return true;
  }

  // Params and states: live throughout, at one place in all programs.
  void AddShared(const ProgramPlan& program, const PlacedPlan& placed,
                 bool is_first) {
    for (const Role role : {Role::kParam, Role::kState}) {
      for (const ValueId id : program.graph.Leaves(role)) {
        const std::string& name = program.graph.value(id).name;
        const auto index = static_cast<size_t>(
            program.plan.buffer_of[static_cast<size_t>(id)]);
        const PlannedBuffer& buffer = program.plan.buffers[index];
        const PlacedBuffer& place = placed.buffers[index];
        if (is_first) {
          shared_[name] = place;
          Allocate(buffer, place, program.plan.alignment);
        } else if (const auto at = shared_.find(name);
                   at == shared_.end() || !(at->second == place)) {
          Complain(RoleName(role), " ", Quoted(name), " of ",
                   Quoted(program.graph.name()),
                   " is not where the step has it");
        }
      }
    }
  }

  // The region's live buffers; null if the buffer is in none.
  std::vector<Live>* LiveIn(const PlacedBuffer& place) {
    return place.region < 0 || place.region >= static_cast<int64_t>(
                                                   placement_.regions.size())
               ? nullptr
               : &live_[place.region];
  }

  void Allocate(const PlannedBuffer& buffer, const PlacedBuffer& place,
                Bytes alignment) {
    const bool is_elsewhere =
        IsOnHost(buffer.region) || buffer.region == Region::kOutside;
    std::vector<Live>* const live = LiveIn(place);
    if (live == nullptr || is_elsewhere) {
      if ((live == nullptr) == is_elsewhere) return;
      Complain(Quoted(buffer.name), " of ", RegionName(buffer.region),
               " is in ", live == nullptr ? "no region" : "a region");
      return;
    }
    const MemoryRegion& region =
        placement_.regions[static_cast<size_t>(place.region)];
    if (place.offset < 0 || buffer.size > region.bytes ||
        place.offset > region.bytes - buffer.size) {
      Complain(Quoted(buffer.name), " [", place.offset, ", +", buffer.size,
               ") is outside of region ", Quoted(region.name), " of ",
               region.bytes, " bytes");
      return;
    }
    if (place.offset % alignment != 0) {
      Complain(Quoted(buffer.name), " at ", place.offset, " of region ",
               Quoted(region.name), " is not aligned to ", alignment);
    }
    const Live self{&buffer, place.offset, place.offset + buffer.size};
    for (const Live& other : *live) {
      if (self.begin < other.end && other.begin < self.end) {
        Complain(Quoted(buffer.name), " [", self.begin, ", ", self.end,
                 ") of region ", Quoted(region.name),
                 " is placed over the live buffer ", Quoted(other.buffer->name),
                 " [", other.begin, ", ", other.end, ")");
      }
    }
    live->push_back(self);
  }

  void Free(const PlannedBuffer& buffer, const PlacedBuffer& place) {
    std::vector<Live>* const live = LiveIn(place);
    if (live == nullptr) return;
    std::erase_if(*live,
                  [&](const Live& each) { return each.buffer == &buffer; });
  }

  // Allocates and frees the buffers of a program or a body, except params and states, in the order
  // of its nodes. At one time, buffers die before others are born.
  void Walk(const Graph& graph, const Plan& plan, const PlacedPlan& placed) {
    const Time end = graph.num_nodes() + 1;
    std::vector<std::vector<size_t>> born(static_cast<size_t>(end) + 1);
    std::vector<std::vector<size_t>> dying(static_cast<size_t>(end) + 1);
    std::vector<bool> is_split(plan.buffers.size(), false);
    for (const BodyPlan& body : plan.bodies) {
      const int32_t index = plan.workspace_of[static_cast<size_t>(body.node)];
      if (index >= 0) is_split[static_cast<size_t>(index)] = true;
    }
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      const PlannedBuffer& buffer = plan.buffers[i];
      if (is_split[i]) {
        if (LiveIn(placed.buffers[i]) != nullptr) {
          Complain(Quoted(buffer.name),
                   " is in a region, as are the buffers of its bodies");
        }
        continue;
      }
      const bool is_shared =
          buffer.region == Region::kWeights || buffer.region == Region::kState;
      if (is_shared || buffer.lower == buffer.upper) continue;
      if (buffer.lower < 0 || buffer.lower > buffer.upper ||
          buffer.upper > end) {
        Complain(Quoted(buffer.name), " is stated to live in [", buffer.lower,
                 ", ", buffer.upper, ") of ", end);
        return;
      }
      born[static_cast<size_t>(buffer.lower)].push_back(i);
      dying[static_cast<size_t>(buffer.upper)].push_back(i);
    }
    size_t next_body = 0;
    for (Time time = 0; time <= end; ++time) {
      for (const size_t i : dying[static_cast<size_t>(time)]) {
        Free(plan.buffers[i], placed.buffers[i]);
      }
      for (const size_t i : born[static_cast<size_t>(time)]) {
        Allocate(plan.buffers[i], placed.buffers[i], plan.alignment);
      }
      if (time >= graph.num_nodes()) continue;
      for (const auto& body : BodiesOf(graph.node(static_cast<NodeId>(time)))) {
        Walk(*body, plan.bodies[next_body].plan, placed.bodies[next_body]);
        ++next_body;
      }
    }
  }

  const Placement& placement_;
  const size_t limit_;
  std::map<int32_t, std::vector<Live>> live_;  // by region
  std::map<std::string, PlacedBuffer, std::less<>> shared_;
  std::vector<std::string> texts_;
};

}  // namespace

std::vector<std::string> ValidatePlacement(
    std::span<const ProgramPlan> programs, const Placement& placement,
    size_t limit) {
  return PlacementVerifier(placement, limit).Verify(programs);
}

}  // namespace stowage
