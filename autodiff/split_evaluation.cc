#include "autodiff/split_evaluation.h"

#include <algorithm>
#include <utility>

#include "autodiff/split_model.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"

namespace stowage {
namespace {

// Makes the graph of the totals, and says how they are put together.
class TotalsBuilder {
 public:
  TotalsBuilder(const Graph& whole, const Graph& part,
                const BatchAnalysis& analysis)
      : whole_(whole),
        part_(part),
        analysis_(analysis),
        g_(StrCat(part.name(), "/totals")),
        copy_(part, &g_),
        rounds_(Index(part.num_values()), 0) {}

  Result<Graph> Build(std::vector<EvaluationTotal>* totals) {
    std::vector<bool> is_constant(Index(part_.num_values()), false);
    GraphCopy constants(whole_, &g_, "/whole");
    for (const BatchConstant& constant : analysis_.constants) {
      is_constant[Index(constant.value)] = true;
      if (!constants[constant.whole_value].ok()) {
        constants.CopyNode(whole_.value(constant.whole_value).producer);
      }
      copy_.Map(constant.value, constants[constant.whole_value]);
      Add(constant.value, BatchKind::kSame, totals);
    }
    std::vector<ValueId> wanted;
    for (const BatchTotal& total : analysis_.totals) {
      wanted.push_back(total.value);
    }
    const std::vector<bool> nodes = NodesFor(part_, wanted, is_constant);
    auto total = analysis_.totals.begin();
    for (NodeId id = 0; id < part_.num_nodes(); ++id) {
      if (!nodes[Index(id)]) continue;
      CopyNode(id);
      for (; total != analysis_.totals.end() &&
             part_.value(total->value).producer == id;
           ++total) {
        Add(total->value, total->kind, totals);
        is_total_.insert({total->value, TotalName(part_, total->value)});
      }
    }
    std::ranges::stable_sort(*totals, {}, &EvaluationTotal::round);
    return g_.Finish();
  }

 private:
  void CopyNode(NodeId id) {
    const Node& node = part_.node(id);
    int round = 0;
    for (const ValueId input : node.inputs) {
      const ValueInfo& value = part_.value(input);
      if (value.is_leaf() && !copy_[input].ok()) {
        copy_.DeclareLeaf(input);
      } else if (const auto found = is_total_.find(input);
                 found != is_total_.end()) {
        // Of all parts, from here on.
        copy_.Map(input, g_.LeafLike({.name = found->second,
                                      .type = value.type,
                                      .role = Role::kInput,
                                      .source = value.source}));
        ++rounds_[Index(input)];
        is_total_.erase(found);
      }
      round = std::max(round, rounds_[Index(input)]);
    }
    copy_.CopyNode(id);
    for (const ValueId result : node.results) rounds_[Index(result)] = round;
  }

  void Add(ValueId value, BatchKind kind,
           std::vector<EvaluationTotal>* totals) {
    const std::string name = TotalName(part_, value);
    const std::string output = StrCat("part of ", name);
    g_.Output(output, copy_[value]);
    totals->push_back({.input = name,
                       .output = output,
                       .kind = kind,
                       .round = rounds_[Index(value)]});
  }

  const Graph& whole_;
  const Graph& part_;
  const BatchAnalysis& analysis_;
  GraphBuilder g_;
  GraphCopy copy_;
  std::vector<int>
      rounds_;  // by value: how many totals it follows from in turn
  std::map<ValueId, std::string> is_total_;  // that no node has read yet
};

}  // namespace

void JoinPart(BatchKind kind, double share, std::span<const double> next,
              std::vector<double>* so_far) {
  const bool is_first = so_far->empty();
  if (is_first) so_far->assign(next.begin(), next.end());
  const bool counts_by_share =
      kind == BatchKind::kMean || kind == BatchKind::kMixed;
  for (size_t i = 0; i < next.size(); ++i) {
    double& joined = (*so_far)[i];
    if (counts_by_share) {
      joined = (is_first ? 0 : joined) + share * next[i];
    } else if (!is_first && kind == BatchKind::kSum) {
      joined += next[i];
    } else if (!is_first && kind == BatchKind::kMax) {
      joined = std::max(joined, next[i]);
    }
  }
}

Result<SplitEvaluation> SplitForEvaluation(const Graph& whole,
                                           const Graph& part, double share) {
  const BatchAnalysis analysis = AnalyzeBatch(whole, part);
  SplitEvaluation split;
  STOWAGE_ASSIGN_OR_RETURN(split.graph,
                           RewriteMicroBatch(part, analysis, share, ""));
  for (const GraphOutput& output : part.outputs()) {
    const BatchValue& value = analysis.values[Index(output.value)];
    split.outputs[output.name] = {
        .kind = value.kind,
        .why = value.kind == BatchKind::kMixed ? value.why : ""};
  }
  if (UnknownTo(analysis).empty()) return split;
  STOWAGE_ASSIGN_OR_RETURN(
      split.totals_graph,
      TotalsBuilder(whole, part, analysis).Build(&split.totals));
  return split;
}

}  // namespace stowage
