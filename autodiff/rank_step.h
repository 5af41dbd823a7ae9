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

/// Returns the training step of one rank, `ranks.rank`. Together, the steps of all ranks compute
/// the same result as one rank that runs the ranks' shards of the batch as micro-batches. The
/// results are equal bit for bit if every rank runs its shard as a single micro-batch.
///
/// `whole` is the model for the whole batch, and `part` is the same model for this rank's shard of
/// the batch. `micro_batches` make up `part`, and must not be empty. For a single micro-batch, pass
/// `part` itself. The step has the inputs of `part`. An output with a batch dimension contains the
/// examples of `part`. Every other output refers to the whole batch and is equal on every rank.
///
/// Gradients are summed over the ranks, in rank order, as soon as they are computed
/// (GradientBuckets). Updates of model states are applied in rank order (JoinModelStates). With
/// sharding (Ranks::shard), a rank stores only its block of each optimizer state, for example
/// "own:w.m" for "w.m". With Sharding::kWeights it also stores only its block of each param
/// (ShardWeights). The steps of ranks with shards of equal size differ only in the ids of dropouts
/// and, if updates round stochastically, in the offset of the rank's block within a param.
///
/// Propagates errors of BuildMicroBatchedStep, CheckRanks, JoinModelStates and ShardWeights. With
/// sharding, returns kUnsupported if an optimizer cannot update the blocks of a param separately
/// (UpdatesByBlocks) or if `options.ema` is set, and kInvalidArgument if `options.gradients` is not
/// empty.
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
/// reduced as soon as it is added. Smaller gradients are collected in buckets, one for each element
/// type. The gradients of a full bucket are concatenated and reduced, which ends their lifetimes.
/// The sums of a bucket are reported when the reduction of the next bucket starts, so that a
/// reduction overlaps with the computation of the next gradients (ir/uses.h).
///
/// With sharding, a rank receives only its own block of a sum (reduce-scatter). If sums of squares
/// are requested, every rank instead receives the whole sum and then keeps its block, because sums
/// of squares that are added up block by block would be rounded differently.
///
///   GradientBuckets buckets(ranks, /*wants_squares=*/false, &g, [&](const Summed& s) { ... });
///   buckets.Add("w", gradient);  // for each param
///   buckets.Flush();
class GradientBuckets {
 public:
  using Take = std::function<void(const Summed&)>;

  /// Prepares to emit reductions into the builder `g`, which must outlive this object. Add and
  /// Flush call `take` once for each sum, to emit the nodes that read the sum. The order of these
  /// calls depends only on the calls of Add. `wants_squares` requests Summed::squares.
  GradientBuckets(const Ranks& ranks, bool wants_squares, GraphBuilder* g,
                  Take take);

  /// Adds the gradient of `param`, and reduces a bucket if one is full.
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

/// The maximum distance, in nodes, between two consecutive readers that share one gathered param
/// (ShardWeights).
inline constexpr int kReadersApart = 16;

/// Returns `graph` with each param "w" replaced by the param "own:w" (OwnName), this rank's block
/// of "w". An all-gather reconstructs a param before it is read, and the gathered copy is freed
/// after its last read. The weights of a layer are gathered one layer ahead, before the node of the
/// same phase that reads the previous matrix. The collective thereby overlaps with that node
/// (ir/uses.h), and the weights of two layers are live at a time. Consecutive readers in the same
/// phase share a gathered copy if they are at most kReadersApart nodes apart. Otherwise the param
/// is gathered a second time.
///
/// A training step must update a param as with Sharding::kStates and kGradients: it updates the
/// rank's own block and gathers the result as the new content of the param. ShardWeights removes
/// this gather, and the updated block becomes the new content of "own:w". Params without an update,
/// such as frozen params, are also sharded. The Init of a block is zeros, so the caller must write
/// the block's initial content. Returns kUnsupported if the graph outputs a param or updates a
/// whole param.
Result<Graph> ShardWeights(const Graph& graph, int64_t ranks);

/// Returns `step`, the step of one of `ranks` ranks, with the model states of all ranks kept equal,
/// such as the running averages of a batch norm. For each lerp_update of a state in the forward
/// pass, every rank gathers the operands x of all ranks and applies them in rank order, as one rank
/// would do with the ranks' shards as micro-batches. Returns kUnsupported if the forward pass
/// writes a state with another op.
Result<Graph> JoinModelStates(const Graph& step, int64_t ranks);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_RANK_STEP_H_
