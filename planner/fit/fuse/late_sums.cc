#include "planner/fit/fuse/late_sums.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/element_groups.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "planner/lifetimes.h"

namespace stowage::fit {

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
