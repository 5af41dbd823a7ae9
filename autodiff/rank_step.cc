#include "autodiff/rank_step.h"

#include <map>
#include <string>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/differentiated.h"
#include "autodiff/gradient_buckets.h"
#include "autodiff/model_states.h"
#include "autodiff/pieces_in_turn.h"
#include "autodiff/shard_weights.h"
#include "autodiff/updater.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// That the step can be split so.
Status CheckSharding(const Ranks& ranks, const TrainOptions& options) {
  if (ranks.shard == Sharding::kNone) return {};
  const auto check = [&](const Optimizer& optimizer) -> Status {
    if (UpdatesByBlocks(optimizer)) return {};
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[ranks] optimizer ", OptimizerName(optimizer),
               " cannot update a block of a param by itself, as sharding ",
               ShardingName(ranks.shard),
               " wants; expected any optimizer but adafactor, muon and rules "
               "of a program's own, or sharding none")};
  };
  STOWAGE_RETURN_IF_ERROR(check(options.optimizer));
  if (options.gradients.empty()) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[autodiff] sharding ", ShardingName(ranks.shard),
             " leaves no rank with a whole gradient to give out; expected "
             "sharding none")};
}

// What becomes of a rank's gradients: they are summed over all ranks, and the params
// updated, whole or by blocks.
class RankUpdates {
 public:
  RankUpdates(const Ranks& ranks, const TrainOptions& options, Updater* updater,
              GraphBuilder* g)
      : ranks_(ranks),
        options_(options),
        updater_(*updater),
        g_(*g),
        buckets_(ranks, UpdatesWait(options), g,
                 [this](const Summed& summed) { Take(summed); }) {}

  void Add(const std::string& name, Value param, Value gradient, bool is_last) {
    params_[name] = param;
    is_last_ = is_last;
    const std::string whole = GradientName(name);
    if (gradient.ok() && g_.info(gradient).name == whole) {
      g_.Name(StrCat("part:", whole), gradient);  // of the sum over ranks
    }
    buckets_.Add(name, gradient);
  }
  void FinishPiece() { buckets_.Flush(); }

  void Finish() {
    if (UpdatesWait(options_)) {
      std::vector<Value> squares;
      for (const auto& [name, sum] : sums_) {
        squares.push_back(squares_.at(name));
      }
      updater_.AwaitSquares(squares);
      for (const auto& [name, sum] : sums_) Update(name, sum);
    }
    updater_.GiveOut(sums_);
  }

 private:
  void Take(const Summed& summed) {
    const auto [known, is_new] = sums_.emplace(summed.param, summed.sum);
    if (!is_new) {
      known->second = stowage::Add(known->second, summed.sum);
      g_.SetRole(known->second, Role::kGradient);
    }
    if (UpdatesWait(options_)) squares_[summed.param] = summed.squares;
    if (!is_last_) return;
    const std::string name = GradientName(summed.param);
    g_.Name(ranks_.shard == Sharding::kNone ? name : OwnName(name),
            known->second);
    if (!UpdatesWait(options_)) Update(summed.param, known->second);
  }

  void Update(const std::string& name, Value sum) {
    const Value param = params_.at(name);
    if (ranks_.shard == Sharding::kNone) {
      updater_.Update(param, sum);
      return;
    }
    if (!param.ok()) return;
    g_.SetOrigin(Phase::kUpdate, name, g_.info(param).source);
    const std::string own = OwnName(name);
    const int64_t elements = param.shape().num_elements();
    const Value block =
        g_.Name(own, OwnBlock(param, ranks_.ranks, BlockGranule(elements)));
    updater_.Update(
        {.param = name,
         .elements = elements,
         .first = ranks_.rank * BlockElements(elements, ranks_.ranks)},
        block, sum);
    const std::optional<Value> updated = g_.Find(StrCat("new:", own));
    if (!updated) return;  // an error is recorded
    g_.SetOrigin(Phase::kUpdate, name, g_.info(param).source);
    const Value gathered = AllGatherUpdate(param, *updated, ranks_.ranks);
    g_.Name(StrCat("new:", name), gathered);
  }

  const Ranks ranks_;
  const TrainOptions& options_;
  Updater& updater_;
  GraphBuilder& g_;
  GradientBuckets buckets_;
  bool is_last_ = false;                 // piece
  std::map<std::string, Value> params_;  // by name, as sums_ and squares_
  std::map<std::string, Value> sums_;
  std::map<std::string, Value> squares_;
};

}  // namespace

Result<MicroBatchedStep> BuildRankStep(const Graph& whole, const Graph& part,
                                       std::span<const Graph* const> pieces,
                                       std::string_view loss,
                                       const Ranks& ranks,
                                       const TrainOptions& options,
                                       Pieces which) {
  STOWAGE_RETURN_IF_ERROR(CheckTrainOptions(whole, options));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(ranks));
  STOWAGE_RETURN_IF_ERROR(CheckSharding(ranks, options));
  GraphBuilder g(StrCat(whole.name(), ".step"));
  Updater updater(options, &g);
  RankUpdates updates(ranks, options, &updater, &g);
  // What is split leaves with every piece, so that no whole sum waits for the next.
  const bool leaves_at_once = ranks.shard >= Sharding::kGradients &&
                              pieces.size() > 1 && !UpdatesWait(options);
  std::map<std::string, Value> gradients;  // by param; of the pieces so far
  const auto add = [&](const Gradient& made) {
    Value& sum = gradients[made.name];
    if (leaves_at_once || made.is_first) {
      sum = made.gradient;
    } else {
      g.SetOrigin(Phase::kBackward, made.name, made.source);
      sum = Add(sum, made.gradient);
      g.SetRole(sum, Role::kGradient);
    }
    if (!leaves_at_once && !made.is_last) return;
    updates.Add(made.name, made.param, sum, made.is_last);
  };
  PiecesInTurn loop(whole, part, pieces, loss, ranks, options, &g);
  STOWAGE_RETURN_IF_ERROR(
      loop.Run(which, &updater, add, [&] { updates.FinishPiece(); }));
  updates.Finish();
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedStep step,
                           FinishPieces(g, loop.begins(), loop.counts()));
  STOWAGE_RETURN_IF_ERROR(RewriteStep(&step, [&](const Graph& graph) {
    return JoinModelStates(graph, ranks.ranks);
  }));
  if (ranks.shard == Sharding::kWeights) {
    STOWAGE_RETURN_IF_ERROR(RewriteStep(&step, [&](const Graph& graph) {
      return ShardWeights(graph, ranks.ranks);
    }));
  }
  return step;
}

}  // namespace stowage
