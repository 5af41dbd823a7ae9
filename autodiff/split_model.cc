#include "autodiff/split_model.h"

#include <algorithm>
#include <utility>

#include "autodiff/step_parts.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {
namespace {

Error Changed(const Graph& whole, const Graph& micro_batch,
              const std::vector<BatchObstacle>& obstacles,
              std::string_view loss) {
  const BatchObstacle& first = obstacles.front();
  return Error{ErrorCode::kUnsupported,
               StrCat("[micro-batches] graph ", Quoted(whole.name()),
                      " cannot take its batch in parts like ",
                      Quoted(micro_batch.name()), ": they would change ",
                      first.name == loss ? "the loss, " : "",
                      Quoted(first.name), " (", first.why, ")",
                      obstacles.size() > 1
                          ? StrCat(" and ", obstacles.size() - 1, " more")
                          : std::string(),
                      "; take the batch whole, or allow the change "
                      "(allow_batch_change, --allow-batch-change)")};
}

// Builds the graph of the totals and the list of how they are joined.
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
        // From here on, the value for all parts.
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

std::string TotalName(const Graph& micro_batch, ValueId value) {
  return StrCat("total:", micro_batch.value(value).name);
}

std::vector<ValueId> UnknownTo(const BatchAnalysis& analysis) {
  std::vector<ValueId> values;
  for (const BatchTotal& total : analysis.totals) values.push_back(total.value);
  for (const BatchConstant& constant : analysis.constants) {
    values.push_back(constant.value);
  }
  return values;
}

// By node: whether one of `wanted` depends on it. Values that are `known` need no node.
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

Result<Graph> RewriteMicroBatch(const Graph& micro_batch,
                                const BatchAnalysis& analysis, double share,
                                std::string_view loss_name) {
  const std::vector<ValueId> unknown = UnknownTo(analysis);
  if (unknown.empty() && analysis.by_share.empty()) return micro_batch;
  GraphBuilder g(micro_batch.name());
  GraphCopy copy(micro_batch, &g);
  copy.DeclareLeaves();
  std::vector<bool> known(Index(micro_batch.num_values()), false);
  std::map<ValueId, Value> leaves;
  for (const ValueId id : unknown) {
    const ValueInfo& value = micro_batch.value(id);
    known[Index(id)] = true;
    leaves[id] = g.LeafLike({.name = TotalName(micro_batch, id),
                             .type = value.type,
                             .role = Role::kInput,
                             .source = value.source});
    copy.Map(id, leaves[id]);
  }
  std::vector<ValueId> wanted;
  for (const GraphOutput& output : micro_batch.outputs()) {
    wanted.push_back(output.value);
  }
  if (const auto loss = micro_batch.Find(loss_name)) wanted.push_back(*loss);
  for (const Node& node : micro_batch.nodes()) {
    if (GetOpDef(node.op).updates > 0) wanted.push_back(node.results[0]);
  }
  const std::vector<bool> is_wanted = NodesFor(micro_batch, wanted, known);
  auto scaled = analysis.by_share.begin();
  for (NodeId id = 0; id < micro_batch.num_nodes(); ++id) {
    const Node& node = micro_batch.node(id);
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
      // The leaf has the name, in case it is an output.
      g.Name(StrCat(micro_batch.value(result).name, "~part"), copy[result]);
      copy.Map(result, leaves[result]);
    }
  }
  copy.DeclareOutputs();
  return g.Finish();
}

Status SplitModel::Add(const Graph& micro_batch) {
  for (const ValueId id : micro_batch.Leaves(Role::kInput)) {
    const ValueInfo& input = micro_batch.value(id);
    const std::optional<ValueId> in_whole = whole_.Find(input.name);
    if (!in_whole) continue;
    const TensorType& whole = whole_.value(*in_whole).type;
    if (whole.shape.rank() != input.type.shape.rank() ||
        whole.dtype != input.type.dtype ||
        ExamplesAxis(input.type, whole) != -2) {
      continue;
    }
    return Error{ErrorCode::kUnsupported,
                 StrCat("[micro-batches] input ", Quoted(input.name), " is ",
                        whole.ToString(), " for the batch ",
                        Quoted(whole_.name()), " and ", input.type.ToString(),
                        " for ", Quoted(micro_batch.name()),
                        ": it pairs examples, and cannot be cut")};
  }
  STOWAGE_RETURN_IF_ERROR(axes_.Add(micro_batch));
  places_.push_back({.micro_batch = micro_batch, .axes = axes_});
  if (models_.contains(&micro_batch)) return {};
  STOWAGE_ASSIGN_OR_RETURN(Model model, ModelOf(micro_batch));
  const auto kinds = [this](const Graph& graph, const Model& of) {
    const BatchAnalysis& analysis = of.analysis;
    std::vector<std::string> all;
    const auto add = [&](BatchKind kind, std::string_view name) {
      all.push_back(StrCat(static_cast<int>(kind), " ", name));
    };
    for (const BatchTotal& total : analysis.totals) add(total.kind, "");
    for (const GraphOutput& output : graph.outputs()) {
      add(analysis.values[Index(output.value)].kind, "");
    }
    if (const auto loss = graph.Find(loss_)) {
      add(analysis.values[Index(*loss)].kind, "");
    }
    if (of.cache) {
      for (const CachedGradient& each : of.cache->gradients) {
        add(each.kind, each.leaf);
      }
    }
    return all;
  };
  const Graph& first = places_.front().micro_batch;
  if (!models_.empty() &&
      kinds(first, models_.at(&first)) != kinds(micro_batch, model)) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[micro-batches] graph ", Quoted(whole_.name()),
                        " sums other values up for micro-batches of another "
                        "size")};
  }
  models_.emplace(&micro_batch, std::move(model));
  return {};
}

Result<SplitModel::Model> SplitModel::ModelOf(const Graph& micro_batch) const {
  const double share = axes_.weight();
  Model model = {
      .analysis = AnalyzeBatch(whole_, micro_batch,
                               {.has_max = ranks_.ranks == 1,
                                .allows_change = options_.allow_batch_change})};
  STOWAGE_ASSIGN_OR_RETURN(
      model.graph,
      RewriteMicroBatch(micro_batch, model.analysis, share, loss_));
  if (options_.allow_batch_change) return model;
  const std::vector<BatchObstacle> obstacles =
      ObstaclesToSplit(micro_batch, model.analysis, loss_);
  if (obstacles.empty()) return model;
  if (ranks_.ranks == 1) {
    Result<GradientCache> cache =
        CacheGradients(whole_, micro_batch, model.graph, model.analysis,
                       obstacles, share, loss_, options_);
    if (cache.ok()) {
      model.graph = cache->micro_batch;
      model.cache = *std::move(cache);
      return model;
    }
    if (cache.error().code != ErrorCode::kUnsupported) return cache.error();
  }
  return Changed(whole_, micro_batch, obstacles, loss_);
}

bool SplitModel::has_totals() const {
  return std::ranges::any_of(models_, [](const auto& each) {
    return !UnknownTo(each.second.analysis).empty();
  });
}

BatchKind SplitModel::KindOf(const Graph& micro_batch,
                             std::string_view output) const {
  const BatchKind kind = models_.at(&micro_batch)
                             .analysis.values[Index(*micro_batch.Find(output))]
                             .kind;
  const bool is_found = kind != BatchKind::kMixed &&
                        (kind != BatchKind::kMax || ranks_.ranks == 1);
  return is_found ? kind : BatchKind::kMean;
}

std::optional<Value> SplitModel::total(std::string_view leaf,
                                       const BatchAxes& axes) const {
  if (const auto it = totals_.find(leaf); it != totals_.end()) {
    return it->second;
  }
  const auto it = cached_.find(leaf);
  if (it == cached_.end()) return std::nullopt;
  const Cached& cached = it->second;
  return cached.axis < 0 ? cached.value : axes.Part(cached.value, cached.axis);
}

bool SplitModel::IsWholeOutput(std::string_view output) const {
  if (!has_cache()) return false;
  const std::vector<std::string>& outputs =
      models_.begin()->second.cache->outputs;
  return std::ranges::find(outputs, output) != outputs.end();
}

std::optional<Value> SplitModel::whole_output(std::string_view output) const {
  const auto it = whole_outputs_.find(output);
  if (it == whole_outputs_.end()) return std::nullopt;
  return it->second;
}

std::vector<std::string> SplitModel::CachedNames(const GraphBuilder& g) const {
  std::vector<std::string> names;
  for (const auto& [leaf, cached] : cached_) {
    if (cached.axis >= 0) names.push_back(g.info(cached.value).name);
  }
  return names;
}

bool SplitModel::are_cached_first() const {
  return std::ranges::all_of(
      cached_, [](const auto& each) { return each.second.axis <= 0; });
}

Value SplitModel::Combined(size_t total,
                           const std::vector<Value>& parts) const {
  Value whole;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Place& place = places_[p];
    const BatchKind kind =
        models_.at(&place.micro_batch).analysis.totals[total].kind;
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
                            const LossGradient& seed, GraphBuilder* g) {
  if (has_totals()) EmitPlainTotals(leaf, g);
  if (has_cache()) EmitCache(leaf, seed, g);
  g->SetOrigin(Phase::kForward, "");
}

void SplitModel::EmitPlainTotals(
    const std::function<Value(std::string_view)>& leaf, GraphBuilder* g) {
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
    const BatchAnalysis& analysis = models_.at(&place.micro_batch).analysis;
    for (const BatchConstant& constant : analysis.constants) {
      totals_[TotalName(place.micro_batch, constant.value)] =
          whole_constant(constant.whole_value);
    }
  }
  std::vector<Copied> copies;
  for (size_t p = 0; p < places_.size(); ++p) {
    const auto& [micro_batch, axes] = places_[p];
    const BatchAnalysis& analysis = models_.at(&micro_batch).analysis;
    copies.push_back(
        {.copy = GraphCopy(micro_batch, g, StrCat("/total.", p + 1))});
    Copied& copied = copies.back();
    copied.copy.UseOrigin(std::string(kTotals));
    std::vector<bool> is_constant(Index(micro_batch.num_values()), false);
    for (const BatchConstant& constant : analysis.constants) {
      is_constant[Index(constant.value)] = true;
      copied.copy.Map(constant.value, whole_constant(constant.whole_value));
    }
    std::vector<ValueId> wanted;
    for (const BatchTotal& total : analysis.totals) {
      wanted.push_back(total.value);
    }
    copied.nodes = NodesFor(micro_batch, wanted, is_constant);
    for (NodeId id = 0; id < micro_batch.num_nodes(); ++id) {
      if (!copied.nodes[Index(id)]) continue;
      for (const ValueId input : micro_batch.node(id).inputs) {
        if (!micro_batch.value(input).is_leaf() || copied.copy[input].ok())
          continue;
        copied.copy.Map(input, axes.Part(micro_batch, input,
                                         leaf(micro_batch.value(input).name)));
      }
    }
  }
  const Graph& first = places_.front().micro_batch;
  const std::vector<BatchTotal>& totals = models_.at(&first).analysis.totals;
  for (size_t t = 0; t < totals.size(); ++t) {
    std::vector<Value> parts;
    for (size_t p = 0; p < places_.size(); ++p) {
      const Graph& micro_batch = places_[p].micro_batch;
      const ValueId value = models_.at(&micro_batch).analysis.totals[t].value;
      Copied& copied = copies[p];
      for (; copied.next <= micro_batch.value(value).producer; ++copied.next) {
        if (copied.nodes[Index(copied.next)]) copied.copy.CopyNode(copied.next);
      }
      parts.push_back(copied.copy[value]);
    }
    copies.front().copy.SetOrigin(first.value(totals[t].value).producer);
    const Value whole = Combined(t, parts);
    g->Name(TotalName(first, totals[t].value), whole);
    for (size_t p = 0; p < places_.size(); ++p) {
      const Graph& micro_batch = places_[p].micro_batch;
      const ValueId value = models_.at(&micro_batch).analysis.totals[t].value;
      copies[p].copy.Map(value, whole);
      totals_[TotalName(micro_batch, value)] = whole;
    }
  }
}

void SplitModel::EmitCache(const std::function<Value(std::string_view)>& leaf,
                           const LossGradient& seed, GraphBuilder* g) {
  std::vector<EncoderPart> parts;
  for (const Place& place : places_) {
    const Model& model = models_.at(&place.micro_batch);
    parts.push_back({.encoder = model.cache->encoder,
                     .axes = place.axes,
                     .dropouts = DropoutIds(model.graph)});
  }
  const auto known = [&](std::string_view name) {
    const auto total = totals_.find(name);
    return total == totals_.end() ? std::nullopt
                                  : std::optional<Value>(total->second);
  };
  const GradientCache& cache = *models_.at(&places_.front().micro_batch).cache;
  const HeadValues made = EmitHead(cache, parts, leaf, known, seed, g);
  for (size_t i = 0; i < cache.gradients.size(); ++i) {
    const CachedGradient& each = cache.gradients[i];
    if (each.leaf.empty()) continue;
    cached_[each.leaf] = {
        .value = made.gradients[i],
        .axis = each.kind == BatchKind::kPerExample ? each.axis : -1};
  }
  for (size_t i = 0; i < cache.outputs.size(); ++i) {
    whole_outputs_[cache.outputs[i]] = made.outputs[i];
  }
}

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
