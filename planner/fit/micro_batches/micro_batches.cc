#include "planner/fit/micro_batches/micro_batches.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {

StepBuilder OfGraph(Graph graph) {
  return [graph = std::make_shared<const Graph>(std::move(graph))](
             int64_t, Sampling) -> Result<SampledStep> {
    return SampledStep{.graph = *graph};
  };
}

}  // namespace stowage

namespace stowage::fit {

namespace {

// The micro-batch that a node is in; all are in one.
size_t MicroBatchOf(const std::vector<NodeId>& begins, NodeId node) {
  const auto next = std::ranges::upper_bound(begins, node);
  STOWAGE_CHECK(next != begins.begin());
  return Index(next - begins.begin()) - 1;
}

// The nodes of each micro-batch that run. Views are left out: where one is taken is
// where it is first wanted, which may be in the next micro-batch.
std::vector<std::vector<NodeId>> RunsOf(const SampledStep& step) {
  std::vector<std::vector<NodeId>> runs(step.begins.size());
  for (NodeId id = 0; id < step.graph.num_nodes(); ++id) {
    if (GetOpDef(step.graph.node(id).op).is_view()) continue;
    runs[MicroBatchOf(step.begins, id)].push_back(id);
  }
  return runs;
}

// Equal for micro-batches whose nodes have the same ops and types, in order.
uint64_t Likeness(const Graph& graph, const std::vector<NodeId>& nodes) {
  Fnv1a hash;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    hash.Update(OpName(node.op));
    for (const ValueId result : node.results) {
      hash.Update(graph.value(result).type.ToString());
    }
  }
  return hash.digest();
}

Error Unlike(const SampledStep& step, std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[micro-batches] graph ", Quoted(step.graph.name()), " ",
                      why, "; expected a sample of the step to plan it by")};
}

}  // namespace

bool IsWhole(const SampledStep& step) {
  return std::ranges::count(step.counts, 1) == std::ssize(step.counts);
}

int64_t CountOf(const SampledStep& step, NodeId node) {
  return step.counts[MicroBatchOf(step.begins, node)];
}

double FlopsOf(const SampledStep& step) {
  double flops = 0;
  for (NodeId id = 0; id < step.graph.num_nodes(); ++id) {
    flops += NodeFlops(step.graph, step.graph.node(id)) *
             static_cast<double>(CountOf(step, id));
  }
  return flops;
}

Result<Script> StretchScript(const SampledStep& sample, const Script& script,
                             const SampledStep& step) {
  const std::vector<std::vector<NodeId>> of_sample = RunsOf(sample);
  std::map<uint64_t, size_t> kinds;
  for (size_t micro_batch = 0; micro_batch < of_sample.size(); ++micro_batch) {
    kinds[Likeness(sample.graph, of_sample[micro_batch])] = micro_batch;
  }
  // As positions in their micro-batches.
  std::vector<Script> by_micro_batch(of_sample.size());
  for (const Rerun& rerun : script) {
    const size_t micro_batch = MicroBatchOf(sample.begins, rerun.stage);
    const std::vector<NodeId>& runs = of_sample[micro_batch];
    const auto place = [&](NodeId node) {
      return static_cast<NodeId>(std::ranges::lower_bound(runs, node) -
                                 runs.begin());
    };
    for (const NodeId node : {rerun.stage, rerun.node}) {
      if (std::ranges::binary_search(runs, node)) continue;
      return Unlike(sample, "runs a node of one micro-batch again for another");
    }
    by_micro_batch[micro_batch].push_back(
        {place(rerun.stage), place(rerun.node)});
  }
  Script stretched;
  size_t number = 0;
  for (const std::vector<NodeId>& runs : RunsOf(step)) {
    ++number;
    const auto kind = kinds.find(Likeness(step.graph, runs));
    if (kind == kinds.end()) {
      return Unlike(step, StrCat("has a micro-batch, number ", number,
                                 ", that is like none of the sample's"));
    }
    for (const Rerun& rerun : by_micro_batch[kind->second]) {
      stretched.push_back({runs[Index(rerun.stage)], runs[Index(rerun.node)]});
    }
  }
  return stretched;
}

std::vector<std::string> NamesInMicroBatches(
    const Graph& graph, const std::vector<std::string>& names,
    int64_t micro_batches) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    const size_t before = all.size();
    for (int64_t p = 1; p <= micro_batches && !graph.Find(name); ++p) {
      const std::string of_micro_batch = StrCat(name, "/", p);
      if (graph.Find(of_micro_batch)) all.push_back(of_micro_batch);
    }
    if (all.size() == before) all.push_back(name);
  }
  return all;
}

std::vector<RecomputedNode> InAllMicroBatches(
    std::vector<RecomputedNode> of_each) {
  std::vector<RecomputedNode> all;
  std::map<std::string, size_t, std::less<>> index;
  for (RecomputedNode& recomputed : of_each) {
    recomputed.name.resize(
        std::min(recomputed.name.size(), recomputed.name.rfind('/')));
    const auto [at, is_new] = index.try_emplace(recomputed.name, all.size());
    if (is_new) {
      all.push_back(std::move(recomputed));
      continue;
    }
    RecomputedNode& sum = all[at->second];
    sum.freed = std::max(sum.freed, recomputed.freed);
    sum.flops += recomputed.flops;
    sum.times += recomputed.times;
  }
  return all;
}

namespace {

constexpr std::string_view kSuffix = "/1";  // of the sample's names

// The first axis as two: which micro-batch, which place in it.
Shape Divided(const Shape& whole, int64_t times) {
  Shape divided;
  divided.push_back(times);
  divided.push_back(whole[0] / times);
  for (int i = 1; i < whole.rank(); ++i) divided.push_back(whole[i]);
  return divided;
}

class Repeater {
 public:
  Repeater(const Graph& from, const MicroBatchLoop& loop, int64_t times,
           std::string_view before)
      : from_(from),
        loop_(loop),
        before_(before),
        times_(times),
        body_(StrCat(from.name(), ".micro_batch")),
        to_(from.name()),
        inner_(from, &body_),
        outer_(from, &to_) {}

  Result<Graph> Repeat() {
    STOWAGE_RETURN_IF_ERROR(FindRoles());
    DeclareLeaves();
    CopyMicroBatch();
    if (body_.error()) return *body_.error();
    STOWAGE_RETURN_IF_ERROR(EmitLoop());
    for (NodeId id = 0; id < from_.num_nodes(); ++id) {
      if (IsInMicroBatch(from_.node(id)) || IsBefore(from_.node(id))) continue;
      STOWAGE_RETURN_IF_ERROR(CheckAreThere(from_.node(id).inputs));
      outer_.CopyNode(id);
    }
    for (const GraphOutput& output : from_.outputs()) {
      STOWAGE_RETURN_IF_ERROR(CheckAreThere({&output.value, 1}));
    }
    outer_.DeclareOutputs();
    return to_.Finish();
  }

 private:
  // An input that is cut, and its part in the micro-batch.
  struct Cut {
    ValueId input;
    TensorType part;
    Value leaf = {};  // of the body
  };

  const ValueInfo& info(ValueId id) const { return from_.value(id); }
  bool IsBefore(const Node& node) const {
    return !before_.empty() && node.origin == before_;
  }
  bool IsInMicroBatch(const Node& node) const {
    return node.phase != Phase::kUpdate && !IsBefore(node);
  }
  // A leaf of the step, or something made before the first micro-batch.
  bool IsOutside(ValueId id) const {
    return info(id).is_leaf() || IsBefore(from_.node(info(id).producer));
  }
  bool IsOneOf(ValueId id, const std::vector<std::string>& names) const {
    return std::ranges::find(names, info(id).name) != names.end();
  }
  bool IsSaved(ValueId id) const { return info(id).role == Role::kSaved; }

  // The input of which node `id` takes the part; nothing of other nodes.
  Cut* CutOf(const Node& node) {
    if (node.op != OpKind::kSlice) return nullptr;
    const auto at = std::ranges::find(cuts_, node.inputs[0], &Cut::input);
    return at == cuts_.end() ? nullptr : &*at;
  }

  Status FindRoles();
  void DeclareLeaves();
  void CopyMicroBatch();
  Status EmitLoop();
  Status CheckAreThere(std::span<const ValueId> ids) const;

  const Graph& from_;
  const MicroBatchLoop& loop_;
  const std::string_view before_;
  const int64_t times_;
  GraphBuilder body_, to_;
  GraphCopy inner_, outer_;
  std::vector<Cut> cuts_;
  std::vector<ValueId> whole_;   // of all micro-batches: leaves, or made before
  std::vector<NodeId> sums_;     // an add each
  std::vector<NodeId> joins_;    // a slice_update each
  std::vector<Value> operands_;  // of the loop, in the outer graph
  std::vector<ValueId> leaves_;  // of the body
};

Status Repeater::FindRoles() {
  std::vector<bool> is_whole(Index(from_.num_values()), false);
  for (NodeId id = 0; id < from_.num_nodes(); ++id) {
    const Node& node = from_.node(id);
    if (!IsInMicroBatch(node)) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (IsOneOf(input, loop_.joined) && node.op == OpKind::kSliceUpdate) {
        joins_.push_back(id);
      }
      if (!IsOutside(input)) continue;
      if (IsSaved(input)) {
        if (node.op != OpKind::kAdd || i > 0) {
          return Error{ErrorCode::kInvalidArgument,
                       StrCat("[micro-batches] ", OpName(node.op), " reads ",
                              Quoted(info(input).name), " of graph ",
                              Quoted(from_.name()),
                              "; expected one add, which sums up")};
        }
        sums_.push_back(id);
      } else if (node.op == OpKind::kSlice && IsOneOf(input, loop_.cut)) {
        if (CutOf(node) == nullptr) {
          cuts_.push_back({.input = input, .part = info(node.results[0]).type});
        }
      } else {
        is_whole[Index(input)] = true;
      }
    }
  }
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    if (is_whole[Index(id)]) whole_.push_back(id);
  }
  return {};
}

// Of the step, and of the body in the order in which a loop has them.
void Repeater::DeclareLeaves() {
  for (ValueId id = 0; id < from_.num_values(); ++id) {
    if (info(id).is_leaf() && !IsSaved(id)) outer_.DeclareLeaf(id);
  }
  for (NodeId id = 0; id < from_.num_nodes(); ++id) {
    if (IsBefore(from_.node(id))) outer_.CopyNode(id);
  }
  const auto declare = [&](ValueId like, TensorType type) {
    const Value leaf = body_.LeafLike({.name = info(like).name,
                                       .type = std::move(type),
                                       .role = Role::kInput,
                                       .source = info(like).source});
    if (leaf.ok()) leaves_.push_back(leaf.id());
    return leaf;
  };
  to_.SetOrigin(Phase::kForward, "");
  for (Cut& cut : cuts_) {
    cut.leaf = declare(cut.input, cut.part);
    operands_.push_back(Reshape(outer_[cut.input],
                                Divided(info(cut.input).type.shape, times_)));
  }
  for (const ValueId id : whole_) {
    inner_.Map(id, declare(id, info(id).type));
    operands_.push_back(outer_[id]);
  }
  for (const NodeId id : sums_) {
    const ValueId leaf = from_.node(id).inputs[0];
    inner_.Map(leaf, declare(leaf, info(leaf).type));
  }
}

void Repeater::CopyMicroBatch() {
  for (NodeId id = 0; id < from_.num_nodes(); ++id) {
    const Node& node = from_.node(id);
    if (!IsInMicroBatch(node) || std::ranges::count(joins_, id) > 0 ||
        IsOneOf(node.results[0], loop_.joined)) {
      continue;
    }
    if (const Cut* const cut = CutOf(node)) {
      inner_.Map(node.results[0], cut->leaf);
      continue;
    }
    inner_.CopyNode(id);
    for (const ValueId result : node.results) {
      std::string_view name = info(result).name;
      if (!name.ends_with(kSuffix)) continue;
      name.remove_suffix(kSuffix.size());
      if (!body_.Find(name)) body_.Name(name, inner_[result]);
    }
  }
}

Status Repeater::EmitLoop() {
  std::vector<ValueId> outputs;
  std::vector<std::string> names;
  for (const NodeId id : sums_) {
    const ValueId sum = from_.node(id).results[0];
    outputs.push_back(inner_[sum].id());
    names.push_back(info(sum).name);
  }
  for (const NodeId id : joins_) {
    outputs.push_back(inner_[from_.node(id).inputs[1]].id());
    names.push_back(
        StrCat(info(from_.node(id).results[0]).name, "@micro_batches"));
  }
  STOWAGE_ASSIGN_OR_RETURN(Graph body,
                           MakeBody(body_.graph(), leaves_, outputs));
  std::string origin;
  for (const Node& node : from_.nodes()) {
    if (origin.empty() && node.phase == Phase::kBackward && !IsBefore(node)) {
      origin = node.origin;
    }
  }
  to_.SetOrigin(Phase::kBackward, origin);
  const std::vector<Value> results = to_.EmitNamed(
      OpKind::kLoop, operands_,
      {{"iterations", times_},
       {"carried", int64_t{0}},
       {"sliced", static_cast<int64_t>(cuts_.size())},
       {"summed", static_cast<int64_t>(sums_.size())},
       {"reverse", int64_t{0}},
       {"bodies", SubGraphs{std::make_shared<const Graph>(std::move(body))}}},
      names);
  if (to_.error()) return *to_.error();
  for (size_t i = 0; i < sums_.size(); ++i) {
    const ValueId sum = from_.node(sums_[i]).results[0];
    const Role role = info(sum).role;
    to_.SetRole(results[i], role == Role::kOutput ? Role::kActivation : role);
    outer_.Map(sum, results[i]);
  }
  for (size_t i = 0; i < joins_.size(); ++i) {
    const ValueId whole = from_.node(joins_[i]).results[0];
    outer_.Map(whole,
               Reshape(results[sums_.size() + i], info(whole).type.shape));
  }
  return {};
}

Status Repeater::CheckAreThere(std::span<const ValueId> ids) const {
  for (const ValueId id : ids) {
    if (outer_[id].ok() || to_.error()) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[micro-batches] ", Quoted(info(id).name), " of graph ",
               Quoted(from_.name()),
               " is of one micro-batch, and wanted after all of them")};
  }
  return {};
}

}  // namespace

Result<Graph> RepeatMicroBatch(const Graph& graph, const MicroBatchLoop& loop,
                               int64_t times, std::string_view before) {
  return Repeater(graph, loop, times, before).Repeat();
}

}  // namespace stowage::fit
