#include "train/step_builder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "autodiff/micro_batches.h"
#include "autodiff/rank_step.h"
#include "autodiff/split_model.h"
#include "autodiff/train_step.h"
#include "base/strings.h"

namespace stowage {
namespace {

// With two micro-batches, the last updates params in its backward pass; a loop updates after it.
constexpr int64_t kMinInLoop = 3;

// A batch split into micro-batches as equal as possible.
struct BatchMicroBatches {
  Graph large, small;
  std::vector<const Graph*> graphs = {};  // of these two
};

Status BuildMicroBatches(const ModelFn& model, int64_t batch,
                         int64_t micro_batches, BatchMicroBatches* built) {
  if (micro_batches > batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", micro_batches,
                        " micro-batches of a batch of ", batch,
                        "; expected at most ", batch)};
  }
  STOWAGE_ASSIGN_OR_RETURN(built->large,
                           model(LargestMicroBatch(batch, micro_batches)));
  STOWAGE_ASSIGN_OR_RETURN(built->small, model(batch / micro_batches));
  built->graphs.assign(static_cast<size_t>(micro_batches), &built->small);
  for (int64_t i = 0; i < batch % micro_batches; ++i) {
    built->graphs[static_cast<size_t>(i)] = &built->large;
  }
  return {};
}

MicroBatches MicroBatchesOf(Sampling sampling) {
  return sampling == Sampling::kAll ? MicroBatches::kAll
                                    : MicroBatches::kOneOfAKind;
}

SampledStep AsSampled(MicroBatchedStep step) {
  return {.graph = std::move(step.graph),
          .begins = std::move(step.begins),
          .counts = std::move(step.counts),
          .before = std::string(kTotals)};
}

Result<SampledStep> BuildStep(const ModelFn& model, int64_t batch,
                              const std::string& loss,
                              const TrainOptions& options,
                              int64_t micro_batches, Sampling sampling) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, model(batch));
  if (micro_batches == 1) {
    STOWAGE_ASSIGN_OR_RETURN(Graph step, BuildTrainStep(whole, loss, options));
    return SampledStep{.graph = std::move(step)};
  }
  BatchMicroBatches built;
  STOWAGE_RETURN_IF_ERROR(
      BuildMicroBatches(model, batch, micro_batches, &built));
  if (sampling == Sampling::kOneForAll && micro_batches >= kMinInLoop &&
      batch % micro_batches == 0) {
    Result<RepeatedMicroBatch> step = BuildRepeatedMicroBatch(
        whole, built.small, micro_batches, loss, options);
    if (step.ok()) {
      SampledStep made = {
          .graph = std::move(step->graph),
          .begins = {0, step->updates},
          .counts = {micro_batches, 1},
          .before = std::string(kTotals),
          .loop = MicroBatchLoop{.cut = std::move(step->cut),
                                 .joined = std::move(step->joined)}};
      if (step->first > 0) {
        made.begins.insert(made.begins.begin() + 1, step->first);
        made.counts.insert(made.counts.begin(), 1);
      }
      return made;
    }
    if (step.error().code != ErrorCode::kUnsupported) return step.error();
  }
  STOWAGE_ASSIGN_OR_RETURN(
      MicroBatchedStep step,
      BuildMicroBatchedStep(whole, built.graphs, loss, options,
                            MicroBatchesOf(sampling)));
  return AsSampled(std::move(step));
}

Result<SampledStep> BuildStepOfRank(const ModelFn& model, int64_t batch,
                                    const Ranks& ranks, const std::string& loss,
                                    const TrainOptions& options,
                                    int64_t micro_batches, Sampling sampling) {
  STOWAGE_RETURN_IF_ERROR(CheckRanks(ranks));
  if (ranks.ranks > batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[ranks] ", ranks.ranks, " ranks take a batch of ",
                        batch, "; expected at least one example for each")};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, model(batch));
  const int64_t count = PartOfRank(batch, ranks.ranks, ranks.rank).count;
  STOWAGE_ASSIGN_OR_RETURN(const Graph part, model(count));
  BatchMicroBatches built;
  STOWAGE_RETURN_IF_ERROR(
      BuildMicroBatches(model, count, micro_batches, &built));
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           BuildRankStep(whole, part, built.graphs, loss, ranks,
                                         options, MicroBatchesOf(sampling)));
  return AsSampled(std::move(step));
}

}  // namespace

StepBuilder BuildSteps(ModelFn model, int64_t batch, std::string loss,
                       TrainOptions options) {
  return
      [model = std::move(model), batch, loss = std::move(loss),
       options = std::move(options)](int64_t micro_batches, Sampling sampling) {
        return BuildStep(model, batch, loss, options, micro_batches, sampling);
      };
}

StepBuilder BuildRankSteps(ModelFn model, int64_t batch, Ranks ranks,
                           std::string loss, TrainOptions options) {
  if (ranks.ranks == 1) {
    return BuildSteps(std::move(model), batch, std::move(loss),
                      std::move(options));
  }
  return
      [model = std::move(model), batch, ranks, loss = std::move(loss),
       options = std::move(options)](int64_t micro_batches, Sampling sampling) {
        return BuildStepOfRank(model, batch, ranks, loss, options,
                               micro_batches, sampling);
      };
}

BatchPart PartOfRank(int64_t batch, int64_t ranks, int64_t rank) {
  const int64_t each = batch / ranks;
  const int64_t larger = batch % ranks;
  return {.first = rank * each + std::min(rank, larger),
          .count = each + (rank < larger ? 1 : 0)};
}

int64_t LargestMicroBatch(int64_t batch, int64_t micro_batches) {
  return (batch + micro_batches - 1) / micro_batches;
}

}  // namespace stowage
