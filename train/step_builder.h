#ifndef STOWAGE_TRAIN_STEP_BUILDER_H_
#define STOWAGE_TRAIN_STEP_BUILDER_H_

// Builds training steps from a model. The planner calls a StepBuilder
// (planner/fit/micro_batches/micro_batches.h) for each number of micro-batches that it tries. The
// step is for a single rank or for one of several ranks.
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

/// Returns the forward graph of a model for `batch` examples. The names and order of its params
/// must not depend on the batch.
using ModelFn = std::function<Result<Graph>(int64_t batch)>;

/// Returns a builder of steps that process `batch` examples, in micro-batches whose sizes differ by
/// at most one. `loss` is the name of the scalar output of `model` to minimize. The number of
/// micro-batches that is passed to the builder must be at least 1. The builder returns
/// kInvalidArgument if there are more micro-batches than examples. It propagates errors of `model`,
/// BuildTrainStep and BuildMicroBatchedStep.
StepBuilder BuildSteps(ModelFn model, int64_t batch, std::string loss,
                       TrainOptions options);

/// Returns a builder of the steps of the rank `ranks.rank`. `batch` is the batch of all ranks
/// together. The rank's examples (PartOfRank) are split into micro-batches (BuildRankStep). If
/// there is only one rank, returns BuildSteps(...). Otherwise the builder returns kInvalidArgument
/// if there are more ranks than examples, or more micro-batches than examples of the rank. It
/// propagates errors of `model`, CheckRanks and BuildRankStep.
StepBuilder BuildRankSteps(ModelFn model, int64_t batch, Ranks ranks,
                           std::string loss, TrainOptions options);

/// The contiguous range of a batch's examples that a rank processes.
struct BatchPart {
  int64_t first = 0;
  int64_t count = 0;
};
/// Returns the examples of `rank`. All ranks have equal numbers of examples, except that the first
/// batch % ranks ranks have one more. Requires `0 <= rank < ranks`.
BatchPart PartOfRank(int64_t batch, int64_t ranks, int64_t rank);

/// Returns the number of examples in the largest micro-batch. Requires `micro_batches >= 1`.
int64_t LargestMicroBatch(int64_t batch, int64_t micro_batches);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_BUILDER_H_
