#ifndef STOWAGE_AUTODIFF_TRAIN_STEP_H_
#define STOWAGE_AUTODIFF_TRAIN_STEP_H_

// Forward, backward and update linked into one graph on one timeline.
//
// The saved inputs of the backward graph become the forward values themselves,
// the seed becomes 1, and the update of each param follows directly on the last
// node that makes its gradient and the last that reads the param, so that a
// gradient dies as soon as it has been consumed. Clipping by global norm needs
// every gradient before the first update; then the updates come last.
//
// A linear_cross_entropy that is the loss, and that nothing else reads, is left
// out of the forward part: its gradient makes the loss too, and so the logits
// are made once in a step and never kept.
//
//   Result<Graph> step = BuildTrainStep(forward, "loss",
//                                       {.optimizer = AdamW{}});
//   // step inputs: the forward graph's, "lr" (f32) and "step" (i64); and "seed"
//   // (i64), where the optimizer rounds by chance (autodiff/optimizer.h)

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "autodiff/ranks.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct TrainOptions {
  Optimizer optimizer = AdamW{};
  /// Names of the params to train; empty means all.
  std::vector<std::string> wrt = {};
  /// The global norm to clip the gradients to; adds an output "grad_norm".
  std::optional<double> clip_norm = std::nullopt;
  /// Params with a decay or learning rate of their own, and those that are not
  /// trained; the first group that matches a param's name applies. A frozen
  /// param is as one that is not in `wrt`, so that the norm above is without it.
  std::vector<ParamGroup> groups = {};
  /// Params whose gradients are outputs of the step, too, by patterns of their names
  /// (base/glob.h): "grad:<param>", of the whole batch and before any clipping.
  std::vector<std::string> gradients = {};
  /// Outputs of the model that are sums over the batch, such as a count of right
  /// answers. All others without a dimension of the batch's examples are means over
  /// it, as the loss is. It matters where the batch is taken in pieces.
  std::vector<std::string> sums = {};
};

/// The training step of `forward`: its outputs are the forward graph's, then the
/// norm and the gradients that `options` asks for. States that `forward` writes are
/// the step's. Errors: those of BuildBackward; a name in `wrt` that is not a
/// param's; a pattern in `gradients` that no trained param has, a name in `sums`
/// that is no output's; a forward graph that has a cache, or already a value "lr", or
/// one "step", or a "seed" that the optimizer reads, that is not an input of an i64
/// scalar; a decay, beta or norm outside its range; those of
/// CheckParamGroups and WithoutFrozen. Linear in the nodes of `forward`, but for
/// constants, each of which backward compares with all of forward's, and for
/// param groups, each of which is compared with every param.
Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options = {});

/// A step whose batch is taken in pieces.
struct MicroBatchedStep {
  Graph graph = {};
  /// By piece that is built: its first node, and how many it stands for.
  std::vector<NodeId> begins = {};
  std::vector<int64_t> counts = {};
};

/// Which pieces of a batch are built. Pieces of one size between the first and
/// the last do the same with other examples; `kOneOfAKind` builds one of these
/// only, and is for planning what a step of many pieces needs.
enum class Pieces : uint8_t { kAll, kOneOfAKind };

/// The training step of `whole` that takes its batch in pieces, one after the
/// other, so that only one piece's activations are alive at a time: gradients
/// add up, and the params are updated once, with the last piece's. `pieces` are
/// graphs of the same model for parts of the batch, in order; a graph may occur
/// many times. Inputs that are larger in `whole` are cut along the one dimension
/// that differs; the loss must be a mean over it. Other outputs are joined along it,
/// averaged or added (autodiff/piece_outputs.h), and a state that the model writes
/// goes on from piece to piece. Pieces of different sizes count by their share.
/// Values of piece i are called "<name>/<i>", from 1. Each piece draws dropouts of
/// its own. Errors: those of BuildTrainStep; pieces that do not make up the batch,
/// or an output of it.
Result<MicroBatchedStep> BuildMicroBatchedStep(
    const Graph& whole, std::span<const Graph* const> pieces,
    std::string_view loss, const TrainOptions& options = {},
    Pieces which = Pieces::kAll);

/// The training step of one of several ranks, which takes a part of the batch and, with
/// the others, makes what one rank would make of all parts as pieces, one after the
/// other: bit for bit, where every rank takes its part at once. `whole` is the model for
/// the whole batch; `part`, of the same model, for this rank's share of it, which is less;
/// `pieces` make up the part, or are the part itself. Inputs are the part's, and so are
/// outputs with a dimension of the batch's examples; the others are the whole batch's, and
/// equal on every rank. Gradients are summed in rank order as they come
/// (autodiff/gradient_buckets.h), and so is what model states move to
/// (autodiff/model_states.h). With sharding, states are blocks, "own:w.m" of "w.m", and
/// with Sharding::kWeights so are params (autodiff/shard_weights.h). Graphs of ranks with
/// parts of one size differ in the ids of dropouts, in nothing else. Errors: those of
/// BuildMicroBatchedStep, CheckRanks, JoinModelStates and ShardWeights; with sharding,
/// kUnsupported for an optimizer that cannot update a block by itself, and
/// kInvalidArgument for gradients that are to be given out.
Result<MicroBatchedStep> BuildRankStep(const Graph& whole, const Graph& part,
                                       std::span<const Graph* const> pieces,
                                       std::string_view loss,
                                       const Ranks& ranks,
                                       const TrainOptions& options = {},
                                       Pieces which = Pieces::kAll);

/// A step whose pieces are all of one size, as one piece that a loop can repeat.
struct RepeatedPiece {
  /// The piece, then the updates. What adds up over the pieces begins as a leaf of
  /// role saved, "sum:<name>", which one `add` reads; an output that has a part of
  /// each, as a fill that one `slice_update` writes to. The piece reads the first
  /// part of what is cut.
  Graph graph = {};
  NodeId updates = 0;               // the first node that is no piece's
  std::vector<std::string> cut;     // names of inputs
  std::vector<std::string> joined;  // names of the fills
};

/// The step of BuildMicroBatchedStep that takes `whole` in `times` pieces like
/// `piece`: the same sums in the same order, with the updates after the last piece.
/// Values of the piece are called "<name>/1". Errors: those of
/// BuildMicroBatchedStep; kUnsupported for a piece that draws dropouts or writes
/// states, which differ from piece to piece, and where the batch is not the first
/// dimension of all that has it, so that a piece would be no slice.
Result<RepeatedPiece> BuildRepeatedPiece(const Graph& whole, const Graph& piece,
                                         int64_t times, std::string_view loss,
                                         const TrainOptions& options = {});

/// One graph that runs `forward` and then `backward` (from BuildBackward on
/// it), saved values wired up, the seed a fill of 1, the gradients still
/// outputs. Error: `backward` reads a value that `forward` does not have, or
/// has of another type.
Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_TRAIN_STEP_H_
