#ifndef STOWAGE_TRAIN_STEP_BUILDER_H_
#define STOWAGE_TRAIN_STEP_BUILDER_H_

// Builds training steps from a model, for the planner
// (planner/fit/micro_batches/micro_batches.h). A step processes the whole batch or micro-batches of
// it, on a single rank or on one of several ranks.
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

/// Returns a builder of steps of `batch` examples, in micro-batches whose sizes differ by at most
/// one. The builder returns kInvalidArgument if there are more micro-batches than examples, and
/// propagates errors of `model`, BuildTrainStep and BuildMicroBatchedStep.
StepBuilder BuildSteps(ModelFn model, int64_t batch, std::string loss,
                       TrainOptions options);

/// Returns a builder of the steps of one rank, whose shard of the batch is split into micro-batches
/// (BuildRankStep). If there is only one rank, returns BuildSteps. The builder returns
/// kInvalidArgument if there are more ranks than examples. It returns the errors of the builder
/// above, and propagates errors of CheckRanks and BuildRankStep.
StepBuilder BuildRankSteps(ModelFn model, int64_t batch, Ranks ranks,
                           std::string loss, TrainOptions options);

/// The examples of a batch that a rank processes. Ranks have equal numbers of examples, except that
/// the first ranks have one more if `ranks` does not divide the batch. Requires
/// `0 <= rank < ranks`.
struct BatchPart {
  int64_t first = 0;
  int64_t count = 0;
};
BatchPart PartOfRank(int64_t batch, int64_t ranks, int64_t rank);

/// Returns the number of examples in the largest micro-batch.
int64_t LargestMicroBatch(int64_t batch, int64_t micro_batches);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_BUILDER_H_
