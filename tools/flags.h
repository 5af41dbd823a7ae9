#ifndef STOWAGE_TOOLS_FLAGS_H_
#define STOWAGE_TOOLS_FLAGS_H_

// Groups of options that several subcommands share: the update of params (clipping, decay,
// momentum, label smoothing), learning rate schedule, packer, and ranks.
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

/// Applies the flags to an optimizer with its defaults. Errors kInvalidArgument, with the
/// option: a value out of range, a momentum for an optimizer without one.
Status SetOptimization(const OptimizationFlags& flags, TrainOptions* options);

/// `model` with --label-smoothing in its loss. Errors of its graphs: also those of
/// WithLabelSmoothing.
ModelFn WithSmoothing(const OptimizationFlags& flags, ModelFn model);

/// Removes the decay of the params of --no-decay; call it after setting model and groups of
/// `training`. Errors: those of the model and of WithoutDecay; kInvalidArgument for patterns
/// with an optimizer without decay.
Status SetNoDecay(const OptimizationFlags& flags, TrainingSpec* training);

struct ScheduleFlags {
  std::optional<double> lr;
  std::string schedule;  // "": the model's
  std::string warmup;    // steps, or a fraction of them; "": the schedule's
  std::optional<double> min_lr, power;
};

void AddScheduleOptions(Options& options, ScheduleFlags* flags);

/// `defaults` with the flags applied, except for the warm-up, which depends on the steps. A
/// schedule given by name does not inherit warm-up and minimum of `defaults`. Errors
/// kInvalidArgument, with the option: a value out of range, or one that the schedule ignores.
Result<LearningRateSchedule> ReadSchedule(const ScheduleFlags& flags,
                                          const LearningRateSchedule& defaults);

/// The steps of a warm-up in a run of `steps`: an integer, or a fraction below 1, rounded up as
/// transformers rounds warmup_ratio. Error kInvalidArgument: neither, or no step is left after
/// it.
Result<int64_t> ReadWarmup(const std::string& text, int64_t steps);

struct PackerFlags {
  std::string packer = "greedy";
  std::optional<double> time_limit;
};

void AddPackerOptions(Options& options, PackerFlags* flags);

/// The options, with a deadline from now. Error kInvalidArgument: an unknown packer, one
/// without time limits, or an invalid limit.
Result<packing::PackOptions> ReadPackerFlags(const PackerFlags& flags);

struct RankFlags {
  int64_t ranks = 1;
  std::string shard = "none";
  std::string link;  // "" for none
};

/// Adds --shard alone, for ranks that a launcher has started.
void AddShardOption(Options& options, std::string* shard);
/// Adds --shard, --ranks and --link.
void AddRankOptions(Options& options, RankFlags* flags);

/// The shardings of --shard: one, or for "auto" all, in ascending order of what is split. Error
/// kInvalidArgument for another text.
Result<std::vector<Sharding>> ReadShard(const std::string& shard);

/// A link between ranks, with its bandwidth in one direction.
struct Link {
  std::string name;
  double bytes_per_second = 0;
};

struct RankPlan {
  int64_t ranks = 1;
  std::vector<Sharding> shards = {Sharding::kNone};  // to try, in this order
  std::optional<Link> link = {};
};

/// Errors kInvalidArgument: no ranks; a sharding or a link with one rank; those of ReadShard; a
/// link that is neither a known name nor a size.
Result<RankPlan> ReadRankFlags(const RankFlags& flags);

/// Sets the ranks of the training; the rank's part of the batch bounds its micro-batches.
void SetRanks(const Ranks& ranks, TrainingSpec* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FLAGS_H_
