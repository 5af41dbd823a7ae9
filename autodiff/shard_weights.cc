#include "autodiff/shard_weights.h"

#include <deque>
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
    FindGathers();
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      STOWAGE_RETURN_IF_ERROR(CopyNode(id));
    }
    copy_.DeclareOutputs();
    return g_.Finish();
  }

 private:
  // A param: its block, what was gathered of it for the reader at hand, and for later
  // ones.
  struct Split {
    Value block;
    Value whole = {};
    std::map<ValueId, Value> views = {};  // of `whole`
    std::deque<Value> ahead = {};
  };
  // What has to be there when `reader` is.
  struct Gather {
    ValueId param = 0;
    NodeId reader = kNoNode;
  };

  void DeclareLeaf(ValueId id, const ValueInfo& info) {
    if (info.role != Role::kParam) {
      copy_.DeclareLeaf(id);
      return;
    }
    const int64_t block = BlockElements(info.type.shape.num_elements(), ranks_);
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

  // Views are taken of what is gathered, when they are read; the block is there, and has
  // its new content, and nobody reads the whole of that.
  bool ReadsNothingWhole(const Node& node) const {
    if (node.inputs.empty()) return false;
    const ValueId of = node.inputs[0];
    if (node.op == OpKind::kOwnBlock) return splits_.contains(of);
    return IsSplit(of) &&
           (GetOpDef(node.op).is_view() || node.op == OpKind::kAllGatherUpdate);
  }

  // The params that are to be gathered, by reader.
  void FindGathers() {
    std::map<ValueId, NodeId> last;  // reader of each
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (ReadsNothingWhole(node)) continue;
      for (const ValueId input : node.inputs) {
        if (!IsSplit(input)) continue;
        const auto [read, is_first] = last.emplace(root(input), id);
        const bool is_near = !is_first &&
                             graph_.node(read->second).phase == node.phase &&
                             id - read->second <= kReadersApart;
        read->second = id;
        if (!is_near) gathers_.push_back({root(input), id});
      }
    }
  }

  // The end of those from `first` on that are for one reader.
  size_t EndOfReader(size_t first) const {
    size_t end = first;
    while (end < gathers_.size() &&
           gathers_[end].reader == gathers_[first].reader) {
      ++end;
    }
    return end;
  }

  // Begins what the readers behind `reader` will wait for: those of its phase, up to the
  // next that reads a matrix.
  void GatherAhead(NodeId reader) {
    const Phase phase = graph_.node(reader).phase;
    for (bool has_matrix = false; !has_matrix;) {
      if (begun_ == gathers_.size()) return;
      if (graph_.node(gathers_[begun_].reader).phase != phase) return;
      for (const size_t end = EndOfReader(begun_); begun_ < end; ++begun_) {
        const Gather& gather = gathers_[begun_];
        has_matrix |= graph_.value(gather.param).type.shape.rank() > 1;
        Begin(gather);
      }
    }
  }

  void Begin(const Gather& gather) {
    Split& split = splits_.at(gather.param);
    const ValueInfo& info = graph_.value(gather.param);
    copy_.SetOrigin(gather.reader);
    const Value whole = AllGather(split.block, ranks_, info.type.shape);
    if (!g_.Find(info.name)) g_.Name(info.name, whole);
    split.ahead.push_back(whole);
  }

  Status CopyNode(NodeId id) {
    const Node& node = graph_.node(id);
    if (ReadsNothingWhole(node)) {
      if (node.op == OpKind::kOwnBlock) {
        copy_.Map(node.results[0], splits_.at(node.inputs[0]).block);
      }
      return {};
    }
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      const ValueId target = node.inputs[static_cast<size_t>(r)];
      if (IsSplit(target)) return Refuse(target, "is updated as a whole");
    }
    TakeGathers(id);
    for (const ValueId input : node.inputs) {
      if (!IsSplit(input)) continue;
      copy_.Map(input, ViewOf(splits_.at(root(input)), input));
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

  // What was gathered for `reader` takes the place of what was gathered before.
  void TakeGathers(NodeId reader) {
    if (taken_ == gathers_.size() || gathers_[taken_].reader != reader) return;
    const size_t end = EndOfReader(taken_);
    for (; begun_ < end; ++begun_) Begin(gathers_[begun_]);
    // Unless the next one's are under way.
    if (begun_ == end) GatherAhead(reader);
    for (; taken_ < end; ++taken_) {
      Split& split = splits_.at(gathers_[taken_].param);
      split.whole = split.ahead.front();
      split.ahead.pop_front();
      split.views.clear();
    }
  }

  // What stands for `id`, a split param or a view of one.
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
  std::vector<Gather> gathers_;      // in the order of their readers
  size_t begun_ = 0, taken_ = 0;     // of them
};

}  // namespace

Result<Graph> ShardWeights(const Graph& graph, int64_t ranks) {
  return WeightSharder(graph, ranks).Run();
}

}  // namespace stowage
