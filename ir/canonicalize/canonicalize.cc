#include "ir/canonicalize/canonicalize.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/canonicalize/expressions.h"
#include "ir/graph_copy.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

using canonical::Expressions;
using canonical::Match;

// A gate needs the activation that an earlier round has found, and permutations cancel only
// after attention has been found.
constexpr int kMaxRounds = 4;

using Matches = std::vector<std::optional<Match>>;  // by node

std::optional<Match> MatchNode(const Expressions& e, NodeId id) {
  const Node& node = e.graph().node(id);
  if (node.phase != Phase::kForward ||
      !IsFloat(e.graph().value(node.results[0]).type.dtype)) {
    return {};
  }
  if (node.op == OpKind::kCrossEntropy) {
    return canonical::MatchLinearCrossEntropy(e, id);
  }
  if (node.op == OpKind::kMatMul) return canonical::MatchAttention(e, id);
  if (node.op == OpKind::kConv) return canonical::MatchLinearConv(e, id);
  if (node.op == OpKind::kAdd) return canonical::MatchLayerNormShift(e, id);
  if (node.op == OpKind::kLog || node.op == OpKind::kLog1p) {
    return canonical::MatchSoftplus(e, id);
  }
  if (node.op == OpKind::kPermute || node.op == OpKind::kCopy) {
    return canonical::MatchPermutation(e, id);
  }
  if (node.op != OpKind::kMul && node.op != OpKind::kDiv) return {};
  for (const auto match :
       {canonical::MatchSilu, canonical::MatchGelu, canonical::MatchMish,
        canonical::MatchHardSwish, canonical::MatchLayerNorm,
        canonical::MatchRmsNorm, canonical::MatchGate}) {
    if (auto found = match(e, id)) return found;
  }
  return {};
}

// Nodes that outputs or in-place updates depend on.
std::vector<bool> Needed(const Graph& graph, const Matches& matches) {
  std::vector<bool> needed(static_cast<size_t>(graph.num_nodes()));
  std::vector<ValueId> open;
  for (const GraphOutput& output : graph.outputs()) {
    open.push_back(output.value);
  }
  const auto need = [&](NodeId id) {
    if (needed[Index(id)]) return;
    needed[Index(id)] = true;
    const auto& match = matches[Index(id)];
    const auto& operands = match ? match->operands : graph.node(id).inputs;
    open.insert(open.end(), operands.begin(), operands.end());
  };
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const OpDef& def = GetOpDef(graph.node(id).op);
    if (def.updates > 0 || def.collective || def.results_on_host ||
        !BodiesOf(graph.node(id)).empty()) {
      need(id);
    }
  }
  while (!open.empty()) {
    const NodeId producer = graph.value(open.back()).producer;
    open.pop_back();
    if (producer != kNoNode) need(producer);
  }
  return needed;
}

Result<Graph> Replace(const Graph& graph, const Matches& matches) {
  const std::vector<bool> needed = Needed(graph, matches);
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (!needed[Index(id)]) continue;
    const auto& match = matches[Index(id)];
    if (!match) {
      copy.CopyNode(id);
      continue;
    }
    std::vector<Value> operands;
    for (const ValueId operand : match->operands) {
      operands.push_back(copy[operand]);
    }
    copy.SetOrigin(id);
    const ValueId result = graph.node(id).results[0];
    const Value made = match->emit(g, operands);
    const std::string& name = graph.value(result).name;
    const bool is_own = std::ranges::none_of(
        operands, [&](Value each) { return each.id() == made.id(); });
    copy.Map(result, is_own && !g.Find(name) ? g.Name(name, made) : made);
  }
  copy.DeclareOutputs();
  return g.Finish();
}

}  // namespace

Result<Canonicalized> Canonicalize(const Graph& graph) {
  Canonicalized made{.graph = graph};
  for (int round = 0; round < kMaxRounds; ++round) {
    const Expressions e(made.graph);
    Matches matches(static_cast<size_t>(made.graph.num_nodes()));
    bool is_any = false;
    for (NodeId id = 0; id < made.graph.num_nodes(); ++id) {
      matches[Index(id)] = MatchNode(e, id);
      is_any = is_any || matches[Index(id)].has_value();
    }
    made.misses = e.misses();
    if (!is_any) break;
    const std::vector<bool> needed = Needed(made.graph, matches);
    for (size_t i = 0; i < matches.size(); ++i) {
      if (matches[i] && needed[i] && !matches[i]->pattern.empty()) {
        ++made.found[std::string(matches[i]->pattern)];
      }
    }
    STOWAGE_ASSIGN_OR_RETURN(made.graph, Replace(made.graph, matches));
  }
  return made;
}

}  // namespace stowage
