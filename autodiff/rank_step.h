#ifndef STOWAGE_AUTODIFF_RANK_STEP_H_
#define STOWAGE_AUTODIFF_RANK_STEP_H_

// Builds the training steps of data-parallel ranks. Each rank computes one shard of the batch, the
// ranks sum their gradients with collectives, and optimizer states, gradients and weights can be
// sharded over the ranks (ZeRO).
//
//   Result<MicroBatchedStep> step =
//       BuildRankStep(whole, part, {{&part}}, "loss",
//                     {.ranks = 4, .rank = 1, .shard = Sharding::kStates});
//   Result<Graph> sharded = ShardWeights(step->graph, /*ranks=*/4);
//   Result<Graph> evaluation = ShardWeights(forward, 4);  // over the same blocks

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/micro_batches.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage {

/// Returns the training step of one rank. Together, the steps of all ranks compute the same result
/// as one rank that runs the ranks' shards of the batch as micro-batches. The results are equal
/// bit for bit if every rank runs its shard as a single micro-batch.
///
/// `whole` is the model for the whole batch, and `part` is the same model for this rank's shard of
/// the batch. `micro_batches` make up `part`. For a single micro-batch, pass `part` itself. The
/// step has the inputs of `part`. An output with a batch dimension contains the examples of `part`.
/// Every other output refers to the whole batch and is equal on every rank.
///
/// Gradients are summed in rank order as they are computed (GradientBuckets), and updates of model
/// states are applied in rank order (JoinModelStates). With sharding, a rank stores only its block
/// of each optimizer state, for example "own:w.m" for "w.m". With Sharding::kWeights it also stores
/// only its block of each param (ShardWeights). The steps of ranks with shards of equal size differ
/// only in the ids of dropouts and, if updates round stochastically, in the offset of the rank's
/// block within a param.
///
/// Propagates errors of BuildMicroBatchedStep, CheckRanks, JoinModelStates and ShardWeights. With
/// sharding, returns kUnsupported if an optimizer cannot update a block of a param independently
/// or if `options.ema` is set, and kInvalidArgument if `options.gradients` is not empty.
Result<MicroBatchedStep> BuildRankStep(
    const Graph& whole, const Graph& part,
    std::span<const Graph* const> micro_batches, std::string_view loss,
    const Ranks& ranks, const TrainOptions& options = {},
    MicroBatches which = MicroBatches::kAll);

/// A gradient that has been summed over ranks. With sharding, `sum` is this rank's block of the
/// summed gradient.
struct Summed {
  std::string param;
  Value sum;
  /// The sum of squares of the whole summed gradient, an f32 scalar, if it was requested.
  Value squares = {};
};

/// Sums gradients over ranks as they are computed. A gradient of at least Ranks::bucket_bytes is
/// reduced in place as soon as it is added. Smaller gradients are collected in buckets, one for
/// each type. A full bucket is concatenated and reduced, which ends the lifetimes of its gradients.
/// The sums of a bucket are passed on when the reduction of the next bucket starts, so that a
/// reduction overlaps with the computation of the next gradients (ir/uses.h).
///
/// With sharding, a rank receives only its own block of a sum (reduce-scatter). If sums of squares
/// are requested, every rank receives the whole sum and then keeps its block, because adding up the
/// squares block by block would not give the same bits.
///
///   GradientBuckets buckets(ranks, /*wants_squares=*/false, &g, [&](Summed s) { ... });
///   buckets.Add("w", w, gradient);  // for each
///   buckets.Flush();
class GradientBuckets {
 public:
  using Take = std::function<void(const Summed&)>;

  /// The builder must outlive this. Add and Flush call `take` once for each sum, to emit the nodes
  /// that read it. The order of these calls depends only on the calls of Add.
  GradientBuckets(const Ranks& ranks, bool wants_squares, GraphBuilder* g,
                  Take take);

  void Add(const std::string& param, Value gradient);
  /// Reduces the remaining gradients and passes all remaining sums to `take`.
  void Flush();

 private:
  struct Waiting {
    std::string param;
    Value gradient;
  };

  // Gradients whose reduction has started and whose sums have not been passed to `take`.
  struct Bucket {
    std::vector<Waiting> gradients = {};
    Value sum = {};
  };

  bool sums_whole() const {
    return ranks_.shard == Sharding::kNone || wants_squares_;
  }
  void Leave(std::vector<Waiting> waiting);
  Value Joined(const std::vector<Waiting>& waiting) const;
  Value Scattered(const std::vector<Waiting>& waiting) const;
  // Returns the number of bytes of the gradient in a bucket. With sharding, this includes the
  // padding of the ranks' blocks.
  Bytes BytesIn(Value gradient) const;
  void TakeSums(const Bucket& bucket);
  void TakeSum(const std::string& param, Value sum);

  const Ranks ranks_;
  const bool wants_squares_;
  GraphBuilder& g_;
  const Take take_;
  std::map<DType, std::vector<Waiting>> waiting_;  // open buckets, by type
  Bucket under_way_;
};

/// The maximum distance, in nodes, between two consecutive readers that share one gathered param.
inline constexpr int kReadersApart = 16;

/// Returns `graph` with each param "w" replaced by the param "own:w" (OwnName), this rank's block
/// of "w". An all-gather reconstructs a param before it is read, and the gathered copy is freed
/// after its last read. The weights of a layer are gathered one layer ahead, before the node of the
/// same phase that reads the previous matrix. The collective thereby overlaps with that node
/// (ir/uses.h), and the weights of two layers are live at a time. Consecutive readers in the same
/// phase share a gathered param if they are at most kReadersApart nodes apart. Otherwise the param
/// is gathered a second time.
///
/// In a training step, a param must be updated by updating the rank's own block and gathering the
/// result as the new content of the param, as with Sharding::kStates and kGradients. The gather is
/// removed, and the updated block becomes the new content of "own:w". Params without an update,
/// such as frozen ones, are also sharded. The Init of a block is zeros, so the caller must write
/// the block's initial content. Returns kUnsupported if the graph outputs a param or updates a
/// whole param.
Result<Graph> ShardWeights(const Graph& graph, int64_t ranks);

/// Returns `step`, the step of one of `ranks` ranks, with its writes of model states, such as the
/// running averages of a batch norm, joined over the ranks. Every rank gathers the new values that
/// the ranks pass to each lerp_update of the forward pass, and applies them in rank order, as one
/// rank would do with the ranks' shards as micro-batches. Returns kUnsupported if the forward pass
/// writes a state with another op.
Result<Graph> JoinModelStates(const Graph& step, int64_t ranks);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_RANK_STEP_H_
