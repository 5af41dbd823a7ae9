#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_

// Emits the micro-batches of a step (autodiff/micro_batches.h) one after the other, each forward
// and backward. Outputs are joined, model states are passed from micro-batch to micro-batch, and
// gradients are passed to a callback that accumulates them.
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

/// Computes the outputs of a step from the outputs of its micro-batches. The BatchKind of an output
/// (autodiff/batch_analysis.h) determines how:
///   - Outputs with a batch dimension are concatenated in one buffer.
///   - A mean is the sum of the micro-batches' means, weighted by their shares of the batch.
///   - A sum is the sum of the micro-batches' sums.
///   - A maximum is the elementwise maximum of the micro-batches' maxima.
///   - A param, a state, or a value that is equal in all micro-batches is the last micro-batch's.
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
  /// `whole` is the model for the whole batch. The micro-batches make up `part`, which is `whole`
  /// or the model for one rank's shard of the batch. They must be added to `model` before Begin is
  /// called. All arguments must outlive this object.
  MicroBatchOutputs(const Graph& whole, const Graph& part,
                    const SplitModel& model, std::string_view loss,
                    GraphBuilder* g);

  /// Decides how outputs are joined and emits the buffers of concatenated outputs. `micro_batch`
  /// may be any of the micro-batches. Returns kInvalidArgument in these cases:
  ///   - It lacks an output.
  ///   - An output has another element type or rank than in `whole`, or differs from it in more
  ///     than one dimension.
  ///   - An output is a sum or mean of bools, or a mean of integers.
  Status Begin(const Graph& micro_batch);
  /// Does the same as Begin for a single micro-batch that a loop repeats. Sums and means start from
  /// leaves with the role saved, "sum:<output>". Returns the names of the fills to which
  /// concatenated outputs are written, "joined:<output>". Also returns kUnsupported if an output is
  /// a maximum, a param, a state or a value that is equal in all micro-batches.
  Result<std::vector<std::string>> BeginRepeated(const Graph& micro_batch);

  /// Returns whether every concatenated output is concatenated along its first axis.
  bool join_first() const;

  /// Adds the outputs of `micro_batch`, except the loss. `share` is its share of the batch. Call
  /// this function as soon as `linker` has copied the forward graph, so that the micro-batch's
  /// outputs have short lifetimes. Returns kInvalidArgument if the micro-batch's share of a
  /// concatenated dimension is not `share`.
  Status Add(const Graph& micro_batch, double share, const Linker& linker);
  /// Adds the loss of `micro_batch`. Call this function after the micro-batch's backward pass,
  /// which may compute the loss.
  void AddLoss(const Graph& micro_batch, double share, const Linker& linker);
  /// Notes that the next micro-batch, `micro_batch`, is not emitted.
  void Skip(const Graph& micro_batch);

  /// Declares the outputs. Means and sums are added up over `ranks` ranks. Returns kInvalidArgument
  /// if the micro-batches do not make up a concatenated output.
  Status Finish(int64_t ranks = 1);

 private:
  enum class Kind : uint8_t { kMean, kSum, kMax, kJoined, kLast, kWhole };
  struct Made {
    GraphOutput output;  // of whole_
    Kind kind = Kind::kMean;
    int axis = 0;       // for kJoined
    int64_t taken = 0;  // for kJoined: the extent along `axis` written so far
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

/// The gradient of a param in one micro-batch. It is reported after the micro-batch's last read of
/// the param.
struct Gradient {
  std::string name;  // of the param
  Value param;
  Value gradient;
  SourceLoc source;        // of the param
  bool is_first, is_last;  // whether this is the first or last micro-batch
};

/// Emits a step up to its gradients, which are passed to a callback.
class MicroBatchesInTurn {
 public:
  /// `whole` is the model for the whole batch. `micro_batches`, which must not be empty, make up
  /// `part`, which is `whole` or the model for one rank's shard of the batch. All arguments except
  /// `ranks` must outlive this object.
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

  /// Emits the micro-batches and declares the outputs. Calls `add` with each gradient, and
  /// `end_micro_batch` after the backward pass of each micro-batch. Dropout ids start after the ids
  /// of the lower ranks, which are assumed to run the same micro-batches. Propagates errors of
  /// Differentiate and of SplitModel::Add. Returns kInvalidArgument if the micro-batches do not
  /// make up `part` or one of its outputs.
  Status Run(MicroBatches which, Updater* updater,
             const std::function<void(const Gradient&)>& add,
             const std::function<void()>& end_micro_batch);

  /// These functions return the arguments of FinishMicroBatches. Run must have been called.
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
