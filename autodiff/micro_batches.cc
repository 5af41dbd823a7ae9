#include "autodiff/micro_batches.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/micro_batches_in_turn.h"
#include "autodiff/split_model.h"
#include "autodiff/step_parts.h"
#include "autodiff/vjp.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/uses.h"

namespace stowage {

// Finishing may insert copies between nodes, so the first nodes are found by name.
Result<MicroBatchedStep> FinishMicroBatches(GraphBuilder& g,
                                            const std::vector<NodeId>& begins,
                                            std::vector<int64_t> counts) {
  if (g.error()) return *g.error();
  std::vector<std::string> names;
  for (const NodeId id : begins) {
    const Graph& graph = g.graph();
    names.push_back(graph.value(graph.node(id).results[0]).name);
  }
  MicroBatchedStep step{.counts = std::move(counts)};
  STOWAGE_ASSIGN_OR_RETURN(step.graph, g.Finish());
  for (const std::string& name : names) {
    const ValueId first = *step.graph.Find(name);
    step.begins.push_back(step.graph.value(first).producer);
  }
  step.begins.front() = 0;
  return step;
}

Status RewriteStep(MicroBatchedStep* step,
                   const std::function<Result<Graph>(const Graph&)>& rewrite) {
  STOWAGE_ASSIGN_OR_RETURN(Graph rewritten, rewrite(step->graph));
  for (NodeId& begin : step->begins) {
    for (NodeId id = begin; id < step->graph.num_nodes(); ++id) {
      const ValueId result = step->graph.node(id).results[0];
      const auto found = rewritten.Find(step->graph.value(result).name);
      if (!found) continue;
      begin = rewritten.value(*found).producer;
      break;
    }
  }
  step->begins.front() = 0;
  step->graph = std::move(rewritten);
  return {};
}

Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> micro_batches,
    std::string_view loss, const TrainOptions& options, MicroBatches which) {
  STOWAGE_RETURN_IF_ERROR(CheckTrainOptions(whole, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  Updater updater(options, &g);
  std::map<std::string, Value>
      gradients;  // by param; of the micro-batches so far
  const auto add = [&](const Gradient& made) {
    Value& sum = gradients[made.name];
    if (made.is_first) {
      sum = made.gradient;
    } else {
      g.SetOrigin(Phase::kBackward, made.name, made.source);
      sum = Add(sum, made.gradient);
      g.SetRole(sum, Role::kGradient);
    }
    if (made.is_last) g.Name(GradientName(made.name), sum);
    if (made.is_last && !UpdatesWait(options)) updater.Update(made.param, sum);
  };
  MicroBatchesInTurn loop(whole, whole, micro_batches, loss, {}, options, &g);
  STOWAGE_RETURN_IF_ERROR(loop.Run(which, &updater, add, [] {}));
  updater.GiveOut(gradients);
  if (UpdatesWait(options)) {
    std::vector<Value> all;
    for (const auto& [name, sum] : gradients) all.push_back(sum);
    updater.Await(all);
    for (const auto& [name, sum] : gradients) {
      updater.Update(*g.Find(name), sum);
    }
  }
  return FinishMicroBatches(g, loop.begins(), loop.counts());
}

namespace {

Error NoRepeat(const Graph& micro_batch, std::string_view why) {
  return Error{
      ErrorCode::kUnsupported,
      StrCat("[autodiff] micro-batch ", Quoted(micro_batch.name()), " ", why,
             "; a loop repeats micro-batches that do the same with the next "
             "examples")};
}

// Error: micro-batches like `micro_batch` differ in more than their examples.
Status CheckRepeats(const Graph& micro_batch) {
  if (DropoutIds(micro_batch) > 0) {
    return NoRepeat(micro_batch, "draws dropouts, each micro-batch others");
  }
  const Uses uses(micro_batch, ComputeLayouts(micro_batch));
  for (ValueId id = 0; id < micro_batch.num_values(); ++id) {
    if (micro_batch.value(id).is_leaf() && uses.overwriter(id) != kNoNode) {
      return NoRepeat(micro_batch,
                      StrCat("writes ", Quoted(micro_batch.value(id).name)));
    }
  }
  return {};
}

}  // namespace

Result<RepeatedMicroBatch> BuildRepeatedMicroBatch(
    const Graph& whole, const Graph& micro_batch, int64_t times,
    std::string_view loss, const TrainOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckTrainOptions(whole, options));
  STOWAGE_RETURN_IF_ERROR(CheckRepeats(micro_batch));
  SplitModel model(whole, whole, loss, {}, options);
  for (int64_t i = 0; i < times; ++i) {
    STOWAGE_RETURN_IF_ERROR(model.Add(micro_batch));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      const Differentiated graphs,
      Differentiate(model.graph(micro_batch), loss, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  GraphCopy leaves(whole, &g);
  for (ValueId id = 0; id < whole.num_values(); ++id) {
    if (whole.value(id).is_leaf()) leaves.DeclareLeaf(id);
  }
  Updater updater(options, &g);
  updater.DeclareInputs();
  model.EmitTotals(
      [&](std::string_view name) { return leaves[*whole.Find(name)]; },
      updater.Seed(), &g);
  const NodeId first = g.graph().num_nodes();
  std::map<std::string, Value>
      gradients;  // by param; of the micro-batches so far
  for (const Trained& trained : graphs.trained) {
    const ValueInfo& param = graphs.forward.value(trained.param);
    gradients[param.name] =
        g.LeafLike({.name = StrCat("sum:", GradientName(param.name)),
                    .type = graphs.backward.value(trained.gradient).type,
                    .role = Role::kSaved,
                    .source = param.source});
  }
  MicroBatchOutputs outputs(whole, whole, model, loss, &g);
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> joined,
                           outputs.BeginRepeated(micro_batch));

  BatchAxes axes(whole, whole);
  STOWAGE_RETURN_IF_ERROR(axes.Add(micro_batch));
  if (!axes.are_first() || !outputs.join_first() || !model.are_cached_first()) {
    return NoRepeat(micro_batch,
                    "has its examples in another dimension than the first");
  }
  Linker linker(graphs.forward, graphs.backward, loss, &g, {.suffix = "/1"});
  for (ValueId id = 0; id < graphs.forward.num_values(); ++id) {
    const ValueInfo& info = graphs.forward.value(id);
    if (!info.is_leaf()) continue;
    const std::optional<Value> total = model.total(info.name, axes);
    linker.MapLeaf(id, total ? *total
                             : axes.Part(graphs.forward, id,
                                         leaves[*whole.Find(info.name)]));
  }
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(
      linker.WireUp(model.Seed(micro_batch, axes.weight(), updater)));
  STOWAGE_RETURN_IF_ERROR(outputs.Add(graphs.forward, axes.weight(), linker));
  std::vector<size_t> made;  // of graphs.trained, as they come
  CopyBackward(graphs, linker, [&](size_t i) {
    const ValueInfo& param = graphs.forward.value(graphs.trained[i].param);
    g.SetOrigin(Phase::kBackward, param.name, param.source);
    Value& sum = gradients[param.name];
    sum = Add(sum, linker.backward(graphs.trained[i].gradient));
    g.SetRole(sum, Role::kGradient);
    g.Name(GradientName(param.name), sum);
    made.push_back(i);
  });
  outputs.AddLoss(graphs.forward, axes.weight(), linker);
  for (int64_t i = 1; i < times; ++i) {
    STOWAGE_RETURN_IF_ERROR(axes.Add(micro_batch));
    outputs.Skip(micro_batch);
  }
  STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());
  STOWAGE_RETURN_IF_ERROR(outputs.Finish());

  std::vector<std::string> cut = axes.Names();
  std::ranges::move(model.CachedNames(g), std::back_inserter(cut));

  const NodeId updates = g.graph().num_nodes();
  updater.GiveOut(gradients);
  if (UpdatesWait(options)) {
    std::vector<Value> all;
    for (const auto& [name, sum] : gradients) all.push_back(sum);
    updater.Await(all);
  }
  for (const size_t i : made) {
    const ValueId param = graphs.trained[i].param;
    updater.Update(linker.forward(param),
                   gradients[graphs.forward.value(param).name]);
  }
  STOWAGE_ASSIGN_OR_RETURN(
      MicroBatchedStep step,
      FinishMicroBatches(g, {0, first, updates}, {1, times, 1}));
  return RepeatedMicroBatch{.graph = std::move(step.graph),
                            .first = first > 0 ? step.begins[1] : 0,
                            .updates = step.begins.back(),
                            .cut = std::move(cut),
                            .joined = joined};
}

}  // namespace stowage
