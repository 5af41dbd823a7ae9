#include "autodiff/micro_batches.h"

#include <map>
#include <string>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/differentiated.h"
#include "autodiff/pieces_in_turn.h"
#include "autodiff/updater.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {

Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> pieces,
    std::string_view loss, const TrainOptions& options, Pieces which) {
  STOWAGE_RETURN_IF_ERROR(CheckTrainOptions(whole, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  Updater updater(options, &g);
  std::map<std::string, Value> gradients;  // by param; of the pieces so far
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
  PiecesInTurn loop(whole, whole, pieces, loss, {}, options, &g);
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
  return FinishPieces(g, loop.begins(), loop.counts());
}

}  // namespace stowage
