#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_

// Emits the micro-batches of a step one after the other, each forward and backward. Outputs are
// joined, model states are passed from micro-batch to micro-batch, and gradients are passed to a
// callback that accumulates them.
//
//   MicroBatchesInTurn loop(whole, whole, micro_batches, "loss", {}, options, &g);
//   STOWAGE_RETURN_IF_ERROR(loop.Run(MicroBatches::kAll, &updater, add, [] {}));
//   return FinishMicroBatches(g, loop.begins(), loop.counts());

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "autodiff/micro_batches.h"
#include "autodiff/split_model.h"
#include "autodiff/step_parts.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"

namespace stowage {

/// Computes the outputs of a step from the outputs of its micro-batches, as derived by
/// autodiff/batch_analysis.h:
///   - An output with a batch dimension is concatenated in one buffer.
///   - A mean is the sum of the micro-batches' means, weighted by their shares of the batch.
///   - A sum is added up without weights.
///   - A maximum is the elementwise maximum.
///   - A state, or a value that is equal in all micro-batches, is taken from the last one.
///   - An output that compares examples is computed before the micro-batches
///     (autodiff/gradient_cache.h).
/// On several ranks, concatenated outputs contain the rank's shard of the batch, and means and sums
/// are added up over the ranks.
///
///   MicroBatchOutputs outputs(whole, whole, model, "loss", &g);
///   outputs.Begin(first_micro_batch);
///   for each micro-batch: outputs.Add(micro_batch, share, linker);  // after its forward pass
///                   outputs.AddLoss(micro_batch, share, linker);
///   STOWAGE_RETURN_IF_ERROR(outputs.Finish());
class MicroBatchOutputs {
 public:
  /// The arguments must outlive this. The micro-batches, which must have been added to `model`,
  /// make up `part`, which is the whole batch `whole` or one rank's shard of it.
  MicroBatchOutputs(const Graph& whole, const Graph& part,
                    const SplitModel& model, std::string_view loss,
                    GraphBuilder* g);

  /// Decides how outputs are joined, given any one of the micro-batches, and emits the buffers of
  /// concatenated outputs. Returns kInvalidArgument if the micro-batch lacks an output, if an
  /// output differs in its type or in more than one dimension, or if an output is a sum or mean of
  /// bools or a mean of integers.
  Status Begin(const Graph& micro_batch);
  /// Does the same for a single micro-batch that a loop repeats. Sums start from leaves of role
  /// saved, "sum:<output>". Returns the names of the fills to which concatenated outputs are
  /// written, "joined:<output>". Also returns kUnsupported if an output is a maximum, a state or a
  /// value that is equal in all micro-batches.
  Result<std::vector<std::string>> BeginRepeated(const Graph& micro_batch);

  /// Returns whether every concatenated output is concatenated along its first axis.
  bool join_first() const;

  /// Adds the outputs of `micro_batch`, except the loss. `share` is its share of the batch. Call
  /// this as soon as `linker` has copied the forward graph, so that the micro-batch's outputs have
  /// short lifetimes. Returns kInvalidArgument if the micro-batch's share of a concatenated
  /// dimension is not `share`.
  Status Add(const Graph& micro_batch, double share, const Linker& linker);
  /// Adds the loss of `micro_batch`. Call this after its backward pass, which may compute the loss.
  void AddLoss(const Graph& micro_batch, double share, const Linker& linker);
  /// Skips a micro-batch that is not emitted.
  void Skip(const Graph& micro_batch);

  /// Declares the outputs, and adds means and sums up over `ranks` ranks. Returns kInvalidArgument
  /// if the micro-batches do not make up a concatenated output.
  Status Finish(int64_t ranks = 1);

 private:
  enum class Kind : uint8_t { kMean, kSum, kMax, kJoined, kLast, kWhole };
  struct Made {
    GraphOutput output;  // of whole_
    Kind kind = Kind::kMean;
    int axis = 0;       // kJoined
    int64_t taken = 0;  // kJoined: the extent along `axis` written so far
    Value value = {};   // the result of the micro-batches so far
  };

  Result<Made> Decide(const GraphOutput& output,
                      const Graph& micro_batch) const;
  bool IsLoss(const Made& made) const;
  // Returns the output of `micro_batch`, and sets the origin of the nodes that follow.
  Value PartOf(const Made& made, const Graph& micro_batch, const Linker& linker,
               Phase phase);
  int64_t PlacesOf(const Made& made, const Graph& micro_batch) const;

  TensorType PartType(const Made& made) const;

  const Graph& whole_;
  const Graph& part_;
  const SplitModel& model_;
  const std::string_view loss_;
  GraphBuilder& g_;
  std::vector<Made> made_;
};

/// A gradient of a micro-batch, reported after the micro-batch's last read of its param.
struct Gradient {
  std::string name;  // of the param
  Value param;
  Value gradient;
  SourceLoc source;
  bool is_first, is_last;  // whether it is of the first or last micro-batch
};

/// Emits a step up to its gradients, which are passed to a callback.
class MicroBatchesInTurn {
 public:
  /// The micro-batches make up `part`, which is the whole batch `whole` or one rank's shard of it.
  /// All arguments except `ranks` must outlive this.
  MicroBatchesInTurn(const Graph& whole, const Graph& part,
                     std::span<const Graph* const> micro_batches,
                     std::string_view loss, const Ranks& ranks,
                     const TrainOptions& options, GraphBuilder* g)
      : part_(part),
        micro_batches_(micro_batches),
        loss_(loss),
        options_(options),
        g_(*g),
        leaves_(part, g),
        axes_(whole, part),
        model_(whole, part, loss, ranks, options),
        ranks_(ranks),
        outputs_(whole, part, model_, loss, g) {}

  /// Emits the micro-batches. Calls `add` with each gradient, and `end_micro_batch` after each
  /// micro-batch. Dropout ids start after the ids of the lower ranks, which are assumed to run the
  /// same micro-batches. Propagates errors of Differentiate and of SplitModel::Add. Returns
  /// kInvalidArgument if the micro-batches do not make up `part` or one of its outputs.
  Status Run(MicroBatches which, Updater* updater,
             const std::function<void(const Gradient&)>& add,
             const std::function<void()>& end_micro_batch);

  /// Return the arguments of FinishMicroBatches. Run must have been called.
  const std::vector<NodeId>& begins() const { return begins_; }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  void MapLeaves(const Graph& micro_batch, Linker* linker);

  const Graph& part_;
  const std::span<const Graph* const> micro_batches_;
  const std::string_view loss_;
  const TrainOptions& options_;
  GraphBuilder& g_;
  GraphCopy leaves_;
  BatchAxes axes_;
  SplitModel model_;
  const Ranks ranks_;
  MicroBatchOutputs outputs_;
  std::map<std::string, Value> states_;  // after the micro-batches so far
  std::vector<NodeId> begins_;           // ids in the builder
  std::vector<int64_t> counts_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_
