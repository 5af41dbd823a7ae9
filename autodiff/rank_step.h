#ifndef STOWAGE_AUTODIFF_RANK_STEP_H_
#define STOWAGE_AUTODIFF_RANK_STEP_H_

// The training step of one of several ranks, which each take a part of a batch.
//
//   Result<MicroBatchedStep> step =
//       BuildRankStep(whole, part, {{&part}}, "loss",
//                     {.ranks = 4, .rank = 1, .shard = Sharding::kStates});

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

/// The training step of one of several ranks, which takes a part of the batch and, with
/// the others, makes what one rank would make of all parts as micro-batches, one after the
/// other: bit for bit, where every rank takes its part at once. `whole` is the model for
/// the whole batch; `part`, of the same model, for this rank's share of it, which is less;
/// `micro_batches` make up the part, or are the part itself. Inputs are the part's, and so are
/// outputs with a dimension of the batch's examples; the others are the whole batch's, and
/// equal on every rank. Gradients are summed in rank order as they come
/// (autodiff/rank_step.h), and so is what model states move to
/// (autodiff/rank_step.h). With sharding, states are blocks, "own:w.m" of "w.m", and
/// with Sharding::kWeights so are params (autodiff/rank_step.h). Graphs of ranks with
/// parts of one size differ in the ids of dropouts, and in which elements of a param an
/// update that rounds by chance has, in nothing else. Errors: those of
/// BuildMicroBatchedStep, CheckRanks, JoinModelStates and ShardWeights; with sharding,
/// kUnsupported for an optimizer that cannot update a block by itself, and
/// kInvalidArgument for gradients that are to be given out.
Result<MicroBatchedStep> BuildRankStep(
    const Graph& whole, const Graph& part,
    std::span<const Graph* const> micro_batches, std::string_view loss,
    const Ranks& ranks, const TrainOptions& options = {},
    MicroBatches which = MicroBatches::kAll);

// The way of gradients from rank to rank.
//
// What a rank has made of the gradients is summed over all ranks as it comes. A large
// one leaves at once, and in place; small ones wait in a bucket, are joined when it is
// full, and leave together. So a gradient dies as its bucket leaves. What is done with a
// bucket's sums is done as the next one leaves: the bucket travels while the gradients
// of the next are made (ir/uses.h).
//
//   GradientBuckets buckets(ranks, /*wants_squares=*/false, &g, [&](Summed s) { ... });
//   buckets.Add("w", w, gradient);  // for each
//   buckets.Flush();
//
// With sharding, a rank gets its own block of a sum alone. Where the sum of all its
// squares is wanted, too, which does not follow in the same bits from sums over blocks,
// every rank gets the sum, and keeps its block.

/// A gradient's sum over ranks: this rank's block of it, if gradients are split.
struct Summed {
  std::string param;
  Value sum;
  Value squares = {};  // f32 scalar, of all of it; where it is wanted
};

class GradientBuckets {
 public:
  using Take = std::function<void(const Summed&)>;

  /// The builder must outlive this. `take` emits what is done with a sum; it is called
  /// by Add and Flush, in an order that follows from the calls of Add.
  GradientBuckets(const Ranks& ranks, bool wants_squares, GraphBuilder* g,
                  Take take);

  void Add(const std::string& param, Value gradient);
  /// Lets go what still waits, and takes all sums.
  void Flush();

 private:
  struct Waiting {
    std::string param;
    Value gradient;
  };

  // What has left, and has not been taken.
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
  // What it takes of a bucket: where it is split, blocks of each rank.
  Bytes BytesIn(Value gradient) const;
  void TakeSums(const Bucket& bucket);
  void TakeSum(const std::string& param, Value sum);

  const Ranks ranks_;
  const bool wants_squares_;
  GraphBuilder& g_;
  const Take take_;
  std::map<DType, std::vector<Waiting>> waiting_;  // less than a bucket of each
  Bucket under_way_;
};

// A graph whose params are split among ranks: each keeps its own block, all gather a
// param before it is read and drop it after.
//
// What a layer reads is gathered a layer ahead, in front of the node of the same phase
// that reads a matrix before it does: so it travels while that one computes
// (ir/uses.h), and takes the memory of two layers' weights. What was gathered serves
// readers that follow one another closely; those of another phase, or farther away, gather
// anew.
//
//   Result<Graph> step = ShardWeights(step_with_split_states, /*ranks=*/4);
//   Result<Graph> evaluation = ShardWeights(forward, 4);  // over the same blocks

/// How many nodes may lie between two readers of what was gathered once.
inline constexpr int kReadersApart = 16;

/// `graph` with the param "own:w" (OwnName), a block, in the place of each param "w".
/// In a training step, the updates of a param must be those of its own block, gathered
/// as its new content (Sharding::kGradients): there, a block's update becomes the
/// param's. Params that are not so updated, frozen ones among them, are split as well.
/// A block's Init is zeros: it is to be given its part of what the param starts from.
/// Error kUnsupported: the graph outputs a param, or updates one as a whole.
Result<Graph> ShardWeights(const Graph& graph, int64_t ranks);

// The states that a model writes itself, such as a batch norm's averages, in a step that
// several ranks take: each is to become what one rank would have made of all parts of
// the batch, one after the other.
//
//   Result<Graph> joined = JoinModelStates(step, /*ranks=*/4);

/// `step` with every lerp_update of the forward part taken by each rank for all of them,
/// in their order, from what they move to, gathered. Error kUnsupported: the forward
/// part writes a state in another way.
Result<Graph> JoinModelStates(const Graph& step, int64_t ranks);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_RANK_STEP_H_
