#include "planner/stream.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>
#include <tuple>

#include "base/result.h"
#include "ir/bodies.h"
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
  StreamWriter(const Graph& graph, const Plan& plan, const PlacedPlan* placed,
               Bytes base = 0, Bytes host_base = 0, int depth = 0)
      : graph_(graph),
        plan_(plan),
        placed_(placed),
        base_(base),
        host_base_(host_base),
        depth_(depth),
        layouts_(ComputeLayouts(graph)),
        end_(graph.num_nodes() + 1),
        born_(static_cast<size_t>(end_) + 1),
        dying_(static_cast<size_t>(end_) + 1),
        killed_(plan.buffers.size(), false) {}

  std::vector<StreamEvent> Write() {
    NameOutside();
    SortBuffers();
    for (const int32_t index : reserved_)
      Add(StreamEventKind::kAllocate, index, 0);
    for (Time time = 0; time <= end_; ++time) {
      for (const int32_t index : dying_[static_cast<size_t>(time)]) {
        if (killed_[Position(index)]) continue;
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
    if (slot.region == Region::kOutside) {
      const int32_t at = slot.within < 0 ? index : slot.within;
      return {.address = slot.offset,
              .bytes = slot.size,
              .outside = outside_[Position(at)]};
    }
    const bool on_host = IsOnHost(slot.region);
    if (placed_ != nullptr && !on_host) {
      const PlacedBuffer& place = placed_->buffers[Position(index)];
      return {
          .address = place.offset, .bytes = slot.size, .region = place.region};
    }
    return {.on_host = on_host,
            .address = (on_host ? host_base_ : base_) + plan_.AddressOf(slot),
            .bytes = slot.size};
  }

  static size_t Position(int32_t index) { return static_cast<size_t>(index); }

  // Whose place each buffer outside is: an output's where there is one.
  void NameOutside() {
    outside_.resize(plan_.buffers.size());
    const auto name = [&](ValueId id) {
      outside_[Position(buffer_of(id))] = graph_.value(id).name;
    };
    if (depth_ == 0) {  // constants
      for (const ValueId leaf : graph_.Leaves(Role::kParam)) name(leaf);
      return;
    }
    for (const ValueId leaf : LeavesOf(graph_)) name(leaf);
    for (const GraphOutput& output : graph_.outputs()) name(output.value);
  }

  // Puts every buffer that is ever there where its events are looked for.
  void SortBuffers() {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlannedBuffer& slot = plan_.buffers[i];
      STOWAGE_CHECK(0 <= slot.lower && slot.lower <= slot.upper &&
                    slot.upper <= end_);
      const auto index = static_cast<int32_t>(i);
      // What a body is handed is there when it begins, what it hands back, and its
      // second places, which the enter tells of, when it ends.
      if (depth_ > 0 && slot.region == Region::kIo) continue;
      if (slot.region == Region::kOutside && slot.within < 0) {
        if (slot.upper < end_) {
          dying_[static_cast<size_t>(slot.upper)].push_back(index);
        }
        continue;
      }
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
    StreamEvent& event = events_.emplace_back();
    event.kind = kind;
    event.time = time;
    event.buffer = index;
    event.place = PlaceOf(index);
    event.name = buffer(index).name;
    event.region = buffer(index).region;
    event.depth = depth_;
  }

  void Launch(NodeId id) {
    const Node& node = graph_.node(id);
    if (GetOpDef(node.op).is_view()) return;
    StreamEvent event;
    event.kind = StreamEventKind::kLaunch;
    event.time = id;
    event.node = id;
    event.op = node.op;
    event.depth = depth_;
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
    const int32_t on_host = plan_.host_workspace_of[static_cast<size_t>(id)];
    if (on_host >= 0) event.host_scratch = PlaceOf(on_host);
    const Bytes workspace = event.scratch.address;
    const Bytes host_workspace = event.host_scratch.address;
    events_.push_back(std::move(event));
    if (node.op == OpKind::kCond) KillIndex(id);
    for (const auto& body : BodiesOf(node)) {
      AddBody(id, *body, workspace, host_workspace);
    }
  }

  // Of a cond: the index has been read when the first body begins.
  void KillIndex(NodeId id) {
    const std::span<const ValueId> inputs = graph_.node(id).inputs;
    const int32_t index = buffer_of(inputs[0]);
    const bool is_handed_in = std::ranges::any_of(
        inputs.subspan(1),
        [&](ValueId input) { return buffer_of(input) == index; });
    if (buffer(index).upper != id + 1 || is_handed_in) return;
    killed_[Position(index)] = true;
    Add(StreamEventKind::kKill, index, id);
  }

  void AddBody(NodeId id, const Graph& body, Bytes workspace,
               Bytes host_workspace) {
    const Node& node = graph_.node(id);
    const PlacedPlan* const placed =
        placed_ == nullptr ? nullptr : &placed_->bodies[next_body_];
    const BodyPlan& planned = plan_.bodies[next_body_++];
    StreamEvent event;
    event.kind = StreamEventKind::kEnter;
    event.time = id;
    event.node = id;
    event.op = node.op;
    event.body = body.name();
    event.iterations = IterationsOf(node);
    event.depth = depth_;
    const std::vector<ValueId> leaves = LeavesOf(body);
    for (size_t i = 0; i < leaves.size() && node.op == OpKind::kCond; ++i) {
      const PlannedBuffer& slot =
          planned.plan
              .buffers[Position(planned.plan.buffer_of[Position(leaves[i])])];
      if (slot.upper > body.num_nodes()) continue;
      killed_[Position(buffer_of(node.inputs[i + 1]))] = true;
    }
    for (size_t i = 0; i < planned.second_of.size(); ++i) {
      const ValueId leaf = leaves[PartsOfLoop(node).leaf_of(i)];
      const ValueId output = body.outputs()[i].value;
      StreamHanded& handed = event.handed.emplace_back();
      handed.leaf = body.value(leaf).name;
      handed.output = body.value(output).name;
      handed.in_one_place = planned.plan.buffer_of[Position(leaf)] ==
                            planned.plan.buffer_of[Position(output)];
      if (const int32_t second = planned.second_of[i]; second >= 0) {
        const PlannedBuffer& slot = planned.plan.buffers[Position(second)];
        handed.second = {.address = workspace + planned.plan.AddressOf(slot),
                         .bytes = slot.size};
        if (placed != nullptr) {
          const PlacedBuffer& place = placed->buffers[Position(second)];
          handed.second.address = place.offset;
          handed.second.region = place.region;
        }
      }
    }
    events_.push_back(event);
    StreamWriter writer(body, planned.plan, placed, workspace, host_workspace,
                        depth_ + 1);
    std::ranges::move(writer.Write(), std::back_inserter(events_));
    event.kind = StreamEventKind::kLeave;
    event.handed.clear();
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
    // A leaf whose output lies in the same place is its own in the first iteration.
    if (!place.outside.empty() && graph_.value(layout.root).is_leaf()) {
      place.outside = graph_.value(layout.root).name;
    }
    place.address += layout.byte_offset;
    place.bytes = (last + 1) * SizeOf(value.type.dtype);
    return {.name = value.name,
            .root = graph_.value(layout.root).name,
            .place = place};
  }

  const Graph& graph_;
  const Plan& plan_;
  const PlacedPlan* const placed_;  // null: by the plan's own offsets
  const Bytes base_;                // where the arena of the plan begins
  const Bytes host_base_;           // and what it has of the host's memory
  const int depth_;
  const Layouts layouts_;
  const Time end_;
  std::vector<int32_t> reserved_;            // by rising address
  std::vector<std::vector<int32_t>> born_;   // at each time
  std::vector<std::vector<int32_t>> dying_;  // likewise
  std::vector<std::string> outside_;         // by buffer: whose place it is
  std::vector<bool> killed_;                 // by buffer: by a cond, in time
  size_t next_body_ = 0;                     // of the plan
  std::vector<StreamEvent> events_;
};

}  // namespace

std::string_view StreamEventName(StreamEventKind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "allocate", "launch", "kill", "enter", "leave"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan) {
  return StreamWriter(graph, plan, nullptr).Write();
}

std::vector<StreamEvent> MakeStream(const Graph& graph, const Plan& plan,
                                    const PlacedPlan& placed) {
  return StreamWriter(graph, plan, &placed).Write();
}

}  // namespace stowage
