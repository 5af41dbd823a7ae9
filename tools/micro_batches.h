#ifndef STOWAGE_TOOLS_MICRO_BATCHES_H_
#define STOWAGE_TOOLS_MICRO_BATCHES_H_

// Into how many pieces a batch is cut: what --micro-batches says.
//
//   Result<MicroBatches> pieces = ParseMicroBatches("auto");
//   Result<PiecedStep> step = BuildStep(model, options, Sgd{}, /*pieces=*/4,
//                                       Sampling::kAll);

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "nn/model_options.h"
#include "planner/fit/pieces/pieces.h"

namespace stowage::tools {

/// Pieces of a batch; absent: as many as the budget asks for.
using MicroBatches = std::optional<int64_t>;

/// "auto" or a number of at least 1. Error kInvalidArgument for anything else.
Result<MicroBatches> ParseMicroBatches(std::string_view text);

/// The numbers of pieces that "auto" tries, fewest first: 1, 2, 4, ... and the
/// batch itself.
std::vector<int64_t> PiecesToTry(int64_t batch);

/// The training step of the model, its batch in `pieces` as equal as can be, or
/// a sample of it. Error kInvalidArgument: there are more pieces than examples.
Result<PiecedStep> BuildStep(std::string_view model,
                             const ModelOptions& options,
                             const Optimizer& optimizer, int64_t pieces,
                             Sampling sampling);

/// Examples in the largest piece.
int64_t LargestPiece(int64_t batch, int64_t pieces);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MICRO_BATCHES_H_
