#ifndef STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_
#define STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_

// Micro-batches of a batch one after the other: forward and backward of each on one timeline,
// their outputs joined, their states passed on, and their gradients given to a callback that
// accumulates them.
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

/// The outputs of a step in micro-batches. autodiff/batch_analysis.h derives how each follows
/// from those of the micro-batches: an output with the batch's dimension is joined from its
/// parts in one buffer, means are added up by the micro-batches' shares, sums unweighted, a
/// maximum keeps the largest, and a state or a value that is equal in all micro-batches is
/// the last one's. An output that compares examples is computed before the micro-batches
/// (autodiff/gradient_cache.h). For the micro-batches of one rank these are the outputs of its
/// part of the batch; means and sums are then added up over the ranks.
///
///   MicroBatchOutputs outputs(whole, whole, model, "loss", &g);
///   outputs.Begin(first_micro_batch);
///   for each micro-batch: outputs.Add(micro_batch, share, linker);  // after its forward part
///                   outputs.AddLoss(micro_batch, share, linker);
///   STOWAGE_RETURN_IF_ERROR(outputs.Finish());
class MicroBatchOutputs {
 public:
  /// All must outlive this. The micro-batches, which `model` knows, make up `part` of the batch
  /// `whole`, or all of it.
  MicroBatchOutputs(const Graph& whole, const Graph& part,
                    const SplitModel& model, std::string_view loss,
                    GraphBuilder* g);

  /// Decides how outputs are joined, given any of the micro-batches, and emits their buffers.
  /// Errors: an output that the micro-batch lacks or that differs in more than one dimension;
  /// a sum or mean of bools, or a mean of integers.
  Status Begin(const Graph& micro_batch);
  /// The same for a micro-batch that stands for all: sums begin as leaves of role saved,
  /// "sum:<output>". Returns the names of the fills that joined outputs are written to,
  /// "joined:<output>".
  Result<std::vector<std::string>> BeginRepeated(const Graph& micro_batch);

  /// Whether every joined output is joined along its first axis.
  bool join_first() const;

  /// Adds the outputs, except the loss, of `micro_batch`, which is `share` of the batch; to
  /// be called as soon as `linker` has copied the forward graph, so that the parts die early.
  /// Error: an output with another share of its dimension.
  Status Add(const Graph& micro_batch, double share, const Linker& linker);
  /// Adds the loss, which the backward part may have computed.
  void AddLoss(const Graph& micro_batch, double share, const Linker& linker);
  /// Skips a micro-batch that is not built.
  void Skip(const Graph& micro_batch);

  /// Declares the outputs, each split over `ranks` ranks. Error: the parts do not make up
  /// the whole.
  Status Finish(int64_t ranks = 1);

 private:
  enum class Kind : uint8_t { kMean, kSum, kMax, kJoined, kLast, kWhole };
  struct Made {
    GraphOutput output;  // of whole
    Kind kind = Kind::kMean;
    int axis = 0;       // kJoined
    int64_t taken = 0;  // kJoined: places along the axis so far
    Value value = {};   // so far
  };

  Result<Made> Decide(const GraphOutput& output,
                      const Graph& micro_batch) const;
  bool IsLoss(const Made& made) const;
  // The part of `micro_batch`; sets the origin of the nodes that follow.
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

/// A gradient of a micro-batch, reported when nothing will read its param any more.
struct Gradient {
  std::string name;  // of the param
  Value param;
  Value gradient;
  SourceLoc source;
  bool is_first, is_last;  // micro-batch
};

/// Emits the step up to the gradients, which a callback takes.
class MicroBatchesInTurn {
 public:
  /// The micro-batches make up `part` of the batch `whole`, or all of it. All must outlive
  /// this.
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

  /// `add` takes each gradient; `end_micro_batch` is called after each micro-batch. Dropout
  /// ids start after those of the lower ranks, with as many micro-batches each. Errors: those
  /// of Differentiate; micro-batches that do not make up the part or an output of it.
  Status Run(MicroBatches which, Updater* updater,
             const std::function<void(const Gradient&)>& add,
             const std::function<void()>& end_micro_batch);

  /// The arguments of FinishMicroBatches, after Run.
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
  std::vector<NodeId> begins_;           // in the builder's numbering
  std::vector<int64_t> counts_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MICRO_BATCHES_IN_TURN_H_
