#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_H_

// Training steps that accumulate gradients over micro-batches, so that the activations of
// only one micro-batch are live at a time.
//
//   const Graph* const micro_batches[] = {&half, &half};  // of the same model
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, micro_batches, "loss", {.optimizer = AdamW{}});
//   step->begins[1];  // the first node of the second half
//
// If all micro-batches are of one size, the step can also be one micro-batch that a loop
// repeats, and the updates after it:
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
  /// For each micro-batch that is built: its first node, and how many it stands for.
  std::vector<NodeId> begins = {};
  std::vector<int64_t> counts = {};
};

/// Which micro-batches of a batch are built. Between the first and the last, micro-batches of
/// one size differ only in their examples; `kOneOfAKind` builds one of these, to plan steps
/// of many micro-batches.
enum class MicroBatches : uint8_t { kAll, kOneOfAKind };

/// The step that `g` has built, whose micro-batches begin at the nodes `begins` of the builder
/// and stand for `counts` each. Error: the builder's.
Result<MicroBatchedStep> FinishMicroBatches(GraphBuilder& g,
                                            const std::vector<NodeId>& begins,
                                            std::vector<int64_t> counts);

/// Replaces the graph of a step by `rewrite` of it; a micro-batch then begins at its first
/// remaining node. Error: that of `rewrite`; the step is then unchanged.
Status RewriteStep(MicroBatchedStep* step,
                   const std::function<Result<Graph>(const Graph&)>& rewrite);

/// The training step of `whole` that runs its batch in micro-batches, one after the other:
/// gradients are accumulated, and the params updated once, with the last micro-batch's.
/// `micro_batches` are graphs of the same model for parts of the batch, in order; one graph
/// may occur many times. Inputs that are larger in `whole` are cut along the one dimension
/// that differs; the loss must be a mean over it. Other outputs are joined along it,
/// averaged or added (autodiff/micro_batches_in_turn.h), and a state that the model writes
/// is passed from micro-batch to micro-batch. Micro-batches of different sizes are weighted
/// by their share. Values of micro-batch i are called "<name>/<i>", from 1; each draws its
/// own dropouts. Errors: those of BuildTrainStep; micro-batches that do not make up the
/// batch or an output of it.
Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> micro_batches,
    std::string_view loss, const TrainOptions& options = {},
    MicroBatches which = MicroBatches::kAll);

/// A step whose micro-batches are all of one size, as one micro-batch that a loop can repeat.
struct RepeatedMicroBatch {
  /// The totals of the whole batch (autodiff/split_model.h), of origin kTotals; the
  /// micro-batch; then the updates. Each sum over the micro-batches begins as a leaf of role
  /// saved, "sum:<name>", which one `add` reads; an output that is joined from parts, as a
  /// fill to which one `slice_update` writes. The micro-batch reads the first slice of the
  /// inputs that are cut.
  Graph graph = {};
  NodeId first = 0;                 // the first node of the micro-batch
  NodeId updates = 0;               // the first node after the micro-batch
  std::vector<std::string> cut;     // names of inputs
  std::vector<std::string> joined;  // names of the fills
};

/// The step of BuildMicroBatchedStep for `times` micro-batches like `micro_batch`: the same
/// sums in the same order, with the updates after the last micro-batch. Values of the
/// micro-batch are called "<name>/1". Errors: those of BuildMicroBatchedStep; kUnsupported
/// for a micro-batch that draws dropouts or writes states, which differ from micro-batch to
/// micro-batch, and if the batch is not the first dimension of all its inputs and outputs.
Result<RepeatedMicroBatch> BuildRepeatedMicroBatch(
    const Graph& whole, const Graph& micro_batch, int64_t times,
    std::string_view loss, const TrainOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MICRO_BATCHES_H_
