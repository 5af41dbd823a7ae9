#include "tests/planner/fit/steps.h"

#include <utility>

#include "autodiff/train_step.h"
#include "base/check.h"
#include "nn/gpt.h"
#include "nn/models.h"
#include "train/step_builder.h"

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
  return BuildSteps([model = std::move(model)](
                        int64_t of) -> Result<Graph> { return model(of); },
                    batch, "loss", options);
}

}  // namespace stowage::testing
