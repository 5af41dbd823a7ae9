#ifndef STOWAGE_TOOLS_FLAGS_H_
#define STOWAGE_TOOLS_FLAGS_H_

// Declares groups of options that several subcommands share: the update of params (clipping, decay,
// momentum, label smoothing), the learning rate schedule, the packer, and ranks.
//
//   AddRankOptions(options, &flags);
//   Result<RankPlan> ranks = ReadRankFlags(flags);
//   SetRanks({.ranks = ranks->ranks, .shard = ranks->shards.front()}, &training);

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "nn/schedule.h"
#include "planner/packing/packer.h"
#include "tools/options.h"
#include "train/step_builder.h"
#include "train/training.h"

namespace stowage::tools {

struct OptimizationFlags {
  std::optional<double> clip_norm, ema, weight_decay, momentum, label_smoothing;
  std::vector<std::string> no_decay;  // patterns
};

void AddOptimizationOptions(Options& options, OptimizationFlags* flags);

/// Applies the flags to an optimizer with its defaults. Returns kInvalidArgument, naming the
/// option, if a value is out of range, or if a momentum is given for an optimizer without one.
Status SetOptimization(const OptimizationFlags& flags, TrainOptions* options);

/// Returns `model` with --label-smoothing applied to its loss. Graphs of the result can also fail
/// with errors of WithLabelSmoothing.
ModelFn WithSmoothing(const OptimizationFlags& flags, ModelFn model);

/// Disables weight decay for the params of --no-decay. Call it after setting the model and the
/// groups of `training`. Propagates errors of the model and of WithoutDecay. Returns
/// kInvalidArgument if patterns are given for an optimizer without decay.
Status SetNoDecay(const OptimizationFlags& flags, TrainingSpec* training);

struct ScheduleFlags {
  std::optional<double> lr;
  std::string schedule;  // if empty, the model's schedule
  std::string warmup;  // steps, or a fraction of them; if empty, the schedule's
  std::optional<double> min_lr, power;
};

void AddScheduleOptions(Options& options, ScheduleFlags* flags);

/// Returns `defaults` with the flags applied, except for the warm-up, which depends on the number
/// of steps. A schedule given by name does not inherit the warm-up and the minimum of `defaults`.
/// Returns kInvalidArgument, naming the option, if a value is out of range or the schedule ignores
/// it.
Result<LearningRateSchedule> ReadSchedule(const ScheduleFlags& flags,
                                          const LearningRateSchedule& defaults);

/// Returns the number of warm-up steps in a run of `steps`. `text` is an integer, or a fraction
/// below 1, which is rounded up as transformers rounds warmup_ratio. Returns kInvalidArgument if
/// `text` is neither, or if no step follows the warm-up.
Result<int64_t> ReadWarmup(const std::string& text, int64_t steps);

struct PackerFlags {
  std::string packer = "greedy";
  std::optional<double> time_limit;
};

void AddPackerOptions(Options& options, PackerFlags* flags);

/// Returns the packer's options, with a deadline counted from this call. Returns kInvalidArgument
/// if the packer is unknown, if a limit is given to a packer without time limits, or if the limit
/// is invalid.
Result<packing::PackOptions> ReadPackerFlags(const PackerFlags& flags);

struct RankFlags {
  int64_t ranks = 1;
  std::string shard = "none";
  std::string link;  // if empty, no link is modeled
};

/// Adds only --shard, for ranks that a launcher has started.
void AddShardOption(Options& options, std::string* shard);
/// Adds --shard, --ranks and --link.
void AddRankOptions(Options& options, RankFlags* flags);

/// Returns the shardings that --shard names: one of them, or all for "auto". They are ordered from
/// the fewest to the most sharded tensors. Returns kInvalidArgument for any other string.
Result<std::vector<Sharding>> ReadShard(const std::string& shard);

/// A link between ranks and its bandwidth in one direction.
struct Link {
  std::string name;
  double bytes_per_second = 0;
};

struct RankPlan {
  int64_t ranks = 1;
  std::vector<Sharding> shards = {Sharding::kNone};  // to try, in this order
  std::optional<Link> link = {};
};

/// Returns the ranks that the flags describe. Propagates errors of ReadShard. Returns
/// kInvalidArgument if the number of ranks is below 1, if a sharding or a link is given for one
/// rank, or if the link is neither a known name nor a size.
Result<RankPlan> ReadRankFlags(const RankFlags& flags);

/// Sets the ranks of the training. The rank's share of the batch bounds its micro-batches.
void SetRanks(const Ranks& ranks, TrainingSpec* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FLAGS_H_
