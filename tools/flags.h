#ifndef STOWAGE_TOOLS_FLAGS_H_
#define STOWAGE_TOOLS_FLAGS_H_

// The options that say how a training step updates its params, beside the optimizer's
// name: clipping, weight decay, momentum and label smoothing. They are part of the step, so that commands
// that plan or time it have them, too.

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

/// Sets what the flags say of all params, over an optimizer that has its defaults.
/// Errors, kInvalidArgument, name the option: a value out of range, a momentum for an
/// optimizer that has none.
Status SetOptimization(const OptimizationFlags& flags, TrainOptions* options);

/// `model`, with --label-smoothing in its loss. Its graphs' errors: those of
/// WithLabelSmoothing besides.
ModelFn WithSmoothing(const OptimizationFlags& flags, ModelFn model);

/// Takes the decay from the params that --no-decay names, once the model and the groups
/// of `training` are set. Errors: those of its model and of WithoutDecay; patterns where
/// the optimizer decays nothing.
Status SetNoDecay(const OptimizationFlags& flags, TrainingSpec* training);

// The options of a run's learning rate (nn/schedule.h).

struct ScheduleFlags {
  std::optional<double> lr;
  std::string schedule;  // empty: the model's
  std::string warmup;    // steps, or a share of them; empty: the schedule's
  std::optional<double> min_lr, power;
};

void AddScheduleOptions(Options& options, ScheduleFlags* flags);

/// `defaults` as the flags want it, but for the warm-up, which depends on the steps. A
/// kind that is named begins without the warm-up and the minimum of `defaults`. Errors,
/// kInvalidArgument, name the option: a value out of range, or one that the kind does not
/// read.
Result<LearningRateSchedule> ReadSchedule(const ScheduleFlags& flags,
                                          const LearningRateSchedule& defaults);

/// The steps of a warm-up in a run of `steps`: a whole number, or a share below 1 of
/// them, rounded up as transformers rounds warmup_ratio. Error kInvalidArgument: neither,
/// or no step of the run is behind it.
Result<int64_t> ReadWarmup(const std::string& text, int64_t steps);

// --packer and --time-limit, shared by `plan` and `pack`.

struct PackerFlags {
  std::string packer = "greedy";
  std::optional<double> time_limit;
};

void AddPackerOptions(Options& options, PackerFlags* flags);

/// The options, with a time limit counted from now. Error when there is no such
/// packer, or it takes no time limit, or the limit is none.
Result<packing::PackOptions> ReadPackerFlags(const PackerFlags& flags);

// The options that say how many ranks take a step together, what they split, and over
// which link they are joined.
//
//   AddRankOptions(options, &flags);
//   Result<RankPlan> ranks = ReadRankFlags(flags);
//   SetRanks({.ranks = ranks->ranks, .shard = ranks->shards.front()}, &training);

struct RankFlags {
  int64_t ranks = 1;
  std::string shard = "none";
  std::string link;  // empty: none is named
};

/// --shard, which needs no number of ranks where these are joined already.
void AddShardOption(Options& options, std::string* shard);
/// That, --ranks and --link.
void AddRankOptions(Options& options, RankFlags* flags);

/// The shardings that --shard means: one, or for "auto" all, from the least that is
/// split. Error kInvalidArgument for anything else.
Result<std::vector<Sharding>> ReadShard(const std::string& shard);

/// What a link carries in a second, one way.
struct Link {
  std::string name;
  double bytes_per_second = 0;
};

struct RankPlan {
  int64_t ranks = 1;
  std::vector<Sharding> shards = {Sharding::kNone};  // to try, in this order
  std::optional<Link> link = {};
};

/// Errors, kInvalidArgument: no ranks; a sharding or a link of one rank; those of
/// ReadShard; a link of an unknown name that is no size.
Result<RankPlan> ReadRankFlags(const RankFlags& flags);

/// Makes the training that of a rank, whose part of the batch bounds its micro-batches.
void SetRanks(const Ranks& ranks, TrainingSpec* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FLAGS_H_
