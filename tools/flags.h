#ifndef STOWAGE_TOOLS_FLAGS_H_
#define STOWAGE_TOOLS_FLAGS_H_

// Declares groups of options that several subcommands share: optimization (clipping, decay,
// momentum, averages, label smoothing), the learning rate schedule, the packer, and ranks.
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

/// Sets the clipping, the averages and the settings of the optimizer in `options` to the values of
/// the flags that are given. Returns kInvalidArgument, naming the option, if a value is out of
/// range, or if a momentum is given for an optimizer without momentum.
Status SetOptimization(const OptimizationFlags& flags, TrainOptions* options);

/// Returns `model` with --label-smoothing applied to its loss. The result also propagates errors of
/// WithLabelSmoothing (nn/losses.h).
ModelFn WithSmoothing(const OptimizationFlags& flags, ModelFn model);

/// Disables weight decay for the params that match --no-decay. Must be called after the model, the
/// optimizer and the groups of `training` have been set. Propagates errors of the model and of
/// WithoutDecay. Returns kInvalidArgument if patterns are given and the weight decay is 0.
Status SetNoDecay(const OptimizationFlags& flags, TrainingSpec* training);

struct ScheduleFlags {
  std::optional<double> lr;
  std::string schedule;  // if empty, the model's schedule
  std::string warmup;  // steps, or a fraction of them; if empty, the schedule's
  std::optional<double> min_lr, power;
};

void AddScheduleOptions(Options& options, ScheduleFlags* flags);

/// Returns `defaults` with the flags applied, except for --warmup, which depends on the number of
/// steps (ReadWarmup). With --schedule, the warm-up and the final rate of `defaults` are replaced
/// by 0. Returns kInvalidArgument, naming the option, if a value is out of range, or if the
/// schedule would ignore it.
Result<LearningRateSchedule> ReadSchedule(const ScheduleFlags& flags,
                                          const LearningRateSchedule& defaults);

/// Returns the number of warm-up steps in a run of `steps` steps. `text` is this number or, if
/// below 1, a fraction of `steps`. The result is rounded up, as transformers rounds warmup_ratio.
/// Returns kInvalidArgument if `text` is neither, or if the warm-up is not shorter than the run.
Result<int64_t> ReadWarmup(const std::string& text, int64_t steps);

struct PackerFlags {
  std::string packer = "greedy";
  std::optional<double> time_limit;
};

void AddPackerOptions(Options& options, PackerFlags* flags);

/// Returns the packer's options. The deadline is the time of this call plus --time-limit. Returns
/// kInvalidArgument if the packer is unknown, if a time limit is given for another packer than
/// "best", or if the time limit is out of range.
Result<packing::PackOptions> ReadPackerFlags(const PackerFlags& flags);

struct RankFlags {
  int64_t ranks = 1;
  std::string shard = "none";
  std::string link;  // if empty, no link is modeled
};

/// Declares --shard. For commands whose ranks a launcher has started.
void AddShardOption(Options& options, std::string* shard);
/// Declares --shard, --ranks and --link.
void AddRankOptions(Options& options, RankFlags* flags);

/// Returns the sharding that --shard names, or all shardings for "auto", ordered from the fewest to
/// the most sharded tensors. Returns kInvalidArgument for any other string.
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
/// kInvalidArgument if a sharding or a link is given for one rank, or if the link is neither a
/// known name nor a size per second, such as "2.5GB/s". AddRankOptions limits the number of ranks
/// to 1 or more.
Result<RankPlan> ReadRankFlags(const RankFlags& flags);

/// Sets the ranks of `training`. If several numbers of micro-batches are allowed, replaces them by
/// the numbers for the examples of this rank.
void SetRanks(const Ranks& ranks, TrainingSpec* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FLAGS_H_
