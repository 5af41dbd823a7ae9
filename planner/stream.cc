#include "planner/stream.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "planner/lifetimes.h"

namespace stowage {
namespace {

// Whether what lies in `region` outlives the step.
bool IsReserved(Region region) {
  return region == Region::kWeights || region == Region::kState ||
         region == Region::kIo || region == Region::kHostState;
}

class StreamWriter {
 public:
  StreamWriter(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        layouts_(ComputeLayouts(graph)),
        end_(graph.num_nodes() + 1),
        born_(static_cast<size_t>(end_) + 1),
        dying_(static_cast<size_t>(end_) + 1) {}

  std::vector<StreamEvent> Write() {
    SortBuffers();
    for (const int32_t index : reserved_)
      Add(StreamEventKind::kAllocate, index, 0);
    for (Time time = 0; time <= end_; ++time) {
      for (const int32_t index : dying_[static_cast<size_t>(time)]) {
        Add(StreamEventKind::kKill, index, time);
      }
      for (const int32_t index : born_[static_cast<size_t>(time)]) {
        Add(StreamEventKind::kAllocate, index, time);
      }
      if (time < graph_.num_nodes()) Launch(static_cast<NodeId>(time));
    }
    std::ranges::reverse(reserved_);
    for (const int32_t index : reserved_)
      Add(StreamEventKind::kKill, index, end_);
    return std::move(events_);
  }

 private:
  const PlannedBuffer& buffer(int32_t index) const {
    return plan_.buffers[static_cast<size_t>(index)];
  }
  int32_t buffer_of(ValueId id) const {
    return plan_.buffer_of[static_cast<size_t>(id)];
  }

  StreamPlace PlaceOf(int32_t index) const {
    const PlannedBuffer& slot = buffer(index);
    return {.on_host = IsOnHost(slot.region),
            .address = plan_.AddressOf(slot),
            .bytes = slot.size};
  }

  // Puts every buffer that is ever there where its events are looked for.
  void SortBuffers() {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlannedBuffer& slot = plan_.buffers[i];
      STOWAGE_CHECK(0 <= slot.lower && slot.lower <= slot.upper &&
                    slot.upper <= end_);
      const auto index = static_cast<int32_t>(i);
      if (IsReserved(slot.region)) {
        reserved_.push_back(index);
      } else if (slot.lower < slot.upper) {
        born_[static_cast<size_t>(slot.lower)].push_back(index);
        dying_[static_cast<size_t>(slot.upper)].push_back(index);
      }
    }
    std::ranges::stable_sort(reserved_, {}, [&](int32_t index) {
      const StreamPlace place = PlaceOf(index);
      return std::tuple(place.on_host, place.address);
    });
  }

  void Add(StreamEventKind kind, int32_t index, Time time) {
    events_.push_back(
        {.kind = kind, .time = time, .buffer = index, .place = PlaceOf(index)});
  }

  void Launch(NodeId id) {
    const Node& node = graph_.node(id);
    if (GetOpDef(node.op).is_view()) return;
    StreamEvent event{.kind = StreamEventKind::kLaunch,
                      .time = id,
                      .node = id,
                      .op = node.op};
    for (const ValueId input : node.inputs) {
      event.operands.push_back(ValueAt(input));
    }
    for (const ValueId result : node.results) {
      event.results.push_back(ValueAt(result));
      event.results.back().in_place = std::ranges::any_of(
          node.inputs,
          [&](ValueId input) { return buffer_of(input) == buffer_of(result); });
    }
    const int32_t scratch = plan_.workspace_of[static_cast<size_t>(id)];
    if (scratch >= 0) event.scratch = PlaceOf(scratch);
    events_.push_back(std::move(event));
  }

  StreamValue ValueAt(ValueId id) const {
    const ValueInfo& value = graph_.value(id);
    const Layout& layout = layouts_[static_cast<size_t>(id)];
    int64_t last = 0;  // the last element's distance from the first
    for (int axis = 0; axis < value.type.shape.rank(); ++axis) {
      last += (value.type.shape[axis] - 1) * layout.strides[axis];
    }
    StreamPlace place = PlaceOf(buffer_of(id));
    place.address += layout.byte_offset;
    place.bytes = (last + 1) * SizeOf(value.type.dtype);
    return {.name = value.name,
            .root = graph_.value(layout.root).name,
            .place = place};
  }

  const Graph& graph_;
  const Plan& plan_;
  const Layouts layouts_;
  const Time end_;
  std::vector<int32_t> reserved_;            // by rising address
  std::vector<std::vector<int32_t>> born_;   // at each time
  std::vector<std::vector<int32_t>> dying_;  // likewise
  std::vector<StreamEvent> events_;
};

}  // namespace

std::string_view StreamEventName(StreamEventKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"allocate",
                                                             "launch", "kill"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan) {
  return StreamWriter(graph, plan).Write();
}

}  // namespace stowage
