#include "planner/fit/fuse/fuse.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/element_groups.h"
#include "ir/fused.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "planner/lifetimes.h"

namespace stowage::fit {
namespace {

// Nodes that become one, where the first of them stands.
struct Group {
  OpKind op = OpKind::kFusedElementwise;
  std::vector<NodeId> nodes = {};     // in order
  std::vector<ValueId> leaves = {};   // of the program, but for a product
  std::vector<ValueId> inputs = {};   // of the new node
  std::vector<ValueId> results = {};  // of it: the old ones that it makes
};

// What is taken: all, or less where all of it needs a larger arena.
struct Taken {
  bool kept = true;       // results beside the last of a chain
  bool gradients = true;  // those of attention and norms, with what follows
};

// Finds what to fuse.
class GroupFinder {
 public:
  GroupFinder(const Graph& graph, const Plan& plan, const Fusions& fusions,
              const Taken& taken)
      : graph_(graph),
        fusions_(fusions),
        takes_(taken),
        layouts_(ComputeLayouts(graph)),
        room_(graph, plan),
        readers_(Index(graph.num_values())),
        is_output_(Index(graph.num_values()), false),
        taken_(Index(graph.num_nodes()), false) {
    for (NodeId n = 0; n < graph.num_nodes(); ++n) {
      for (const ValueId input : graph.node(n).inputs) {
        std::vector<NodeId>& readers = readers_[Index(input)];
        if (readers.empty() || readers.back() != n) readers.push_back(n);
      }
    }
    for (const GraphOutput& output : graph.outputs()) {
      is_output_[Index(output.value)] = true;
    }
  }

  std::vector<Group> Find() {
    for (NodeId n = 0; takes_.gradients && n < graph_.num_nodes(); ++n) {
      const OpKind op = graph_.node(n).op;
      if (op == OpKind::kAttentionGrad) FindConcat(n);
      if (op == OpKind::kLayerNormGrad) FindSum(n);
    }
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      const OpKind op = graph_.node(n).op;
      if (taken_[Index(n)]) continue;
      if (op == OpKind::kMatMul ? fusions_.products : IsPart(n)) FindChain(n);
    }
    return std::move(groups_);
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }
  bool IsPart(NodeId n) const {
    const Node& node = graph_.node(n);
    return MayBeFused(node.op) && fusions_.elementwise(node.op) &&
           IsFloat(TypeOf(node.results[0]).dtype);
  }
  // Whether nothing reads `id` but `reader`.
  bool IsOnlyFor(ValueId id, NodeId reader) const {
    return !is_output_[Index(id)] && readers_[Index(id)].size() == 1 &&
           readers_[Index(id)].front() == reader;
  }
  // Whether `id` is made before node `n` runs, or is a view of what is.
  bool IsThereBefore(ValueId id, NodeId n) const {
    NodeId producer = graph_.value(id).producer;
    while (producer >= n && GetOpDef(graph_.node(producer).op).is_view()) {
      id = graph_.node(producer).inputs[0];
      producer = graph_.value(id).producer;
    }
    return producer < n;
  }
  bool IsContiguousValue(ValueId id) const {
    return IsContiguous(TypeOf(id).shape, layouts_[Index(id)].strides);
  }
  // One row for all rows.
  bool IsOneRow(ValueId id) const {
    const Shape& shape = TypeOf(id).shape;
    const Strides& strides = layouts_[Index(id)].strides;
    const int last = shape.rank() - 1;
    for (int axis = 0; axis < last; ++axis) {
      if (shape[axis] != 1 && strides[axis] != 0) return false;
    }
    return last >= 0 && (shape[last] == 1 || strides[last] == 1);
  }

  void Add(Group group) {
    for (const NodeId n : group.nodes) taken_[Index(n)] = true;
    groups_.push_back(std::move(group));
  }

  // attention_grad, reshapes of its results, and a concat of these.
  void FindConcat(NodeId n) {
    const Node& node = graph_.node(n);
    const Shape& q = TypeOf(node.inputs[0]).shape;
    const Shape& k = TypeOf(node.inputs[1]).shape;
    if (q[1] != k[1]) return;
    Group group{
        .op = OpKind::kAttentionQkvGrad, .nodes = {n}, .inputs = node.inputs};
    std::optional<NodeId> concat;
    std::vector<ValueId> parts;
    for (const ValueId result : node.results) {
      if (is_output_[Index(result)] || readers_[Index(result)].size() != 1) {
        return;
      }
      const NodeId reshape = readers_[Index(result)].front();
      if (graph_.node(reshape).op != OpKind::kReshape) return;
      const ValueId part = graph_.node(reshape).results[0];
      const Shape& of_result = TypeOf(result).shape;
      const Shape rows = {of_result[0], of_result[1],
                          of_result[2] * of_result[3]};
      if (TypeOf(part).shape != rows || readers_[Index(part)].size() != 1) {
        return;
      }
      const NodeId reader = readers_[Index(part)].front();
      if (!IsOnlyFor(part, reader) || (concat && *concat != reader)) return;
      concat = reader;
      parts.push_back(part);
      group.nodes.push_back(reshape);
    }
    const Node& last = graph_.node(*concat);
    if (last.op != OpKind::kConcat || last.inputs != parts ||
        last.attrs.Int("axis") != 2 || last.phase != node.phase) {
      return;
    }
    group.nodes.push_back(*concat);
    group.results = last.results;
    Add(std::move(group));
  }

  // layer_norm_grad, and a sum with its first result.
  void FindSum(NodeId n) {
    const Node& node = graph_.node(n);
    const ValueId dx = node.results[0];
    if (is_output_[Index(dx)] || readers_[Index(dx)].size() != 1) return;
    const NodeId reader = readers_[Index(dx)].front();
    const Node& sum = graph_.node(reader);
    if (taken_[Index(reader)]) return;
    if (sum.op != OpKind::kAdd || sum.phase != node.phase) return;
    const ValueId other = sum.inputs[sum.inputs[0] == dx ? 1 : 0];
    if (other == dx || !IsThereBefore(other, n) || !IsContiguousValue(other)) {
      return;
    }
    Group group{.op = OpKind::kLayerNormGradAdd,
                .nodes = {n, reader},
                .inputs = node.inputs,
                .results = node.results};
    group.inputs.push_back(other);
    group.results[0] = sum.results[0];
    Add(std::move(group));
  }

  // What goes on from node `n`, step by step.
  void FindChain(NodeId n) {
    const Node& head = graph_.node(n);
    const bool is_product = head.op == OpKind::kMatMul;
    Group group{
        .op = is_product ? OpKind::kFusedMatMul : OpKind::kFusedElementwise,
        .nodes = {n}};
    const size_t most_leaves = kMaxFusedOperands - (is_product ? 1 : 0);
    if (!is_product) AddLeaves(head, &group);
    std::vector<ValueId> kept;
    ValueId value = head.results[0];
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      const size_t parts = group.nodes.size() - (is_product ? 1 : 0);
      if (parts == kMaxFusedSteps) break;
      for (const NodeId m : readers_[Index(value)]) {
        if (taken_[Index(m)] || !IsPart(m)) continue;
        const Node& next = graph_.node(m);
        // Sums are made with the product, in registers; on a CPU, anything else took
        // longer there than by itself.
        if (is_product && next.op != OpKind::kAdd) continue;
        if (next.phase != head.phase ||
            TypeOf(next.results[0]) != TypeOf(value)) {
          continue;
        }
        Group longer = group;
        if (!AddOperands(next, value, n, is_product, &longer) ||
            longer.leaves.size() > most_leaves) {
          continue;
        }
        if (!IsOnlyFor(value, m)) {
          // The product itself is not kept.
          if (!takes_.kept || parts == 0 ||
              kept.size() + 1 == kMaxFusedResults ||
              !room_.Take(n, m, TypeOf(value).bytes())) {
            continue;
          }
          kept.push_back(value);
        }
        longer.nodes.push_back(m);
        group = std::move(longer);
        value = next.results[0];
        goes_on = true;
        break;
      }
    }
    if (group.nodes.size() == 1) return;
    group.inputs = group.leaves;
    if (is_product) {
      group.inputs.insert(group.inputs.begin(), head.inputs.begin(),
                          head.inputs.end());
    }
    group.results = {value};
    group.results.insert(group.results.end(), kept.begin(), kept.end());
    Add(std::move(group));
  }

  static void AddLeaves(const Node& node, Group* group) {
    for (const ValueId input : node.inputs) {
      if (std::ranges::find(group->leaves, input) == group->leaves.end()) {
        group->leaves.push_back(input);
      }
    }
  }
  // Adds what `next` reads beside `value`; false where it cannot be had when node
  // `head` runs.
  bool AddOperands(const Node& next, ValueId value, NodeId head,
                   bool is_product, Group* group) const {
    for (const ValueId input : next.inputs) {
      if (input == value) continue;
      if (!IsThereBefore(input, head)) return false;
      if (is_product && !IsContiguousValue(input) && !IsOneRow(input)) {
        return false;
      }
      if (std::ranges::find(group->leaves, input) == group->leaves.end()) {
        group->leaves.push_back(input);
      }
    }
    return true;
  }

  const Graph& graph_;
  const Fusions& fusions_;
  const Taken takes_;
  const Layouts layouts_;
  Room room_;
  std::vector<std::vector<NodeId>> readers_;  // per value, each once
  std::vector<bool> is_output_;               // per value
  std::vector<bool> taken_;                   // per node
  std::vector<Group> groups_;
};

// Writes the graph with the groups as nodes.
class Writer {
 public:
  Writer(const Graph& graph, std::vector<Group> groups)
      : graph_(graph),
        groups_(std::move(groups)),
        group_of_(Index(graph.num_nodes()), -1),
        written_(Index(graph.num_nodes()), false),
        g_(graph.name()),
        copy_(graph, &g_) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      for (const NodeId n : groups_[i].nodes) {
        group_of_[Index(n)] = static_cast<int>(i);
      }
    }
  }

  Result<Graph> Write() {
    copy_.DeclareLeaves();
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      const int of = group_of_[Index(n)];
      if (of < 0) {
        WriteNode(n);
        continue;
      }
      const Group& group = groups_[static_cast<size_t>(of)];
      if (group.nodes.front() == n) STOWAGE_RETURN_IF_ERROR(WriteGroup(group));
    }
    copy_.DeclareOutputs();
    return g_.Finish();
  }

 private:
  // A node as it is, unless it stood in front of its place already.
  void WriteNode(NodeId n) {
    if (written_[Index(n)]) return;
    written_[Index(n)] = true;
    copy_.CopyNode(n);
  }
  // What stands for `id`; views in front of it come now.
  Value Have(ValueId id) {
    if (!copy_[id].ok()) {
      const NodeId producer = graph_.value(id).producer;
      for (const ValueId input : graph_.node(producer).inputs) Have(input);
      WriteNode(producer);
    }
    return copy_[id];
  }

  Status WriteGroup(const Group& group) {
    std::vector<Value> operands;
    for (const ValueId input : group.inputs) operands.push_back(Have(input));
    STOWAGE_ASSIGN_OR_RETURN(Attrs attrs, AttrsOf(group));
    copy_.SetOrigin(group.nodes.front());
    std::vector<std::string> names;
    for (const ValueId result : group.results) {
      names.push_back(graph_.value(result).name);
    }
    const std::vector<Value> results =
        g_.EmitNamed(group.op, operands, std::move(attrs), names);
    if (g_.error()) return *g_.error();
    for (size_t r = 0; r < group.results.size(); ++r) {
      const Role role = graph_.value(group.results[r]).role;
      g_.SetRole(results[r], role == Role::kOutput ? Role::kActivation : role);
      copy_.Map(group.results[r], results[r]);
    }
    return {};
  }

  Result<Attrs> AttrsOf(const Group& group) {
    const Node& head = graph_.node(group.nodes.front());
    const bool is_product = group.op == OpKind::kFusedMatMul;
    if (group.op != OpKind::kFusedElementwise && !is_product) {
      return head.attrs;
    }
    STOWAGE_ASSIGN_OR_RETURN(Graph program, ProgramOfGroup(group, is_product));
    Attrs attrs = is_product ? head.attrs : Attrs();
    attrs.Set("program",
              SubGraphs{std::make_shared<const Graph>(std::move(program))});
    return attrs;
  }

  // The parts on leaves x0, x1, ...; results are called y0, y1, ...
  Result<Graph> ProgramOfGroup(const Group& group, bool is_product) {
    const size_t first = is_product ? 1 : 0;
    std::string name;
    for (size_t i = first; i < group.nodes.size(); ++i) {
      name += StrCat(i == first ? "" : ", ",
                     OpName(graph_.node(group.nodes[i]).op));
    }
    GraphBuilder program(name);
    const TensorType& type = graph_.value(group.results[0]).type;
    std::vector<ValueId> leaves = group.leaves;
    if (is_product) {
      leaves.insert(leaves.begin(),
                    graph_.node(group.nodes.front()).results[0]);
    }
    std::vector<std::pair<ValueId, Value>> values;
    for (size_t i = 0; i < leaves.size(); ++i) {
      values.emplace_back(
          leaves[i], program.Input(StrCat("x", i), type.dtype, type.shape));
    }
    const auto value_of = [&](ValueId id) {
      return std::ranges::find(values, id, &std::pair<ValueId, Value>::first)
          ->second;
    };
    for (size_t i = first; i < group.nodes.size(); ++i) {
      const Node& node = graph_.node(group.nodes[i]);
      std::vector<Value> operands;
      for (const ValueId input : node.inputs) {
        operands.push_back(value_of(input));
      }
      values.emplace_back(
          node.results[0],
          program.Emit(node.op, operands, node.attrs, SourceLoc{}).front());
    }
    for (size_t r = 0; r < group.results.size(); ++r) {
      program.Output(StrCat("y", r), value_of(group.results[r]));
    }
    return program.Finish();
  }

  const Graph& graph_;
  const std::vector<Group> groups_;
  std::vector<int> group_of_;  // per node; -1: none
  std::vector<bool> written_;  // per node
  GraphBuilder g_;
  GraphCopy copy_;
};

// Params of up to so many bytes are small.
constexpr Bytes kSmallParam = 64 << 10;

// The order in which updates of small params come last, one after the other; empty where
// there are fewer than two, or these are last already. Only the outputs of the graph may
// read what such an update gives, and what dies with it must find room to the end.
std::vector<NodeId> UpdatesLast(const Graph& graph, const Plan& plan,
                                const Fusions& fusions) {
  if (fusions.updates == nullptr) return {};
  std::vector<NodeId> last_reader(Index(graph.num_values()), -1);
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    for (const ValueId input : graph.node(n).inputs) {
      last_reader[Index(input)] = n;
    }
  }
  Room room(graph, plan);
  const auto moves = [&](NodeId n) {
    const Node& node = graph.node(n);
    if (!fusions.updates(node.op)) return false;
    if (graph.value(node.results[0]).type.bytes() > kSmallParam) return false;
    for (const ValueId result : node.results) {
      if (last_reader[Index(result)] != -1) return false;
    }
    Bytes dying = 0;
    for (const ValueId input : node.inputs) {
      const ValueInfo& value = graph.value(input);
      if (value.is_leaf() || last_reader[Index(input)] != n) continue;
      // All of what a view is of would live on.
      if (GetOpDef(graph.node(value.producer).op).is_view()) return false;
      dying += AlignUp(value.type.bytes(), plan.alignment);
    }
    return room.Take(n, graph.num_nodes(), dying);
  };
  std::vector<NodeId> order, moved;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    (moves(n) ? moved : order).push_back(n);
  }
  if (moved.size() < 2) return {};
  order.insert(order.end(), moved.begin(), moved.end());
  if (std::ranges::is_sorted(order)) return {};
  return order;
}

// `fused` with the updates of small params last, if its arena stays within `most`.
Result<Fused> WithUpdatesLast(Fused fused, const PlanOptions& options,
                              Bytes most) {
  const std::vector<NodeId> order =
      UpdatesLast(fused.graph, fused.plan, options.device.fusions);
  if (order.empty()) return fused;
  STOWAGE_ASSIGN_OR_RETURN(Graph graph, Reorder(fused.graph, order));
  STOWAGE_ASSIGN_OR_RETURN(Plan plan, PlanMemory(graph, options));
  if (plan.arena_bytes() > most) return fused;
  plan.order = fused.plan.order;
  return Fused{std::move(graph), std::move(plan), /*changed=*/true};
}

// The last sums of norms' gradients by one node, if the arena is no larger for it.
Result<Fused> WithLateSums(Fused fused, const PlanOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(std::optional<LateSums> late,
                           SumLate(fused.graph, fused.plan, options));
  if (!late) return fused;
  return Fused{std::move(late->graph), std::move(late->plan),
               /*changed=*/true};
}

// With several ops as one node, if the arena stays within that of `plan`.
Result<Fused> WithFusedNodes(const Graph& graph, const Plan& plan,
                             const PlanOptions& options) {
  constexpr Taken kTaken[] = {
      {}, {.kept = false}, {.gradients = false}, {false, false}};
  for (const Taken& taken : kTaken) {
    std::vector<Group> groups =
        GroupFinder(graph, plan, options.device.fusions, taken).Find();
    if (groups.empty()) break;
    Fused fused;
    STOWAGE_ASSIGN_OR_RETURN(fused.graph,
                             Writer(graph, std::move(groups)).Write());
    fused.changed = true;
    STOWAGE_ASSIGN_OR_RETURN(fused.plan, PlanMemory(fused.graph, options));
    if (fused.plan.arena_bytes() > plan.arena_bytes()) continue;
    fused.plan.order = plan.order;
    return fused;
  }
  return Fused{graph, plan};
}

}  // namespace

Result<Fused> Fuse(const Graph& graph, const Plan& plan,
                   const PlanOptions& options) {
  if (options.device.fusions.elementwise == nullptr) return Fused{graph, plan};
  PlanOptions unbounded = options;
  unbounded.budget.reset();
  STOWAGE_ASSIGN_OR_RETURN(Fused fused, WithFusedNodes(graph, plan, unbounded));
  STOWAGE_ASSIGN_OR_RETURN(
      fused, WithUpdatesLast(std::move(fused), unbounded, plan.arena_bytes()));
  return WithLateSums(std::move(fused), unbounded);
}

Room::Room(const Graph& graph, const Plan& plan)
    : alignment_(plan.alignment), live_(Index(graph.num_nodes()) + 2, 0) {
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != Region::kActivations &&
        buffer.region != Region::kWorkspace) {
      continue;
    }
    const Bytes slot = AlignUp(buffer.size, alignment_);
    live_[static_cast<size_t>(buffer.lower)] += slot;
    live_[static_cast<size_t>(buffer.upper)] -= slot;
  }
  std::partial_sum(live_.begin(), live_.end(), live_.begin());
  peak_ = *std::max_element(live_.begin(), live_.end());
}

bool Room::Take(NodeId begin, NodeId end, Bytes bytes, int count) {
  bytes = count * AlignUp(bytes, alignment_);
  for (NodeId t = begin; t < end; ++t) {
    if (live_[Index(t)] + bytes > peak_) return false;
  }
  for (NodeId t = begin; t < end; ++t) live_[Index(t)] += bytes;
  return true;
}

namespace {

// The gradient of a norm.
struct Norm {
  NodeId node = 0;
  int64_t parts = 0;
  std::vector<ValueId> sums = {};  // of its results, those that something reads
  NodeId first_reader = 0;         // of these; num_nodes(): only the caller
};

// Norms whose sums are made by one node, in front of node `place`.
struct SumGroup {
  std::vector<Norm> norms = {};  // by time
  NodeId place = 0;
};

// The gradients of norms, by time.
std::vector<Norm> FindNorms(const Graph& graph, const Fusions& fusions) {
  std::vector<NodeId> first_reader(Index(graph.num_values()), kNoNode);
  for (const GraphOutput& output : graph.outputs()) {
    first_reader[Index(output.value)] = graph.num_nodes();
  }
  for (NodeId n = graph.num_nodes() - 1; n >= 0; --n) {
    for (const ValueId id : graph.node(n).inputs) first_reader[Index(id)] = n;
  }
  std::vector<Norm> norms;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    OpArgsStorage storage;
    Norm norm = {.node = n,
                 .parts = fusions.sum_parts(MakeOpArgs(graph, node, &storage)),
                 .first_reader = graph.num_nodes()};
    if (norm.parts == 0 || PartsOf(node.attrs)) continue;
    for (const ValueId sum : std::span(node.results).subspan(1)) {  // behind dx
      if (first_reader[Index(sum)] == kNoNode) continue;
      norm.sums.push_back(sum);
      norm.first_reader = std::min(norm.first_reader, first_reader[Index(sum)]);
    }
    norms.push_back(std::move(norm));
  }
  return norms;
}

// As few groups as can be: one ends where the first of its sums is read. All sums of a
// group are of one type.
std::vector<SumGroup> GroupsOf(const Graph& graph,
                               std::span<const Norm> norms) {
  std::vector<SumGroup> groups;
  std::map<DType, size_t> open;  // of each type, the group that goes on
  for (const Norm& norm : norms) {
    if (norm.sums.empty()) continue;
    const DType dtype = graph.value(norm.sums[0]).type.dtype;
    const auto [at, is_first] = open.try_emplace(dtype, groups.size());
    if (!is_first && norm.node >= groups[at->second].place) {
      at->second = groups.size();
    }
    if (at->second == groups.size()) {
      groups.push_back({.place = norm.first_reader});
    }
    SumGroup& group = groups[at->second];
    group.norms.push_back(norm);
    group.place = std::min(group.place, norm.first_reader);
  }
  return groups;
}

// Moves the sums in front of updates that run as one with the first that reads them.
void KeepUpdatesTogether(const Graph& graph, const Fusions& fusions,
                         SumGroup* group) {
  if (fusions.updates == nullptr || group->place == graph.num_nodes()) return;
  const OpKind op = graph.node(group->place).op;
  if (!fusions.updates(op)) return;
  while (group->place - 1 > group->norms.back().node &&
         graph.node(group->place - 1).op == op) {
    --group->place;
  }
}

// Of a group's last `count` norms those whose parts find room until they are summed up.
void KeepWhatFits(const Graph& graph, size_t count, Room* room,
                  SumGroup* group) {
  std::vector<Norm>& norms = group->norms;
  std::vector<Norm> fitting;
  const size_t all = norms.size();
  for (size_t i = 0; i < std::min(count, all); ++i) {
    Norm& norm = norms[all - 1 - i];
    const TensorType& sum = graph.value(norm.sums[0]).type;
    const Bytes bytes = norm.parts * sum.shape[0] *
                        std::max(SizeOf(sum.dtype), SizeOf(DType::kF32));
    if (room->Take(norm.node + 1, group->place, bytes,
                   static_cast<int>(norm.sums.size()))) {
      fitting.push_back(std::move(norm));
    }
  }
  std::ranges::reverse(fitting);
  norms = std::move(fitting);
}

// Writes the graph with the groups' sums as nodes.
class SumWriter {
 public:
  // All must outlive this. What nothing reads is not summed up.
  SumWriter(const Graph& graph, std::span<const SumGroup> groups,
            std::span<const Norm> unread)
      : graph_(graph), g_(graph.name()), copy_(graph, &g_) {
    for (const Norm& norm : unread) parts_[norm.node] = norm.parts;
    for (const SumGroup& group : groups) {
      at_[group.place].push_back(&group);
      for (const Norm& norm : group.norms) parts_[norm.node] = norm.parts;
    }
  }

  Result<Graph> Write() {
    copy_.DeclareLeaves();
    for (NodeId n = 0; n <= graph_.num_nodes(); ++n) {
      for (const SumGroup* group : at_[n]) WriteSums(*group);
      if (n == graph_.num_nodes()) break;
      if (parts_.contains(n)) {
        WriteNorm(n);
      } else {
        copy_.CopyNode(n);
      }
    }
    copy_.DeclareOutputs();
    return g_.Finish();
  }

 private:
  void WriteNorm(NodeId n) {
    const Node& node = graph_.node(n);
    std::vector<Value> operands;
    for (const ValueId input : node.inputs) operands.push_back(copy_[input]);
    std::vector<std::string> names = {graph_.value(node.results[0]).name};
    for (const ValueId sum : std::span(node.results).subspan(1)) {
      names.push_back(StrCat(graph_.value(sum).name, "_parts"));
      while (g_.Find(names.back()) || graph_.Find(names.back())) {
        names.back() += "_";
      }
    }
    Attrs attrs = node.attrs;
    attrs.Set("parts", parts_.at(n));
    copy_.SetOrigin(n);
    Replace(node.results,
            g_.EmitNamed(node.op, operands, std::move(attrs), names));
  }

  void WriteSums(const SumGroup& group) {
    std::vector<ValueId> sums;
    std::vector<Value> partials;
    std::vector<std::string> names;
    for (const Norm& norm : group.norms) {
      for (const ValueId sum : norm.sums) {
        sums.push_back(sum);
        partials.push_back(copy_[sum]);
        names.push_back(graph_.value(sum).name);
      }
    }
    copy_.SetOrigin(group.norms.back().node);
    Replace(sums,
            g_.EmitNamed(OpKind::kSumPartials, partials,
                         {{"dtype", graph_.value(sums[0]).type.dtype}}, names));
  }

  // Lets `values` stand for the results `ids`.
  void Replace(std::span<const ValueId> ids, std::span<const Value> values) {
    if (g_.error()) return;
    for (size_t r = 0; r < ids.size(); ++r) {
      const Role role = graph_.value(ids[r]).role;
      g_.SetRole(values[r], role == Role::kOutput ? Role::kActivation : role);
      copy_.Map(ids[r], values[r]);
    }
  }

  const Graph& graph_;
  std::map<NodeId, std::vector<const SumGroup*>>
      at_;                           // by the place of their sums
  std::map<NodeId, int64_t> parts_;  // of norms in groups
  GraphBuilder g_;
  GraphCopy copy_;
};

}  // namespace

Result<std::optional<LateSums>> SumLate(const Graph& graph, const Plan& plan,
                                        const PlanOptions& options) {
  const Fusions& fusions = options.device.fusions;
  if (fusions.sum_parts == nullptr) return std::optional<LateSums>();
  const std::vector<Norm> norms = FindNorms(graph, fusions);
  std::vector<SumGroup> all = GroupsOf(graph, norms);
  for (SumGroup& group : all) KeepUpdatesTogether(graph, fusions, &group);
  std::vector<Norm> unread = norms;
  std::erase_if(unread, [](const Norm& norm) { return !norm.sums.empty(); });
  // All of a group, or as many of its last as a packer finds places for.
  for (const size_t count :
       {norms.size(), norms.size() / 2, norms.size() / 4}) {
    Room room(graph, plan);
    std::vector<SumGroup> groups = all;
    for (SumGroup& group : groups) KeepWhatFits(graph, count, &room, &group);
    std::erase_if(groups,
                  [](const SumGroup& group) { return group.norms.size() < 2; });
    if (groups.empty() && unread.empty()) break;
    LateSums late;
    STOWAGE_ASSIGN_OR_RETURN(late.graph,
                             SumWriter(graph, groups, unread).Write());
    STOWAGE_ASSIGN_OR_RETURN(late.plan, PlanMemory(late.graph, options));
    if (late.plan.arena_bytes() > plan.arena_bytes()) continue;
    late.plan.order = plan.order;
    return std::optional<LateSums>(std::move(late));
  }
  return std::optional<LateSums>();
}

}  // namespace stowage::fit
