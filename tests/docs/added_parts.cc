// The C++ of the pages on adding a model, an optimizer and a memory optimization, which
// Stowage does not have; .ci/docs.py looks for it here, word for word.

#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/update_rule.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"

namespace stowage {

// nn/models.def
#define STOWAGE_MODEL(function) ModelInfo function();
namespace models {
STOWAGE_MODEL(Logistic)
}
#undef STOWAGE_MODEL

// nn/models/logistic.cc
namespace {

constexpr int64_t kDigitPixels = 64, kClasses = 10;
constexpr ImageShape kDigitImages = {
    .channels = 1, .height = 8, .width = 8, .classes = kClasses};

Result<Graph> Build(ModelPurpose purpose, const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckClassifierOptions("logistic", purpose, options));
  GraphBuilder g("logistic");
  const Value x = g.Input("x", DType::kF32, {*options.batch, kDigitPixels});
  const Value y = g.Input("y", DType::kI32, {*options.batch});
  const Value logits = Linear(Cast(x, options.dtype), "fc", kClasses);
  return FinishClassifier(g, logits, y, purpose);
}

}  // namespace

ModelInfo models::Logistic() {
  return {.name = "logistic",
          .description = "classifier of 8 x 8 digits, one linear layer",
          .data = ModelData::kImages,
          .batch = 64,
          .vocabulary = kClasses,
          .params = kDigitPixels * kClasses + kClasses,
          .images = kDigitImages,
          .training = {.optimizer = "adamw",
                       .decay = 0.01,
                       .steps = 500,
                       .schedule = {.peak = 1e-2, .warmup = 20}},
          .build = Build};
}

// autodiff/optimizer.cc
const NamedOptimizer kSignDescent = {
    "sign-descent", UpdateRule{.name = "sign-descent",
                               .update =
                                   [](ParamUpdate& u) {
                                     const Value step = Mul(Sign(u.gradient),
                                                            u.LearningRate());
                                     u.Set(u.param, Sub(u.param, step));
                                   },
                               .learning_rate = 1e-4}};

// planner/fit/sink/sink.h
/// `graph` with its nodes right before their first readers. Linear.
Result<Graph> Sink(const Graph& graph);

// planner/fit/memory_optimizations.h
enum class SinkChoice : uint8_t { kNone, kAuto };
struct WithSink : MemoryOptimizations {
  SinkChoice sink = SinkChoice::kAuto;
};

// planner/fit/fit.cc
struct Pipeline {
  Result<bool> SinkNodes(Bytes most, FittedStep* step);
  Status Fit(Bytes most, FittedStep* step) {
    STOWAGE_ASSIGN_OR_RETURN(const bool sank, SinkNodes(most, &*step));
    passes.push_back(
        {.name = "sink",
         .applied = options_.optimizations.sink == SinkChoice::kAuto,
         .changed = sank,
         .arena = step->plan.arena_bytes(),
         .seconds = clock.Lap()});
    return {};
  }

  struct {
    WithSink optimizations;
  } options_;
  std::vector<PassReport> passes;
  fit::PassClock clock;
};

}  // namespace stowage
