#ifndef STOWAGE_TRAIN_STEP_BUILDER_H_
#define STOWAGE_TRAIN_STEP_BUILDER_H_

// Training steps from a model: of the whole batch, or of its micro-batches one after the
// other, as the planner asks for them (planner/fit/micro_batches/micro_batches.h); or those of one of
// several ranks, each of which takes its part of the batch so.
//
//   StepBuilder build = BuildSteps(model, /*batch=*/64, "loss", {});
//   Result<SampledStep> step = build(/*micro_batches=*/4, Sampling::kAll);

#include <cstdint>
#include <functional>
#include <string>

#include "autodiff/ranks.h"
#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/micro_batches/micro_batches.h"

namespace stowage {

/// The forward graph of a model for so many examples. Its params, their names
/// and their order are the same for every number.
using ModelFn = std::function<Result<Graph>(int64_t batch)>;

/// Builds steps of `batch` examples in micro-batches as equal as can be. Errors:
/// kInvalidArgument for more micro-batches than examples; those of `model`,
/// BuildTrainStep and BuildMicroBatchedStep.
StepBuilder BuildSteps(ModelFn model, int64_t batch, std::string loss,
                       TrainOptions options);

/// The steps of one rank, whose part of the batch is taken in micro-batches (BuildRankStep).
/// Errors: those above; kInvalidArgument for more ranks than examples; those of
/// BuildRankStep. One rank takes the steps above.
StepBuilder BuildRankSteps(ModelFn model, int64_t batch, Ranks ranks,
                           std::string loss, TrainOptions options);

/// Which examples of a batch a rank takes: as many as any other, the first ranks one
/// more where that does not come out even. Precondition: 0 <= rank < ranks.
struct BatchPart {
  int64_t first = 0;
  int64_t count = 0;
};
BatchPart PartOfRank(int64_t batch, int64_t ranks, int64_t rank);

/// Examples in the largest micro-batch.
int64_t LargestMicroBatch(int64_t batch, int64_t micro_batches);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_BUILDER_H_
