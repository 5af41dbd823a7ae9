#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_H_

// Builds training steps that accumulate gradients over micro-batches, so that only one
// micro-batch's activations are live at a time.
//
//   const Graph* const micro_batches[] = {&half, &half};  // of the same model
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, micro_batches, "loss", {.optimizer = AdamW{}});
//   step->begins[1];  // the first node of the second half
//
// If all micro-batches have the same size, a step can instead be built with a single micro-batch,
// followed by the updates. A later pass can put this micro-batch into a loop:
//
//   Result<RepeatedMicroBatch> repeated =
//       BuildRepeatedMicroBatch(whole, eighth, /*times=*/8, "loss", options);

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// A step that runs its batch in micro-batches.
struct MicroBatchedStep {
  Graph graph = {};
  /// The first node of each emitted micro-batch. For the first micro-batch, this is 0.
  std::vector<NodeId> begins = {};
  /// The number of the step's micro-batches that each emitted micro-batch represents.
  std::vector<int64_t> counts = {};
};

/// Which micro-batches of a batch are emitted. All micro-batches of the same size, except the first
/// and the last, differ only in their examples. kOneOfAKind emits only one of these for each size,
/// so that a step with many micro-batches can be planned quickly.
enum class MicroBatches : uint8_t { kAll, kOneOfAKind };

/// Finishes the step in the builder `g`. Emitted micro-batch i begins at node `begins[i]` of the
/// builder and represents `counts[i]` micro-batches. `begins` must not be empty. Returns the errors
/// of GraphBuilder::Finish.
Result<MicroBatchedStep> FinishMicroBatches(GraphBuilder& g,
                                            const std::vector<NodeId>& begins,
                                            std::vector<int64_t> counts);

/// Replaces the graph of `step` with the result of `rewrite`, in which nodes must keep the names of
/// their results. Each micro-batch then begins at the first of its nodes that remain. If `rewrite`
/// fails, returns its error and does not change `step`.
Status RewriteStep(MicroBatchedStep* step,
                   const std::function<Result<Graph>(const Graph&)>& rewrite);

/// Returns the training step of `whole` that processes its batch in micro-batches, one after the
/// other. Gradients are accumulated, and each param is updated once, during the backward pass of
/// the last micro-batch or after it (UpdatesWait).
///
/// `micro_batches` are graphs of the same model for consecutive slices of the batch, in order. At
/// least one is required. The same graph may be passed several times. Inputs that are larger in
/// `whole` are split along the only dimension that differs. The loss must be computable from the
/// losses of micro-batches (autodiff/batch_analysis.h) or by gradient caching
/// (autodiff/gradient_cache.h). Other outputs are joined as described at MicroBatchOutputs
/// (autodiff/micro_batches_in_turn.h). A state that the model writes is passed from micro-batch to
/// micro-batch. Micro-batches of different sizes are weighted by their share of the examples. If
/// there are several micro-batches, the results of nodes of micro-batch i, counting from 1, are
/// called "<name>/<i>". Each micro-batch uses its own dropout masks.
///
/// Propagates errors of BuildTrainStep. Returns kInvalidArgument if the micro-batches do not make
/// up the batch or one of its outputs, or if a micro-batch is as large as the batch. Returns
/// kUnsupported if micro-batches would change an output, or if the model writes a param, state or
/// cache, unless options.allow_batch_change is set.
Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> micro_batches,
    std::string_view loss, const TrainOptions& options = {},
    MicroBatches which = MicroBatches::kAll);

/// A step whose micro-batches all have the same size, with a single micro-batch that a loop can
/// repeat.
struct RepeatedMicroBatch {
  /// The nodes that compute totals of the whole batch, with the origin kTotals
  /// (autodiff/split_model.h), then the micro-batch, then the updates. A sum over the micro-batches
  /// starts from a leaf with the role saved, "sum:<name>", which a single `add` reads. A
  /// concatenated output starts from a fill, to which a single `slice_update` writes. The
  /// micro-batch reads the first slice of each split input.
  Graph graph = {};
  NodeId first = 0;                 // the first node of the micro-batch
  NodeId updates = 0;               // the first node after the micro-batch
  std::vector<std::string> cut;     // split inputs and cached gradients
  std::vector<std::string> joined;  // names of the fills
};

/// Returns the step of BuildMicroBatchedStep for `times` micro-batches like `micro_batch`, with a
/// single micro-batch. Once a loop repeats it, the step computes the same sums in the same order,
/// but all updates follow the last micro-batch. The results of the micro-batch's nodes are called
/// "<name>/1". Requires `times >= 1`.
///
/// Propagates errors of BuildMicroBatchedStep. Returns kUnsupported if the micro-batch has dropout
/// or another random op, or writes a leaf, because these differ between micro-batches. Returns
/// kUnsupported if an output is not concatenated, added up or averaged, or if the batch is not the
/// first dimension of every split input and output.
Result<RepeatedMicroBatch> BuildRepeatedMicroBatch(
    const Graph& whole, const Graph& micro_batch, int64_t times,
    std::string_view loss, const TrainOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MICRO_BATCHES_H_
