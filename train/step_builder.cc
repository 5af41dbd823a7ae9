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

// Of two, the last updates params on its way back; a loop does so after it.
constexpr int64_t kFewestInLoop = 3;

// A batch in pieces as equal as can be.
struct BatchPieces {
  Graph large, small;
  std::vector<const Graph*> graphs = {};  // of these two
};

Status BuildPieces(const ModelFn& model, int64_t batch, int64_t pieces,
                   BatchPieces* built) {
  if (pieces > batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", pieces, " pieces of a batch of ",
                        batch, "; expected at most ", batch)};
  }
  STOWAGE_ASSIGN_OR_RETURN(built->large, model(LargestPiece(batch, pieces)));
  STOWAGE_ASSIGN_OR_RETURN(built->small, model(batch / pieces));
  built->graphs.assign(static_cast<size_t>(pieces), &built->small);
  for (int64_t i = 0; i < batch % pieces; ++i) {
    built->graphs[static_cast<size_t>(i)] = &built->large;
  }
  return {};
}

Pieces PiecesOf(Sampling sampling) {
  return sampling == Sampling::kAll ? Pieces::kAll : Pieces::kOneOfAKind;
}

PiecedStep AsPieced(MicroBatchedStep step) {
  return {.graph = std::move(step.graph),
          .begins = std::move(step.begins),
          .counts = std::move(step.counts),
          .before = std::string(kTotals)};
}

Result<PiecedStep> BuildStep(const ModelFn& model, int64_t batch,
                             const std::string& loss,
                             const TrainOptions& options, int64_t pieces,
                             Sampling sampling) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, model(batch));
  if (pieces == 1) {
    STOWAGE_ASSIGN_OR_RETURN(Graph step, BuildTrainStep(whole, loss, options));
    return PiecedStep{.graph = std::move(step)};
  }
  BatchPieces built;
  STOWAGE_RETURN_IF_ERROR(BuildPieces(model, batch, pieces, &built));
  if (sampling == Sampling::kOneForAll && pieces >= kFewestInLoop &&
      batch % pieces == 0) {
    Result<RepeatedPiece> step =
        BuildRepeatedPiece(whole, built.small, pieces, loss, options);
    if (step.ok()) {
      PiecedStep made = {.graph = std::move(step->graph),
                         .begins = {0, step->updates},
                         .counts = {pieces, 1},
                         .before = std::string(kTotals),
                         .loop = PieceLoop{.cut = std::move(step->cut),
                                           .joined = std::move(step->joined)}};
      if (step->first > 0) {
        made.begins.insert(made.begins.begin() + 1, step->first);
        made.counts.insert(made.counts.begin(), 1);
      }
      return made;
    }
    if (step.error().code != ErrorCode::kUnsupported) return step.error();
  }
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           BuildMicroBatchedStep(whole, built.graphs, loss,
                                                 options, PiecesOf(sampling)));
  return AsPieced(std::move(step));
}

Result<PiecedStep> BuildStepOfRank(const ModelFn& model, int64_t batch,
                                   const Ranks& ranks, const std::string& loss,
                                   const TrainOptions& options, int64_t pieces,
                                   Sampling sampling) {
  STOWAGE_RETURN_IF_ERROR(CheckRanks(ranks));
  if (ranks.ranks > batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[ranks] ", ranks.ranks, " ranks take a batch of ",
                        batch, "; expected at least one example for each")};
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, model(batch));
  const int64_t count = PartOfRank(batch, ranks.ranks, ranks.rank).count;
  STOWAGE_ASSIGN_OR_RETURN(const Graph part, model(count));
  BatchPieces built;
  STOWAGE_RETURN_IF_ERROR(BuildPieces(model, count, pieces, &built));
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           BuildRankStep(whole, part, built.graphs, loss, ranks,
                                         options, PiecesOf(sampling)));
  return AsPieced(std::move(step));
}

}  // namespace

StepBuilder BuildSteps(ModelFn model, int64_t batch, std::string loss,
                       TrainOptions options) {
  return [model = std::move(model), batch, loss = std::move(loss),
          options = std::move(options)](int64_t pieces, Sampling sampling) {
    return BuildStep(model, batch, loss, options, pieces, sampling);
  };
}

StepBuilder BuildRankSteps(ModelFn model, int64_t batch, Ranks ranks,
                           std::string loss, TrainOptions options) {
  if (ranks.ranks == 1) {
    return BuildSteps(std::move(model), batch, std::move(loss),
                      std::move(options));
  }
  return [model = std::move(model), batch, ranks, loss = std::move(loss),
          options = std::move(options)](int64_t pieces, Sampling sampling) {
    return BuildStepOfRank(model, batch, ranks, loss, options, pieces,
                           sampling);
  };
}

BatchPart PartOfRank(int64_t batch, int64_t ranks, int64_t rank) {
  const int64_t each = batch / ranks;
  const int64_t larger = batch % ranks;
  return {.first = rank * each + std::min(rank, larger),
          .count = each + (rank < larger ? 1 : 0)};
}

int64_t LargestPiece(int64_t batch, int64_t pieces) {
  return (batch + pieces - 1) / pieces;
}

}  // namespace stowage
