#include "autodiff/shard_weights.h"

#include <map>
#include <vector>

#include "autodiff/ranks.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {
namespace {

class WeightSharder {
 public:
  WeightSharder(const Graph& graph, int64_t ranks)
      : graph_(graph),
        ranks_(ranks),
        layouts_(ComputeLayouts(graph)),
        g_(graph.name()),
        copy_(graph, &g_) {}

  Result<Graph> Run() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& info = graph_.value(id);
      if (info.is_leaf()) DeclareLeaf(id, info);
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (IsSplit(output.value)) {
        return Refuse(output.value, "is an output");
      }
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      STOWAGE_RETURN_IF_ERROR(CopyNode(id));
    }
    copy_.DeclareOutputs();
    return g_.Finish();
  }

 private:
  // A param: its block, and what was gathered of it last.
  struct Split {
    Value block;
    Value whole = {};
    NodeId read = kNoNode;  // last
    Phase phase = Phase::kForward;
    std::map<ValueId, Value> views = {};  // of `whole`
  };

  void DeclareLeaf(ValueId id, const ValueInfo& info) {
    if (info.role != Role::kParam) {
      copy_.DeclareLeaf(id);
      return;
    }
    const int64_t block = (info.type.shape.num_elements() - 1) / ranks_ + 1;
    g_.SetOrigin(Phase::kForward, "", info.source);
    splits_[id].block =
        g_.Param(OwnName(info.name), info.type.dtype, {block}, Init::Zeros());
  }

  ValueId root(ValueId id) const { return layouts_[Index(id)].root; }
  bool IsSplit(ValueId id) const { return splits_.contains(root(id)); }

  Error Refuse(ValueId id, std::string_view what) const {
    return {
        ErrorCode::kUnsupported,
        StrCat("[ranks] param ", Quoted(graph_.value(root(id)).name), " ", what,
               "; a param that is split can only be read, and be "
               "updated block by block")};
  }

  Status CopyNode(NodeId id) {
    const Node& node = graph_.node(id);
    // Views are taken of what is gathered, when they are read.
    if (GetOpDef(node.op).is_view() && IsSplit(node.inputs[0])) return {};
    if (node.op == OpKind::kOwnBlock && splits_.contains(node.inputs[0])) {
      copy_.Map(node.results[0], splits_.at(node.inputs[0]).block);
      return {};
    }
    if (node.op == OpKind::kAllGatherUpdate && IsSplit(node.inputs[0])) {
      return {};  // the block has its new content, and nobody reads the whole
    }
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      const ValueId target = node.inputs[static_cast<size_t>(r)];
      if (IsSplit(target)) return Refuse(target, "is updated as a whole");
    }
    for (const ValueId input : node.inputs) {
      if (IsSplit(input)) copy_.Map(input, Gathered(input, id));
    }
    copy_.CopyNode(id);
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      const Value target = copy_[node.inputs[static_cast<size_t>(r)]];
      const Value result = copy_[node.results[static_cast<size_t>(r)]];
      if (!result.ok()) continue;
      if (g_.info(target).role == Role::kParam)
        g_.SetRole(result, Role::kParam);
    }
    return {};
  }

  // What stands for `id`, a split param or a view of one, for node `reader`.
  Value Gathered(ValueId id, NodeId reader) {
    const ValueId param = root(id);
    Split& split = splits_.at(param);
    const Node& node = graph_.node(reader);
    const bool is_near = split.read != kNoNode && split.phase == node.phase &&
                         reader - split.read <= kReadersApart;
    if (!is_near) {
      const ValueInfo& info = graph_.value(param);
      copy_.SetOrigin(reader);
      split.whole = AllGather(split.block, ranks_, info.type.shape);
      if (!g_.Find(info.name)) g_.Name(info.name, split.whole);
      split.views.clear();
    }
    split.read = reader;
    split.phase = node.phase;
    return ViewOf(split, id);
  }

  Value ViewOf(Split& split, ValueId id) {
    const ValueInfo& info = graph_.value(id);
    if (info.is_leaf()) return split.whole;
    if (const auto known = split.views.find(id); known != split.views.end()) {
      return known->second;
    }
    const Node& node = graph_.node(info.producer);
    copy_.Map(node.inputs[0], ViewOf(split, node.inputs[0]));
    copy_.CopyNode(info.producer);
    for (const ValueId result : node.results) {
      split.views[result] = copy_[result];
    }
    return split.views.at(id);
  }

  const Graph& graph_;
  const int64_t ranks_;
  const Layouts layouts_;
  GraphBuilder g_;
  GraphCopy copy_;
  std::map<ValueId, Split> splits_;  // by param
};

}  // namespace

Result<Graph> ShardWeights(const Graph& graph, int64_t ranks) {
  return WeightSharder(graph, ranks).Run();
}

}  // namespace stowage
