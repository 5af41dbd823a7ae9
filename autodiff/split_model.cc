#include "autodiff/split_model.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/strings.h"
#include "ir/graph_copy.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {
namespace {

std::string LeafName(const Graph& piece, ValueId value) {
  return StrCat("total:", piece.value(value).name);
}

// What a micro-batch cannot know.
std::vector<ValueId> UnknownTo(const BatchAnalysis& analysis) {
  std::vector<ValueId> values;
  for (const BatchTotal& total : analysis.totals) values.push_back(total.value);
  for (const BatchConstant& constant : analysis.constants) {
    values.push_back(constant.value);
  }
  return values;
}

// By node: whether one of `wanted` follows from it. What is `known` needs no node.
std::vector<bool> NodesFor(const Graph& graph, std::vector<ValueId> wanted,
                           const std::vector<bool>& known) {
  std::vector<bool> nodes(Index(graph.num_nodes()), false);
  while (!wanted.empty()) {
    const ValueId id = wanted.back();
    wanted.pop_back();
    const NodeId producer = graph.value(id).producer;
    if (producer == kNoNode || known[Index(id)] || nodes[Index(producer)]) {
      continue;
    }
    nodes[Index(producer)] = true;
    for (const ValueId input : graph.node(producer).inputs) {
      wanted.push_back(input);
    }
  }
  return nodes;
}

Status ExpectNone(const Graph& whole, const Graph& piece,
                  const std::vector<BatchObstacle>& obstacles,
                  std::string_view loss) {
  if (obstacles.empty()) return {};
  const BatchObstacle& first = obstacles.front();
  return Error{
      ErrorCode::kUnsupported,
      StrCat("[micro-batches] graph ", Quoted(whole.name()),
             " cannot take its batch in parts like ", Quoted(piece.name()),
             ": they would change ", first.name == loss ? "the loss, " : "",
             Quoted(first.name), " (", first.why, ")",
             obstacles.size() > 1
                 ? StrCat(" and ", obstacles.size() - 1, " more")
                 : std::string(),
             "; take the batch whole, or allow the change "
             "(allow_batch_change, --allow-batch-change)")};
}

}  // namespace

Status SplitModel::Add(const Graph& piece) {
  for (const ValueId id : piece.Leaves(Role::kInput)) {
    const ValueInfo& input = piece.value(id);
    const std::optional<ValueId> in_whole = whole_.Find(input.name);
    if (!in_whole) continue;
    const TensorType& whole = whole_.value(*in_whole).type;
    if (whole.shape.rank() != input.type.shape.rank() ||
        whole.dtype != input.type.dtype ||
        ExamplesAxis(input.type, whole) != -2) {
      continue;
    }
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[micro-batches] input ", Quoted(input.name), " is ",
               whole.ToString(), " for the batch ", Quoted(whole_.name()),
               " and ", input.type.ToString(), " for ", Quoted(piece.name()),
               ": it pairs examples, and cannot be cut")};
  }
  STOWAGE_RETURN_IF_ERROR(axes_.Add(piece));
  places_.push_back({.piece = piece, .axes = axes_});
  if (models_.contains(&piece)) return {};
  Model model = {.analysis = AnalyzeBatch(whole_, piece,
                                          {.has_max = ranks_.ranks == 1,
                                           .allows_change = allows_change_})};
  if (!allows_change_) {
    STOWAGE_RETURN_IF_ERROR(ExpectNone(
        whole_, piece, ObstaclesToSplit(piece, model.analysis, loss_), loss_));
  }
  const auto kinds = [this](const Graph& graph, const BatchAnalysis& analysis) {
    std::vector<BatchKind> all;
    for (const BatchTotal& total : analysis.totals) all.push_back(total.kind);
    for (const GraphOutput& output : graph.outputs()) {
      all.push_back(analysis.values[Index(output.value)].kind);
    }
    if (const auto loss = graph.Find(loss_)) {
      all.push_back(analysis.values[Index(*loss)].kind);
    }
    return all;
  };
  const Graph& first = places_.front().piece;
  if (!models_.empty() && kinds(first, models_.at(&first).analysis) !=
                              kinds(piece, model.analysis)) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[micro-batches] graph ", Quoted(whole_.name()),
                        " sums other values up for micro-batches of another "
                        "size")};
  }
  STOWAGE_ASSIGN_OR_RETURN(model.graph,
                           Rewritten(piece, model.analysis, axes_.weight()));
  models_.emplace(&piece, std::move(model));
  return {};
}

bool SplitModel::has_totals() const {
  return std::ranges::any_of(models_, [](const auto& each) {
    return !UnknownTo(each.second.analysis).empty();
  });
}

BatchKind SplitModel::KindOf(const Graph& piece,
                             std::string_view output) const {
  const BatchKind kind =
      models_.at(&piece).analysis.values[Index(*piece.Find(output))].kind;
  const bool is_found = kind != BatchKind::kMixed &&
                        (kind != BatchKind::kMax || ranks_.ranks == 1);
  return is_found ? kind : BatchKind::kMean;
}

std::optional<Value> SplitModel::total(std::string_view leaf) const {
  const auto it = totals_.find(leaf);
  if (it == totals_.end()) return std::nullopt;
  return it->second;
}

Result<Graph> SplitModel::Rewritten(const Graph& piece,
                                    const BatchAnalysis& analysis,
                                    double share) const {
  const std::vector<ValueId> unknown = UnknownTo(analysis);
  if (unknown.empty() && analysis.by_share.empty()) return piece;
  GraphBuilder g(piece.name());
  GraphCopy copy(piece, &g);
  copy.DeclareLeaves();
  std::vector<bool> known(Index(piece.num_values()), false);
  std::map<ValueId, Value> leaves;
  for (const ValueId id : unknown) {
    const ValueInfo& value = piece.value(id);
    known[Index(id)] = true;
    leaves[id] = g.LeafLike({.name = LeafName(piece, id),
                             .type = value.type,
                             .role = Role::kInput,
                             .source = value.source});
    copy.Map(id, leaves[id]);
  }
  std::vector<ValueId> wanted;
  for (const GraphOutput& output : piece.outputs()) {
    wanted.push_back(output.value);
  }
  if (const auto loss = piece.Find(loss_)) wanted.push_back(*loss);
  for (const Node& node : piece.nodes()) {
    if (GetOpDef(node.op).updates > 0) wanted.push_back(node.results[0]);
  }
  const std::vector<bool> is_wanted = NodesFor(piece, wanted, known);
  auto scaled = analysis.by_share.begin();
  for (NodeId id = 0; id < piece.num_nodes(); ++id) {
    const Node& node = piece.node(id);
    std::vector<std::pair<ValueId, Value>> unscaled;
    for (; scaled != analysis.by_share.end() && scaled->node == id; ++scaled) {
      if (!is_wanted[Index(id)]) continue;
      const ValueId operand = node.inputs[static_cast<size_t>(scaled->operand)];
      unscaled.emplace_back(operand, copy[operand]);
      copy.SetOrigin(id);
      copy.Map(operand, MulScalar(copy[operand], share));
    }
    if (!is_wanted[Index(id)]) continue;
    copy.CopyNode(id);
    for (const auto& [operand, value] : unscaled) copy.Map(operand, value);
    for (const ValueId result : node.results) {
      if (!known[Index(result)]) continue;
      // Of which the name is the leaf's, should it be an output.
      g.Name(StrCat(piece.value(result).name, "~part"), copy[result]);
      copy.Map(result, leaves[result]);
    }
  }
  copy.DeclareOutputs();
  return g.Finish();
}

Value SplitModel::Combined(size_t total,
                           const std::vector<Value>& parts) const {
  Value whole;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Place& place = places_[p];
    const BatchKind kind = models_.at(&place.piece).analysis.totals[total].kind;
    const Value part = kind == BatchKind::kMean
                           ? MulScalar(parts[p], place.axes.weight())
                           : parts[p];
    if (p == 0) {
      whole = part;
    } else {
      whole = kind == BatchKind::kMax ? Maximum(whole, part)
                                      : stowage::Add(whole, part);
    }
  }
  return ranks_.ranks == 1 ? whole : AllReduce(whole, ranks_.ranks);
}

void SplitModel::EmitTotals(const std::function<Value(std::string_view)>& leaf,
                            GraphBuilder* g) {
  if (!has_totals()) return;
  g->SetOrigin(Phase::kForward, kTotals);
  struct Copied {
    GraphCopy copy;
    std::vector<bool> nodes = {};  // that totals need
    NodeId next = 0;
  };
  GraphCopy constants(whole_, g, "/total");
  constants.UseOrigin(std::string(kTotals));
  const auto whole_constant = [&](ValueId id) {
    if (!constants[id].ok()) constants.CopyNode(whole_.value(id).producer);
    return constants[id];
  };
  for (const Place& place : places_) {
    const BatchAnalysis& analysis = models_.at(&place.piece).analysis;
    for (const BatchConstant& constant : analysis.constants) {
      totals_[LeafName(place.piece, constant.value)] =
          whole_constant(constant.whole_value);
    }
  }
  std::vector<Copied> copies;
  for (size_t p = 0; p < places_.size(); ++p) {
    const auto& [piece, axes] = places_[p];
    const BatchAnalysis& analysis = models_.at(&piece).analysis;
    copies.push_back({.copy = GraphCopy(piece, g, StrCat("/total.", p + 1))});
    Copied& copied = copies.back();
    copied.copy.UseOrigin(std::string(kTotals));
    std::vector<bool> is_constant(Index(piece.num_values()), false);
    for (const BatchConstant& constant : analysis.constants) {
      is_constant[Index(constant.value)] = true;
      copied.copy.Map(constant.value, whole_constant(constant.whole_value));
    }
    std::vector<ValueId> wanted;
    for (const BatchTotal& total : analysis.totals) {
      wanted.push_back(total.value);
    }
    copied.nodes = NodesFor(piece, wanted, is_constant);
    for (NodeId id = 0; id < piece.num_nodes(); ++id) {
      if (!copied.nodes[Index(id)]) continue;
      for (const ValueId input : piece.node(id).inputs) {
        if (!piece.value(input).is_leaf() || copied.copy[input].ok()) continue;
        copied.copy.Map(input,
                        axes.Part(piece, input, leaf(piece.value(input).name)));
      }
    }
  }
  const Graph& first = places_.front().piece;
  const std::vector<BatchTotal>& totals = models_.at(&first).analysis.totals;
  for (size_t t = 0; t < totals.size(); ++t) {
    std::vector<Value> parts;
    for (size_t p = 0; p < places_.size(); ++p) {
      const Graph& piece = places_[p].piece;
      const ValueId value = models_.at(&piece).analysis.totals[t].value;
      Copied& copied = copies[p];
      for (; copied.next <= piece.value(value).producer; ++copied.next) {
        if (copied.nodes[Index(copied.next)]) copied.copy.CopyNode(copied.next);
      }
      parts.push_back(copied.copy[value]);
    }
    copies.front().copy.SetOrigin(first.value(totals[t].value).producer);
    const Value whole = Combined(t, parts);
    g->Name(LeafName(first, totals[t].value), whole);
    for (size_t p = 0; p < places_.size(); ++p) {
      const Graph& piece = places_[p].piece;
      const ValueId value = models_.at(&piece).analysis.totals[t].value;
      copies[p].copy.Map(value, whole);
      totals_[LeafName(piece, value)] = whole;
    }
  }
  g->SetOrigin(Phase::kForward, "");
}

}  // namespace stowage
