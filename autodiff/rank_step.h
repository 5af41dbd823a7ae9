#ifndef STOWAGE_AUTODIFF_RANK_STEP_H_
#define STOWAGE_AUTODIFF_RANK_STEP_H_

// Training steps of several ranks, each of which takes a part of the batch.
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

/// The training step of one rank, which computes with the others what one rank would compute
/// from all parts as micro-batches, one after the other: bit for bit, if every rank takes its
/// part at once. `whole` is the model for the whole batch; `part`, of the same model, for
/// this rank's share of it; `micro_batches` make up the part, or are the part itself. Inputs
/// are the part's, and so are outputs with a dimension of the batch's examples; the other
/// outputs are the whole batch's and equal on every rank. Gradients are summed in rank order
/// as they are computed (GradientBuckets), and so are the values to which model states move
/// (JoinModelStates). With sharding, states are blocks, "own:w.m" of "w.m", and with
/// Sharding::kWeights so are params (ShardWeights). Steps of ranks with parts of one size
/// differ only in the ids of dropouts and in the elements of a param that an update with
/// stochastic rounding has.
///
/// Errors: those of BuildMicroBatchedStep, CheckRanks, JoinModelStates and ShardWeights; with
/// sharding, kUnsupported for an optimizer that cannot update a block by itself, and
/// kInvalidArgument for gradients as outputs.
Result<MicroBatchedStep> BuildRankStep(
    const Graph& whole, const Graph& part,
    std::span<const Graph* const> micro_batches, std::string_view loss,
    const Ranks& ranks, const TrainOptions& options = {},
    MicroBatches which = MicroBatches::kAll);

/// A gradient's sum over ranks, or this rank's block of it, if gradients are sharded.
struct Summed {
  std::string param;
  Value sum;
  Value squares = {};  // sum of squares of the whole, f32 scalar; if wanted
};

/// Sums gradients over ranks as they are computed. A large gradient is reduced at once, in
/// place; small ones are collected in a bucket, joined when it is full and reduced together,
/// so that a gradient dies when its bucket is reduced. The sums of a bucket are used when the
/// next bucket starts: the reduction overlaps with the computation of the next gradients
/// (ir/uses.h).
///
/// With sharding, a rank gets only its own block of a sum. If the sum of squares is needed
/// too, which sums over blocks would not give bit for bit, every rank gets the whole sum and
/// keeps its block.
///
///   GradientBuckets buckets(ranks, /*wants_squares=*/false, &g, [&](Summed s) { ... });
///   buckets.Add("w", w, gradient);  // for each
///   buckets.Flush();
class GradientBuckets {
 public:
  using Take = std::function<void(const Summed&)>;

  /// The builder must outlive this. `take` emits the use of a sum; it is called by Add and
  /// Flush, in an order that depends only on the calls of Add.
  GradientBuckets(const Ranks& ranks, bool wants_squares, GraphBuilder* g,
                  Take take);

  void Add(const std::string& param, Value gradient);
  /// Reduces what is left and takes all sums.
  void Flush();

 private:
  struct Waiting {
    std::string param;
    Value gradient;
  };

  // Gradients whose reduction has started, and whose sums have not been taken.
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
  // The gradient's bytes in a bucket: if gradients are sharded, of the blocks of all ranks.
  Bytes BytesIn(Value gradient) const;
  void TakeSums(const Bucket& bucket);
  void TakeSum(const std::string& param, Value sum);

  const Ranks ranks_;
  const bool wants_squares_;
  GraphBuilder& g_;
  const Take take_;
  std::map<DType, std::vector<Waiting>> waiting_;  // under a bucket per type
  Bucket under_way_;
};

/// The largest distance, in nodes, between two readers of one gathered param.
inline constexpr int kReadersApart = 16;

/// `graph` with the param "own:w" (OwnName), this rank's block, in place of each param "w". All
/// ranks gather a param before it is read and drop it after. The weights that a layer reads
/// are gathered one layer ahead, before the node of the same phase that reads the previous
/// matrix, so that the collective overlaps with that node (ir/uses.h) and takes the memory of
/// two layers' weights. A gathered param serves readers at most kReadersApart nodes apart in
/// one phase; others gather again.
///
/// In a training step, the updates of a param must be those of its own block, gathered as its
/// new content (Sharding::kGradients); the update of the block then becomes the param's.
/// Params without such an update, such as frozen ones, are split too. A block's Init is
/// zeros; the caller writes its part of the param's initial content. Error kUnsupported: the
/// graph outputs a param, or updates one as a whole.
Result<Graph> ShardWeights(const Graph& graph, int64_t ranks);

/// `step`, of several ranks, with the states that the model writes, such as a batch norm's
/// averages, moved as one rank would move them for all parts of the batch, one after the
/// other: every rank gathers the targets of each lerp_update of the forward part and applies
/// them in rank order. Error kUnsupported: the forward part writes a state in another way.
Result<Graph> JoinModelStates(const Graph& step, int64_t ranks);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_RANK_STEP_H_
