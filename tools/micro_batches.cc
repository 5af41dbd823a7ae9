#include "tools/micro_batches.h"

#include <charconv>
#include <utility>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "nn/models.h"

namespace stowage::tools {

Result<MicroBatches> ParseMicroBatches(std::string_view text) {
  if (text == "auto") return MicroBatches();
  int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  if (parsed.ec != std::errc() || parsed.ptr != end || count < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", Quoted(text),
                        " is no number of at least 1, nor auto")};
  }
  return MicroBatches(count);
}

std::vector<int64_t> PiecesToTry(int64_t batch) {
  std::vector<int64_t> tries;
  for (int64_t pieces = 1; pieces < batch; pieces *= 2) tries.push_back(pieces);
  tries.push_back(batch);
  return tries;
}

int64_t LargestPiece(int64_t batch, int64_t pieces) {
  return (batch + pieces - 1) / pieces;
}

Result<PiecedStep> BuildStep(std::string_view model,
                             const ModelOptions& options,
                             const Optimizer& optimizer, int64_t pieces,
                             Sampling sampling) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole,
                           BuildModel(model, ModelPurpose::kTrain, options));
  if (pieces == 1) {
    STOWAGE_ASSIGN_OR_RETURN(
        Graph step, BuildTrainStep(whole, "loss", {.optimizer = optimizer}));
    return PiecedStep{.graph = std::move(step)};
  }
  const int64_t batch = *options.batch;
  if (pieces > batch) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", pieces, " pieces of a batch of ",
                        batch, "; expected at most ", batch)};
  }
  const auto build = [&](int64_t size) {
    ModelOptions of_piece = options;
    of_piece.batch = size;
    return BuildModel(model, ModelPurpose::kTrain, of_piece);
  };
  STOWAGE_ASSIGN_OR_RETURN(const Graph large,
                           build(LargestPiece(batch, pieces)));
  STOWAGE_ASSIGN_OR_RETURN(const Graph small, build(batch / pieces));
  std::vector<const Graph*> graphs(static_cast<size_t>(pieces), &small);
  for (int64_t i = 0; i < batch % pieces; ++i) {
    graphs[static_cast<size_t>(i)] = &large;
  }
  const Pieces which =
      sampling == Sampling::kAll ? Pieces::kAll : Pieces::kOneOfAKind;
  STOWAGE_ASSIGN_OR_RETURN(
      MicroBatchedStep step,
      BuildMicroBatchedStep(whole, graphs, "loss", {.optimizer = optimizer},
                            which));
  return PiecedStep{.graph = std::move(step.graph),
                    .begins = std::move(step.begins),
                    .counts = std::move(step.counts)};
}

}  // namespace stowage::tools
