#include "autodiff/repeated_piece.h"

#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "autodiff/backward.h"
#include "autodiff/batch_axes.h"
#include "autodiff/differentiated.h"
#include "autodiff/dropout_ids.h"
#include "autodiff/linker.h"
#include "autodiff/piece_outputs.h"
#include "autodiff/pieces.h"
#include "autodiff/split_model.h"
#include "autodiff/updater.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "ir/uses.h"

namespace stowage {
namespace {

Error NoRepeat(const Graph& piece, std::string_view why) {
  return Error{ErrorCode::kUnsupported,
               StrCat("[autodiff] piece ", Quoted(piece.name()), " ", why,
                      "; a loop repeats pieces that do the same with the next "
                      "examples")};
}

// That all pieces like `piece` do the same with other examples.
Status CheckRepeats(const Graph& piece) {
  if (DropoutIds(piece) > 0) {
    return NoRepeat(piece, "draws dropouts, each piece others");
  }
  const Uses uses(piece, ComputeLayouts(piece));
  for (ValueId id = 0; id < piece.num_values(); ++id) {
    if (piece.value(id).is_leaf() && uses.overwriter(id) != kNoNode) {
      return NoRepeat(piece, StrCat("writes ", Quoted(piece.value(id).name)));
    }
  }
  return {};
}

}  // namespace

Result<RepeatedPiece> BuildRepeatedPiece(const Graph& whole, const Graph& piece,
                                         int64_t times, std::string_view loss,
                                         const TrainOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckTrainOptions(whole, options));
  STOWAGE_RETURN_IF_ERROR(CheckRepeats(piece));
  SplitModel model(whole, whole, loss, {}, options.allow_batch_change);
  for (int64_t i = 0; i < times; ++i) {
    STOWAGE_RETURN_IF_ERROR(model.Add(piece));
  }
  STOWAGE_ASSIGN_OR_RETURN(const Differentiated graphs,
                           Differentiate(model.graph(piece), loss, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  GraphCopy leaves(whole, &g);
  for (ValueId id = 0; id < whole.num_values(); ++id) {
    if (whole.value(id).is_leaf()) leaves.DeclareLeaf(id);
  }
  Updater updater(options, &g);
  updater.DeclareInputs();
  model.EmitTotals(
      [&](std::string_view name) { return leaves[*whole.Find(name)]; }, &g);
  const NodeId first = g.graph().num_nodes();
  std::map<std::string, Value> gradients;  // by param; of the pieces so far
  for (const Trained& trained : graphs.trained) {
    const ValueInfo& param = graphs.forward.value(trained.param);
    gradients[param.name] =
        g.LeafLike({.name = StrCat("sum:", GradientName(param.name)),
                    .type = graphs.backward.value(trained.gradient).type,
                    .role = Role::kSaved,
                    .source = param.source});
  }
  PieceOutputs outputs(whole, whole, model, loss, &g);
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> joined,
                           outputs.BeginRepeated(piece));

  BatchAxes axes(whole, whole);
  STOWAGE_RETURN_IF_ERROR(axes.Add(piece));
  if (!axes.are_first() || !outputs.join_first()) {
    return NoRepeat(piece,
                    "has its examples in another dimension than the first");
  }
  Linker linker(graphs.forward, graphs.backward, loss, &g, {.suffix = "/1"});
  for (ValueId id = 0; id < graphs.forward.num_values(); ++id) {
    const ValueInfo& info = graphs.forward.value(id);
    if (!info.is_leaf()) continue;
    const std::optional<Value> total = model.total(info.name);
    linker.MapLeaf(id, total ? *total
                             : axes.Part(graphs.forward, id,
                                         leaves[*whole.Find(info.name)]));
  }
  linker.CopyForward();
  STOWAGE_RETURN_IF_ERROR(
      linker.WireUp(updater.Seed(model.LossWeight(piece, axes.weight()))));
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
    STOWAGE_RETURN_IF_ERROR(axes.Add(piece));
    outputs.Skip(piece);
  }
  STOWAGE_RETURN_IF_ERROR(axes.CheckComplete());
  STOWAGE_RETURN_IF_ERROR(outputs.Finish());

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
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           FinishPieces(g, {0, first, updates}, {1, times, 1}));
  return RepeatedPiece{.graph = std::move(step.graph),
                       .first = first > 0 ? step.begins[1] : 0,
                       .updates = step.begins.back(),
                       .cut = axes.Names(),
                       .joined = joined};
}

}  // namespace stowage
