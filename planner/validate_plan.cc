#include "planner/validate_plan.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

// A half-open range of bytes: of the arena, and behind it, of the host's memory.
struct Range {
  Bytes begin = 0;
  Bytes end = 0;
  bool Overlaps(const Range& other) const {
    return begin < other.end && other.begin < end;
  }
  friend bool operator==(const Range&, const Range&) = default;
};

// Who wrote each byte last.
class Ownership {
 public:
  static constexpr ValueId kNobody = -1;
  static constexpr ValueId kBackend = -2;

  explicit Ownership(Bytes bytes) { owners_[0] = {bytes, kNobody}; }

  void Write(Range range, ValueId owner) {
    if (range.begin == range.end) return;
    const auto first = SplitAt(range.begin);
    const auto last = SplitAt(range.end);
    first->second = {range.end, owner};
    owners_.erase(std::next(first), last);
  }

  // Somebody other than `owner` who wrote a byte of `range` last, if any.
  std::optional<ValueId> Intruder(Range range, ValueId owner) const {
    for (auto it = std::prev(owners_.upper_bound(range.begin));
         it != owners_.end() && it->first < range.end; ++it) {
      if (it->second.owner != owner) return it->second.owner;
    }
    return std::nullopt;
  }

 private:
  struct Interval {
    Bytes end;
    ValueId owner;
  };
  using Owners = std::map<Bytes, Interval>;  // by first byte; covers all

  // The interval that begins there from now on; none behind the last byte.
  Owners::iterator SplitAt(Bytes at) {
    const auto it = std::prev(owners_.upper_bound(at));
    if (it->first == at) return it;
    if (at >= it->second.end) return owners_.end();
    const Interval whole = it->second;
    it->second.end = at;
    return owners_.emplace_hint(std::next(it), at, whole);
  }
  Owners owners_;
};

class PlanVerifier {
 public:
  PlanVerifier(const Graph& graph, const Plan& plan, size_t limit)
      : graph_(graph), plan_(plan), limit_(limit) {}

  // For the plan of a body of `node`, which has no more than `workspace` bytes, and
  // `host_workspace` on the host.
  PlanVerifier(const Graph& graph, const BodyPlan& body, const Node& node,
               Bytes workspace, Bytes host_workspace, size_t limit)
      : graph_(graph),
        plan_(body.plan),
        limit_(limit),
        node_(&node),
        second_of_(body.second_of),
        workspace_(workspace),
        host_workspace_(host_workspace) {}

  std::vector<std::string> Verify() {
    layouts_ = ComputeLayouts(graph_);
    CheckSlots();
    if (texts_.empty()) PlaceOutside();  // needs regions that can be added up
    if (texts_.empty() && node_ != nullptr) CheckBody();
    if (texts_.empty()) CheckBodies();
    if (texts_.empty()) CheckViews();
    if (texts_.empty()) RunSchedule();  // needs addresses that can be trusted
    if (texts_.empty()) CheckLifetimes();
    return std::move(texts_);
  }

 private:
  bool Full() const { return texts_.size() >= limit_; }
  template <typename... Args>
  void Complain(const Args&... args) {
    if (!Full()) texts_.push_back(StrCat("[validate] ", args...));
  }

  const Layout& layout(ValueId id) const {
    return layouts_[static_cast<size_t>(id)];
  }
  const std::string& name(ValueId id) const { return graph_.value(id).name; }
  const PlannedBuffer& buffer(ValueId id) const {
    return plan_
        .buffers[static_cast<size_t>(plan_.buffer_of[static_cast<size_t>(id)])];
  }
  const PlannedBuffer& reserve() const {
    return plan_.buffers[static_cast<size_t>(plan_.reserve)];
  }
  bool IsBuffer(int32_t index) const {
    return index >= 0 && index < static_cast<int64_t>(plan_.buffers.size());
  }

  // Bytes of a region and where it starts.
  Range RegionRange(Region region) const {
    const RegionBytes& r = plan_.regions;
    const Bytes sizes[] = {r.weights,     r.state,     r.io,
                           r.activations, r.workspace, r.host_state,
                           r.host_offload};
    if (region == Region::kOutside) return {0, 0};
    // Activations and workspace are one span.
    const size_t last = static_cast<size_t>(region);
    const bool in_span =
        region == Region::kActivations || region == Region::kWorkspace;
    const size_t first = in_span ? 3 : last;
    Bytes begin = 0;
    for (size_t i = 0; i < first; ++i) begin += sizes[i];
    return {begin,
            begin + (in_span ? r.activations + r.workspace : sizes[first])};
  }
  // Where a region starts in its memory, whose own base is aligned.
  Bytes BaseOf(Region region) const {
    const bool on_host =
        region == Region::kHostState || region == Region::kHostOffload;
    return RegionRange(region).begin -
           (on_host ? RegionRange(Region::kHostState).begin : 0);
  }
  Range RangeOf(const PlannedBuffer& slot) const {
    if (slot.region == Region::kOutside) {
      const auto at = slot.within < 0
                          ? &slot - plan_.buffers.data()
                          : static_cast<std::ptrdiff_t>(slot.within);
      const Bytes begin = outside_[static_cast<size_t>(at)] + slot.offset;
      return {begin, begin + slot.size};
    }
    const Bytes begin = RegionRange(slot.region).begin + slot.offset;
    return {begin, begin + slot.size};
  }

  // The bytes from the first to the last element of a value, once CheckViews has
  // found them.
  const Range& Extent(ValueId id) const {
    return extents_[static_cast<size_t>(id)];
  }
  Range FindExtent(ValueId id) const {
    const TensorType& type = graph_.value(id).type;
    const Layout& where = layout(id);
    int64_t last = 0;
    for (int i = 0; i < type.shape.rank(); ++i) {
      last += (type.shape[i] - 1) * where.strides[i];
    }
    const Bytes begin = RangeOf(buffer(where.root)).begin + where.byte_offset;
    return {begin, begin + (last + 1) * SizeOf(type.dtype)};
  }

  // What lies outside lies nowhere near anything else: behind all memory, each slot in
  // bytes of its own.
  void PlaceOutside() {
    Bytes end = RegionRange(Region::kHostOffload).end;
    for (const PlannedBuffer& slot : plan_.buffers) {
      outside_.push_back(end);
      if (slot.region != Region::kOutside || slot.within >= 0) continue;
      end = CheckedAdd(end, slot.size).value_or(end);
    }
    end_ = end;
  }

  // What a plan of a body must be beyond one of a graph.
  void CheckBody() {
    const std::vector<ValueId> leaves = LeavesOf(graph_);
    if (plan_.host_bytes() > host_workspace_ ||
        plan_.arena_bytes() > workspace_) {
      Complain("it takes ", plan_.arena_bytes(), " bytes, and ",
               plan_.host_bytes(), " on the host; its node has ", workspace_,
               " of workspace, and ", host_workspace_, " on the host");
    }
    std::vector<int> outputs_in(plan_.buffers.size(), 0);
    std::vector<int> leaves_in(plan_.buffers.size(), 0);
    for (const GraphOutput& output : graph_.outputs()) {
      ++outputs_in[BufferIndex(output.value)];
    }
    for (const ValueId leaf : leaves) ++leaves_in[BufferIndex(leaf)];
    const bool is_cond = node_->op == OpKind::kCond;
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const bool is_outside = buffer(id).region == Region::kOutside;
      const ValueId root = layout(id).root;
      if (!is_outside || graph_.value(root).is_leaf()) continue;
      const size_t index = buffer(id).within < 0
                               ? BufferIndex(id)
                               : static_cast<size_t>(buffer(id).within);
      // In the bodies of a cond, operands may have died by then: the run will tell.
      if (outputs_in[index] == 0 && is_cond && leaves_in[index] > 0) continue;
      if (outputs_in[index] != 1) {
        Complain(Quoted(name(id)), " lies where ",
                 outputs_in[index] == 0 ? "an operand of the node does"
                                        : "two outputs do");
      }
    }
    for (const ValueId leaf : leaves) {
      if (!IsDying(leaf)) continue;
      if (!is_cond || buffer(leaf).lower != 0) {
        Complain("operand ", Quoted(name(leaf)), " is stated to live in [",
                 buffer(leaf).lower, ", ", buffer(leaf).upper,
                 "); it is there ",
                 is_cond ? "from the start" : "throughout the loop");
      }
    }
    // Each slot outside is as large as what is handed in or out.
    for (const ValueId leaf : leaves) CheckHanded(leaf);
    for (const GraphOutput& output : graph_.outputs()) {
      CheckHanded(output.value);
    }
    std::vector<Range> seconds;
    const bool is_loop = node_->op == OpKind::kLoop;
    const size_t handed_on = is_loop ? PartsOfLoop(*node_).handed_on() : 0;
    if (second_of_.size() != handed_on) {
      Complain("it has ", second_of_.size(), " second places; ", handed_on,
               " values are handed on");
      return;
    }
    for (size_t i = 0; i < handed_on; ++i) {
      const LoopParts loop = PartsOfLoop(*node_);
      const ValueId leaf = leaves[loop.leaf_of(i)];
      const ValueId output = graph_.outputs()[i].value;
      const int32_t second = second_of_[i];
      if (BufferIndex(leaf) == BufferIndex(output)) {
        --leaves_in[BufferIndex(leaf)];  // its own output may share its bytes
        shared_.insert(leaf);
        if (second != -1) {
          Complain(Quoted(name(leaf)), " has one place, and a second one");
        }
        continue;
      }
      if (second == -1 && loop.iterations == 1 && i < loop.carried) continue;
      if (!IsBuffer(second) ||
          plan_.buffers[static_cast<size_t>(second)].region != Region::kIo ||
          plan_.buffers[static_cast<size_t>(second)].size <
              graph_.value(leaf).type.bytes()) {
        Complain(Quoted(name(leaf)), " has no second place of ",
                 graph_.value(leaf).type.bytes(), " bytes in io");
        continue;
      }
      const Range range = RangeOf(plan_.buffers[static_cast<size_t>(second)]);
      for (const Range& other : seconds) {
        if (range.Overlaps(other)) {
          Complain("the second place of ", Quoted(name(leaf)),
                   " overlaps another");
        }
      }
      seconds.push_back(range);
    }
    for (const ValueId leaf : leaves) {
      const size_t index = BufferIndex(leaf);
      if (leaves_in[index] + outputs_in[index] > 1) {
        Complain(Quoted(name(leaf)),
                 " lies where another operand or result is");
      }
    }
  }

  size_t BufferIndex(ValueId id) const {
    return static_cast<size_t>(plan_.buffer_of[static_cast<size_t>(id)]);
  }

  // Whether a leaf of a body is stated to die in it.
  bool IsDying(ValueId leaf) const {
    return buffer(leaf).region == Region::kOutside &&
           buffer(leaf).upper <= graph_.num_nodes();
  }

  void CheckHanded(ValueId id) {
    if (buffer(id).region == Region::kOutside && buffer(id).within < 0 &&
        buffer(id).size == graph_.value(id).type.bytes()) {
      return;
    }
    Complain(Quoted(name(id)), " is handed in or out and is in a slot of ",
             buffer(id).size, " bytes in ", RegionName(buffer(id).region),
             "; expected ", graph_.value(id).type.bytes(), " outside");
  }

  // An operand that is stated to die in the bodies of a cond must do so in all of them,
  // by itself, and in this plan at the node.
  void CheckDying(NodeId n, std::span<const BodyPlan> plans) {
    const Node& node = graph_.node(n);
    const auto bodies = BodiesOf(node);
    std::vector<size_t> dies_in(node.inputs.size(), 0);
    for (size_t b = 0; b < bodies.size(); ++b) {
      const Plan& plan = plans[b].plan;
      const std::vector<ValueId> leaves = LeavesOf(*bodies[b]);
      for (size_t i = 0; i < leaves.size(); ++i) {
        const int32_t index = plan.buffer_of[static_cast<size_t>(leaves[i])];
        const PlannedBuffer& slot = plan.buffers[static_cast<size_t>(index)];
        if (slot.upper <= bodies[b]->num_nodes()) ++dies_in[i + 1];
      }
    }
    std::vector<int> operands_in(plan_.buffers.size(), 0);
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      ++operands_in[BufferIndex(node.inputs[i])];
    }
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (dies_in[i] == 0) continue;
      if (dies_in[i] == bodies.size() && buffer(id).upper == n + 1 &&
          buffer(id).size == graph_.value(id).type.bytes() &&
          operands_in[BufferIndex(id)] == 1) {
        continue;
      }
      Complain("operand ", Quoted(name(id)), " is stated to die in ",
               dies_in[i], " of ", bodies.size(), " bodies of ",
               graph_.Describe(n), "; its slot, of ", buffer(id).size,
               " bytes and ", operands_in[BufferIndex(id)],
               " operands, is stated to live in [", buffer(id).lower, ", ",
               buffer(id).upper, ")");
    }
  }

  // That every body in the graph has a plan, and a good one.
  void CheckBodies() {
    size_t next = 0;
    for (NodeId n = 0; n < graph_.num_nodes() && !Full(); ++n) {
      const Node& node = graph_.node(n);
      const auto size_of = [&](int32_t scratch) {
        return scratch < 0 ? 0
                           : plan_.buffers[static_cast<size_t>(scratch)].size;
      };
      const Bytes bytes = size_of(plan_.workspace_of[static_cast<size_t>(n)]);
      const Bytes on_host =
          size_of(plan_.host_workspace_of[static_cast<size_t>(n)]);
      for (const auto& body : BodiesOf(node)) {
        if (next == plan_.bodies.size() || plan_.bodies[next].node != n) {
          Complain("body ", Quoted(body->name()), " of ", graph_.Describe(n),
                   " has no plan in its place");
          return;
        }
        const BodyPlan& plan = plan_.bodies[next++];
        const Status fits = CheckPlanFits(plan.plan, *body);
        if (!fits.ok() || plan.plan.alignment != plan_.alignment) {
          Complain("the plan of body ", Quoted(body->name()), " of ",
                   graph_.Describe(n), " is for another graph or alignment");
          return;
        }
        for (const std::string& text :
             PlanVerifier(*body, plan, node, bytes, on_host, limit_).Verify()) {
          Complain("body ", Quoted(body->name()), " of ", graph_.Describe(n),
                   ": ", text);
        }
      }
      const size_t count = BodiesOf(node).size();
      if (node.op != OpKind::kCond || !texts_.empty()) continue;
      CheckDying(n, std::span(plan_.bodies).subspan(next - count, count));
    }
    if (next < plan_.bodies.size()) {
      Complain("there are plans of ", plan_.bodies.size(),
               " bodies; the graph has ", next);
    }
  }

  void CheckSlots() {
    const RegionBytes& r = plan_.regions;
    std::optional<Bytes> sum = 0;
    for (const Bytes bytes : {r.weights, r.state, r.io, r.activations,
                              r.workspace, r.host_state, r.host_offload}) {
      if (sum) sum = bytes < 0 ? std::nullopt : CheckedAdd(*sum, bytes);
    }
    if (!sum || plan_.alignment < 1) {
      Complain("the regions are of ", r.weights, ", ", r.state, ", ", r.io,
               ", ", r.activations, " and ", r.workspace, " bytes, and of ",
               r.host_state, " and ", r.host_offload,
               " on the host, the alignment is ", plan_.alignment,
               "; expected sizes of at least 0 whose sum fits 64 bits and an "
               "alignment of at least 1");
      return;
    }
    for (const PlannedBuffer& slot : plan_.buffers) {
      if (slot.within != -1) {
        CheckWithin(slot);
        continue;
      }
      if (slot.region == Region::kOutside) {
        if (slot.offset == 0 && slot.size >= 0) continue;
        Complain("slot ", Quoted(slot.name), " [", slot.offset, ", +",
                 slot.size, ") outside begins elsewhere than at 0");
        continue;
      }
      const Range region = RegionRange(slot.region);
      if (slot.offset < 0 || slot.size < 0 || slot.offset > region.end ||
          slot.size > region.end - region.begin - slot.offset) {
        Complain("slot ", Quoted(slot.name), " [", slot.offset, ", +",
                 slot.size, ") is outside its region ", RegionName(slot.region),
                 " of ", region.end - region.begin, " bytes");
      } else if (slot.offset % plan_.alignment != 0 ||
                 BaseOf(slot.region) % plan_.alignment != 0) {
        Complain("slot ", Quoted(slot.name), " at ", slot.offset, " of ",
                 RegionName(slot.region), " is not aligned to ",
                 plan_.alignment);
      }
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const int32_t index = plan_.buffer_of[static_cast<size_t>(id)];
      if (!IsBuffer(index)) {
        Complain("value ", Quoted(name(id)), " has no slot");
      } else if (index !=
                 plan_.buffer_of[static_cast<size_t>(layout(id).root)]) {
        Complain("view ", Quoted(name(id)),
                 " is in another slot than its root ",
                 Quoted(name(layout(id).root)));
      } else if (layout(id).root == id) {
        CheckOwner(id);
      }
    }
    if (plan_.reserve != -1 &&
        (!IsBuffer(plan_.reserve) || reserve().region != Region::kIo)) {
      Complain("the backend's reserve is no io slot");
    }
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      CheckScratch(n, plan_.workspace_of, Region::kWorkspace);
      CheckScratch(n, plan_.host_workspace_of, Region::kHostOffload);
    }
  }

  // Of node `n`, where `scratch_of` says that it has some.
  void CheckScratch(NodeId n, std::span<const int32_t> scratch_of,
                    Region region) {
    const int32_t index = scratch_of[static_cast<size_t>(n)];
    if (index == -1) return;
    if (!IsBuffer(index) ||
        plan_.buffers[static_cast<size_t>(index)].region != region) {
      Complain("the scratch of ", graph_.Describe(n), " is no ",
               RegionName(region), " slot");
    }
  }

  // What lies within an operand or a result of a cond, while that is dead.
  void CheckWithin(const PlannedBuffer& slot) {
    if (node_ == nullptr || node_->op != OpKind::kCond ||
        slot.region != Region::kOutside || !IsBuffer(slot.within)) {
      Complain("slot ", Quoted(slot.name), " of ", RegionName(slot.region),
               " is within slot ", slot.within,
               "; that is for what the body of a cond has outside");
      return;
    }
    const PlannedBuffer& in = plan_.buffers[static_cast<size_t>(slot.within)];
    if (in.region != Region::kOutside || in.within != -1 || slot.offset < 0 ||
        slot.size < 0 || slot.size > in.size - slot.offset ||
        slot.offset % plan_.alignment != 0) {
      Complain("slot ", Quoted(slot.name), " [", slot.offset, ", +", slot.size,
               ") is not within ", Quoted(in.name), " of ", in.size,
               " bytes of ", RegionName(in.region), ", aligned to ",
               plan_.alignment);
    }
    if (slot.lower < in.upper && in.lower < slot.upper) {
      Complain("slot ", Quoted(slot.name), " is within ", Quoted(in.name),
               " and stated to live in [", slot.lower, ", ", slot.upper,
               "), at the same time as that in [", in.lower, ", ", in.upper,
               ")");
    }
  }

  // Whether nothing writes a leaf that is a param.
  bool IsConstant(ValueId id) const {
    const ValueInfo& value = graph_.value(id);
    if (!value.is_leaf() || value.role != Role::kParam) return false;
    return std::ranges::none_of(graph_.nodes(), [&](const Node& node) {
      const auto updates = static_cast<size_t>(GetOpDef(node.op).updates);
      return std::ranges::any_of(
          std::span(node.inputs).first(updates),
          [&](ValueId updated) { return layout(updated).root == id; });
    });
  }

  void CheckOwner(ValueId id) {
    const ValueInfo& value = graph_.value(id);
    const PlannedBuffer& slot = buffer(id);
    Region expected = Region::kActivations;
    if (value.on_host) {
      expected = value.is_leaf() ? Region::kHostState : Region::kHostOffload;
    } else if (node_ != nullptr && slot.region == Region::kOutside) {
      expected = Region::kOutside;  // CheckBody knows what may be there
    } else if (slot.region == Region::kOutside && IsConstant(id)) {
      expected = Region::kOutside;
    } else if (value.is_leaf() && value.role == Role::kParam) {
      expected = Region::kWeights;
    } else if (value.is_leaf() && value.role == Role::kState) {
      expected = Region::kState;
    } else if (value.is_leaf() &&
               (value.role == Role::kInput || value.role == Role::kCache)) {
      expected = Region::kIo;
    }
    if (slot.region != expected) {
      Complain(Quoted(value.name), " is in region ", RegionName(slot.region),
               ", it belongs in ", RegionName(expected));
    }
    if (slot.size < value.type.bytes()) {
      Complain(Quoted(value.name), " needs ", value.type.bytes(),
               " bytes, its slot has ", slot.size);
    }
  }

  void CheckViews() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueId root = layout(id).root;
      const Range in = FindExtent(id);
      extents_.push_back(in);
      const Bytes begin = RangeOf(buffer(root)).begin;
      if (in.begin < begin ||
          in.end > begin + graph_.value(root).type.bytes()) {
        Complain("view ", Quoted(name(id)), " reaches outside its root ",
                 Quoted(name(root)));
      }
    }
  }

  void RunSchedule() {
    Ownership bytes(end_);
    if (plan_.reserve != -1) {
      bytes.Write(RangeOf(reserve()), Ownership::kBackend);
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf()) bytes.Write(Extent(id), id);
    }
    for (NodeId n = 0; n < graph_.num_nodes() && !Full(); ++n) {
      if (!GetOpDef(graph_.node(n).op).is_view()) RunNode(n, &bytes);
    }
    const NodeId end = graph_.num_nodes();
    for (const GraphOutput& output : graph_.outputs()) {
      CheckRead(bytes, output.value, end);
    }
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& value = graph_.value(id);
      if (value.is_leaf() && value.role != Role::kSaved && !IsDying(id) &&
          !shared_.contains(id)) {
        CheckRead(bytes, id, end);
      }
    }
    if (plan_.reserve == -1) return;
    const auto intruder =
        bytes.Intruder(RangeOf(reserve()), Ownership::kBackend);
    if (intruder) {
      Complain("the backend's reserve is overwritten",
               *intruder < 0 ? std::string()
                             : StrCat(" by ", Quoted(name(*intruder))));
    }
  }

  // "time 7 (backward of "h")"; of the time behind all nodes, the end.
  std::string When(NodeId time) const {
    if (time == graph_.num_nodes()) return "the end of the step";
    return StrCat("time ", time, " (", graph_.Describe(time), ")");
  }

  void CheckRead(const Ownership& bytes, ValueId id, NodeId time) {
    const ValueId root = layout(id).root;
    const auto intruder = bytes.Intruder(Extent(id), root);
    if (!intruder) return;
    Complain(Quoted(name(id)), " is read at ", When(time), " where ",
             *intruder == Ownership::kNobody
                 ? std::string("nothing has been written")
             : *intruder == Ownership::kBackend
                 ? std::string("the backend keeps its own")
                 : StrCat(Quoted(name(*intruder)), " was written since"));
  }

  void RunNode(NodeId n, Ownership* bytes) {
    const Node& node = graph_.node(n);
    for (const ValueId input : node.inputs) CheckRead(*bytes, input, n);

    std::vector<Range>& written = written_;  // results, then scratch
    written.clear();
    for (const ValueId result : node.results) {
      written.push_back(Extent(result));
    }
    for (const auto* scratch_of :
         {&plan_.workspace_of, &plan_.host_workspace_of}) {
      const int32_t scratch = (*scratch_of)[static_cast<size_t>(n)];
      if (scratch < 0) continue;
      written.push_back(RangeOf(plan_.buffers[static_cast<size_t>(scratch)]));
    }
    for (size_t w = 0; w < written.size(); ++w) {
      for (size_t other = 0; other < w; ++other) {
        if (written[w].Overlaps(written[other])) {
          Complain("two results or scratch of ", graph_.Describe(n),
                   " share bytes at ", When(n));
        }
      }
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (written[w].Overlaps(Extent(node.inputs[i])) &&
            !MayShare(node, w, i)) {
          Complain("operand ", Quoted(name(node.inputs[i])),
                   " is overwritten at ", When(n), " while it is read");
        }
      }
    }
    for (size_t w = 0; w < written.size(); ++w) {
      bytes->Write(written[w], w < node.results.size()
                                   ? layout(node.results[w]).root
                                   : Ownership::kNobody);
    }
  }

  // Whether what is written `w`th may lie on operand `i`: an update on what it
  // updates, or result 0 exactly on an operand that the kernel may overwrite.
  bool MayShare(const Node& node, size_t w, size_t i) const {
    const OpDef& def = GetOpDef(node.op);
    if (w >= node.results.size()) return false;
    if (static_cast<int>(w) < def.updates) return w == i;
    const ValueId input = node.inputs[i];
    return w == 0 && i < 32 && (def.may_overwrite >> i & 1) != 0 &&
           Extent(node.results[0]) == Extent(input) &&
           IsContiguous(graph_.value(input).type.shape, layout(input).strides);
  }

  // The stated lifetimes must cover every use: reports and poisoning rely on
  // them.
  void CheckLifetimes() {
    const Time end = graph_.num_nodes();
    if (plan_.reserve != -1 &&
        (reserve().lower > 0 || reserve().upper <= end)) {
      Complain("the backend's reserve is stated to live in [", reserve().lower,
               ", ", reserve().upper, "); it must be there throughout");
    }
    const auto covers = [&](ValueId id, Time time) {
      const PlannedBuffer& slot = buffer(layout(id).root);
      if (slot.lower <= time && time < slot.upper) return;
      Complain(Quoted(name(id)), " is used at time ", time,
               ", its slot is stated to live in [", slot.lower, ", ",
               slot.upper, ")");
    };
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      for (const ValueId input : graph_.node(n).inputs) covers(input, n);
      for (const ValueId result : graph_.node(n).results) covers(result, n);
      for (const auto* scratch_of :
           {&plan_.workspace_of, &plan_.host_workspace_of}) {
        const int32_t scratch = (*scratch_of)[static_cast<size_t>(n)];
        if (scratch < 0) continue;
        const PlannedBuffer& slot = plan_.buffers[static_cast<size_t>(scratch)];
        if (slot.lower <= n && n < slot.upper) continue;
        Complain("the scratch of ", graph_.Describe(n), " is used at time ", n,
                 ", its slot is stated to live in [", slot.lower, ", ",
                 slot.upper, ")");
      }
    }
    for (const GraphOutput& output : graph_.outputs())
      covers(output.value, end);
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& value = graph_.value(id);
      if (!value.is_leaf() || IsDying(id)) continue;
      covers(id, 0);
      if (value.role != Role::kSaved) covers(id, end);
    }
  }

  const Graph& graph_;
  const Plan& plan_;
  const size_t limit_;
  Layouts layouts_;
  std::vector<Range> extents_;  // by value
  std::vector<Range> written_;  // by the node at hand
  std::vector<std::string> texts_;

  // Of a body.
  const Node* const node_ = nullptr;
  const std::vector<int32_t> second_of_ = {};
  const Bytes workspace_ = 0;
  const Bytes host_workspace_ = 0;
  std::vector<Bytes> outside_;  // by buffer: where it begins, if it is outside
  Bytes end_ = 0;               // of all memory
  std::set<ValueId> shared_;    // leaves that their outputs overwrite
};

}  // namespace

std::vector<std::string> ValidatePlan(const Graph& graph, const Plan& plan,
                                      size_t limit) {
  if (const Status match = CheckPlanIsFor(plan, graph); !match.ok()) {
    return {match.error().message};
  }
  return PlanVerifier(graph, plan, limit).Verify();
}

std::vector<std::string> ValidatePlanBeside(const Graph& graph,
                                            const Plan& plan, size_t limit) {
  if (const Status match = CheckPlanFits(plan, graph); !match.ok()) {
    return {match.error().message};
  }
  return PlanVerifier(graph, plan, limit).Verify();
}

}  // namespace stowage
