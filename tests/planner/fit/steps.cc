#include "tests/planner/fit/steps.h"

#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/gpt.h"
#include "nn/layers.h"
#include "nn/models.h"
#include "tests/support/random_graph.h"
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

Graph RandomNet(uint64_t seed, int64_t batch) {
  Rng rng(seed);
  GraphBuilder g("random");
  const Value labels = g.Input("y", DType::kI32, {batch});
  Value x = g.Input("x", DType::kF32, {batch, 8 * (1 + rng.Below(4))});
  std::vector<Value> before;  // what later layers may add
  const int64_t layers = 4 + rng.Below(6);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = StrCat("l", i);
    const int64_t width = x.type().shape.back();
    before.push_back(x);
    switch (rng.Below(6)) {
      case 0:
        x = LayerNorm(x, name);
        break;
      case 1:
        x = Silu(x);
        break;
      case 2:
        x = Mul(Tanh(x), Sigmoid(x));
        break;
      default:
        x = Linear(x, name, rng.Below(2) == 0 ? width : 8 * (1 + rng.Below(6)));
    }
    const Value other =
        before[static_cast<size_t>(rng.Below(std::ssize(before)))];
    if (other.type() == x.type()) x = Add(x, other);
  }
  const Value logits = Linear(x, "head", kRandomModelVocabulary);
  g.Output("loss", g.Name("loss", CrossEntropy(logits, labels)));
  auto graph = g.Finish();
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
