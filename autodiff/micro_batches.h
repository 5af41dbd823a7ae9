#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_H_

// A training step that takes its batch in micro-batches, so that only one micro-batch's
// activations are alive at a time.
//
//   const Graph* const micro-batches[] = {&half, &half};  // of the same model
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, micro_batches, "loss", {.optimizer = AdamW{}});

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_options.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

// What a step is whose batch is taken in micro-batches: a graph, and where in it each micro-batch
// begins.
//
//   Result<MicroBatchedStep> step =
//       BuildMicroBatchedStep(whole, {{&half, &half}}, "loss");
//   // step->begins[1] is the first node of the second half.

/// A step whose batch is taken in micro-batches.
struct MicroBatchedStep {
  Graph graph = {};
  /// By micro-batch that is built: its first node, and how many it stands for.
  std::vector<NodeId> begins = {};
  std::vector<int64_t> counts = {};
};

/// Which micro-batches of a batch are built. Micro-batches of one size between the first and
/// the last do the same with other examples; `kOneOfAKind` builds one of these
/// only, and is for planning what a step of many micro-batches needs.
enum class MicroBatches : uint8_t { kAll, kOneOfAKind };

/// The step that `g` has built, whose micro-batches begin at the nodes `begins`, as long as the
/// graph grew, and stand for `counts` each. Error: the builder's.
Result<MicroBatchedStep> FinishMicroBatches(GraphBuilder& g,
                                            const std::vector<NodeId>& begins,
                                            std::vector<int64_t> counts);

/// Puts what `rewrite` makes of a step in its place: micro-batches begin at the first node of
/// theirs that is still there. Error: that of `rewrite`; the step is then as it was.
Status RewriteStep(MicroBatchedStep* step,
                   const std::function<Result<Graph>(const Graph&)>& rewrite);

/// The training step of `whole` that takes its batch in micro-batches, one after the
/// other, so that only one micro-batch's activations are alive at a time: gradients
/// add up, and the params are updated once, with the last micro-batch's. `micro_batches` are
/// graphs of the same model for parts of the batch, in order; a graph may occur
/// many times. Inputs that are larger in `whole` are cut along the one dimension
/// that differs; the loss must be a mean over it. Other outputs are joined along it,
/// averaged or added (autodiff/micro_batches_in_turn.h), and a state that the model writes
/// goes on from micro-batch to micro-batch. Micro-batches of different sizes count by their share.
/// Values of micro-batch i are called "<name>/<i>", from 1. Each micro-batch draws dropouts of
/// its own. Errors: those of BuildTrainStep; micro-batches that do not make up the batch,
/// or an output of it.
Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> micro_batches,
    std::string_view loss, const TrainOptions& options = {},
    MicroBatches which = MicroBatches::kAll);

// A training step whose micro-batches are all of one size, as one micro-batch that a loop repeats
// and the updates after it.
//
//   Result<RepeatedMicroBatch> step =
//       BuildRepeatedMicroBatch(whole, eighth, /*times=*/8, "loss", options);

/// A step whose micro-batches are all of one size, as one micro-batch that a loop can repeat.
struct RepeatedMicroBatch {
  /// Totals of the whole batch (autodiff/split_model.h), whose origin is kTotals; the
  /// micro-batch; then the updates. What adds up over the micro-batches begins as a leaf of
  /// role saved, "sum:<name>", which one `add` reads; an output that has a part of
  /// each, as a fill that one `slice_update` writes to. The micro-batch reads the first
  /// part of what is cut.
  Graph graph = {};
  NodeId first = 0;                 // the first node of the micro-batch
  NodeId updates = 0;               // the first node that is no micro-batch's
  std::vector<std::string> cut;     // names of inputs
  std::vector<std::string> joined;  // names of the fills
};

/// The step of BuildMicroBatchedStep that takes `whole` in `times` micro-batches like
/// `micro_batch`: the same sums in the same order, with the updates after the last micro-batch.
/// Values of the micro-batch are called "<name>/1". Errors: those of
/// BuildMicroBatchedStep; kUnsupported for a micro-batch that draws dropouts or writes
/// states, which differ from micro-batch to micro-batch, and where the batch is not the first
/// dimension of all that has it, so that a micro-batch would be no slice.
Result<RepeatedMicroBatch> BuildRepeatedMicroBatch(
    const Graph& whole, const Graph& micro_batch, int64_t times,
    std::string_view loss, const TrainOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MICRO_BATCHES_H_
