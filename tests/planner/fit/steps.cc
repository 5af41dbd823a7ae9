#include "tests/planner/fit/steps.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "nn/gpt.h"
#include "nn/models.h"

namespace stowage::testing {

Graph StepOf(std::string_view model, const ModelOptions& options) {
  const auto forward = BuildModel(model, ModelPurpose::kTrain, options);
  STOWAGE_CHECK(forward.ok());
  auto step = BuildTrainStep(*forward, "loss");
  STOWAGE_CHECK(step.ok());
  return std::move(*step);
}

Graph TinyGpt(int64_t batch) {
  const GptConfig config{.name = "tiny",
                         .layers = 2,
                         .heads = 2,
                         .width = 16,
                         .vocabulary = 11,
                         .max_seq = 64};
  auto graph =
      BuildGpt(config, ModelPurpose::kTrain, {.batch = batch, .seq = 64});
  STOWAGE_CHECK(graph.ok());
  return std::move(*graph);
}

StepBuilder StepsOf(std::function<Graph(int64_t batch)> model, int64_t batch,
                    const TrainOptions& options) {
  return [model = std::move(model), batch, options](
             int64_t pieces, Sampling sampling) -> Result<PiecedStep> {
    const Graph whole = model(batch);
    if (pieces == 1) {
      STOWAGE_ASSIGN_OR_RETURN(Graph step,
                               BuildTrainStep(whole, "loss", options));
      return PiecedStep{.graph = std::move(step)};
    }
    const Graph large = model((batch + pieces - 1) / pieces);
    const Graph small = model(batch / pieces);
    std::vector<const Graph*> graphs;
    for (int64_t p = 0; p < pieces; ++p) {
      graphs.push_back(p < batch % pieces ? &large : &small);
    }
    STOWAGE_ASSIGN_OR_RETURN(
        MicroBatchedStep step,
        BuildMicroBatchedStep(
            whole, graphs, "loss", options,
            sampling == Sampling::kAll ? Pieces::kAll : Pieces::kOneOfAKind));
    return PiecedStep{std::move(step.graph), std::move(step.begins),
                      std::move(step.counts)};
  };
}

}  // namespace stowage::testing
