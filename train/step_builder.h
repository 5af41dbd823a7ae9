#ifndef STOWAGE_TRAIN_STEP_BUILDER_H_
#define STOWAGE_TRAIN_STEP_BUILDER_H_

// Builds training steps from a model, for the planner
// (planner/fit/micro_batches/micro_batches.h): steps of the whole batch or of its
// micro-batches, for one rank or for one of several ranks.
//
//   StepBuilder build = BuildSteps(model, /*batch=*/64, "loss", {});
//   Result<SampledStep> step = build(/*micro_batches=*/4, Sampling::kAll);

#include <cstdint>
#include <functional>
#include <string>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/micro_batches/micro_batches.h"

namespace stowage {

/// Returns the forward graph of a model for that many examples. Its params, their names
/// and their order are the same for every number.
using ModelFn = std::function<Result<Graph>(int64_t batch)>;

/// Builds steps of `batch` examples in micro-batches that are as equal as possible.
/// Errors: kInvalidArgument for more micro-batches than examples; those of `model`,
/// BuildTrainStep and BuildMicroBatchedStep.
StepBuilder BuildSteps(ModelFn model, int64_t batch, std::string loss,
                       TrainOptions options);

/// Builds the steps of one rank, whose part of the batch is split into micro-batches
/// (BuildRankStep). Errors: those above; kInvalidArgument for more ranks than examples;
/// those of BuildRankStep. For one rank, these are the steps above.
StepBuilder BuildRankSteps(ModelFn model, int64_t batch, Ranks ranks,
                           std::string loss, TrainOptions options);

/// The examples of a batch that a rank takes: equal parts, with one more on the first
/// ranks if `ranks` does not divide the batch. Precondition: 0 <= rank < ranks.
struct BatchPart {
  int64_t first = 0;
  int64_t count = 0;
};
BatchPart PartOfRank(int64_t batch, int64_t ranks, int64_t rank);

/// Examples in the largest micro-batch.
int64_t LargestMicroBatch(int64_t batch, int64_t micro_batches);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_BUILDER_H_
