#include "train/step_builder.h"

#include <utility>
#include <vector>

#include "base/strings.h"

namespace stowage {
namespace {

Result<PiecedStep> BuildStep(const ModelFn& model, int64_t batch,
                             const std::string& loss,
                             const TrainOptions& options, int64_t pieces,
                             Sampling sampling) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, model(batch));
  if (pieces == 1) {
    STOWAGE_ASSIGN_OR_RETURN(Graph step, BuildTrainStep(whole, loss, options));
    return PiecedStep{.graph = std::move(step)};
  }
  if (pieces > batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", pieces, " pieces of a batch of ",
                        batch, "; expected at most ", batch)};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph large,
                           model(LargestPiece(batch, pieces)));
  STOWAGE_ASSIGN_OR_RETURN(const Graph small, model(batch / pieces));
  std::vector<const Graph*> graphs(static_cast<size_t>(pieces), &small);
  for (int64_t i = 0; i < batch % pieces; ++i) {
    graphs[static_cast<size_t>(i)] = &large;
  }
  const Pieces which =
      sampling == Sampling::kAll ? Pieces::kAll : Pieces::kOneOfAKind;
  STOWAGE_ASSIGN_OR_RETURN(
      MicroBatchedStep step,
      BuildMicroBatchedStep(whole, graphs, loss, options, which));
  return PiecedStep{.graph = std::move(step.graph),
                    .begins = std::move(step.begins),
                    .counts = std::move(step.counts)};
}

}  // namespace

StepBuilder BuildSteps(ModelFn model, int64_t batch, std::string loss,
                       TrainOptions options) {
  return [model = std::move(model), batch, loss = std::move(loss),
          options = std::move(options)](int64_t pieces, Sampling sampling) {
    return BuildStep(model, batch, loss, options, pieces, sampling);
  };
}

int64_t LargestPiece(int64_t batch, int64_t pieces) {
  return (batch + pieces - 1) / pieces;
}

}  // namespace stowage
