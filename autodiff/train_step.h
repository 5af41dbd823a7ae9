#ifndef STOWAGE_AUTODIFF_TRAIN_STEP_H_
#define STOWAGE_AUTODIFF_TRAIN_STEP_H_

// Builds a training step: a single graph that contains the forward pass, the backward pass and the
// optimizer updates.
//
// The saved leaves of the backward graph (autodiff/backward.h) become the forward values
// themselves, and the seed becomes 1 or the loss scale. The update of a param directly follows the
// last node that computes its gradient or reads the param, so that gradients have short lifetimes.
// Clipping by global norm and loss scaling need every gradient before the first update. With these
// settings, the updates follow the whole backward pass. If the loss is a linear_cross_entropy that
// no other node reads, the op is omitted from the forward pass, because its gradient op computes
// the loss, too. Logits are then computed only once per step and are never saved.
//
//   TrainOptions options{.optimizer = AdamW{}, .clip_norm = 1.0};
//   options.groups = {{.pattern = "*.bias", .decay = 0}};
//   Result<Graph> step = BuildTrainStep(forward, "loss", options);
//   // Inputs of the step: the inputs of `forward`, "lr" (f32), "step" (i64), "seed" (i64) if an
//   // optimizer rounds stochastically, and the inputs of groups (autodiff/param_groups.h).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// Settings of loss scaling. Steps with loss scaling also skip their updates if gradients are
/// non-finite.
///
/// Many gradients are below the smallest f16 number and would be rounded to zero. Loss scaling
/// multiplies the gradient of the loss, and thereby all gradients, by a large scale, and the
/// updates divide by the scale (Micikevicius et al. 2018, "Mixed Precision Training"). If the scale
/// is too large, a gradient becomes non-finite. The step then changes no param and no optimizer
/// state, and multiplies the scale by `backoff_factor`. After `growth_interval` consecutive good
/// steps, the scale is multiplied by `growth_factor`. This rule and the defaults are those of
/// torch.amp.GradScaler. The scale is a state, and the step's graph makes all decisions, without
/// the host. A step also counts as bad if the sum of squares of all gradients overflows f32.
///
///   TrainOptions options{.optimizer = Momentum{}, .loss_scaling = LossScaling{}};
///   ...
///   bool skipped = *step.ReadScalar("update_skipped") != 0;
///   float scale = *step.ReadScalar("new:loss_scale");  // of the next step
///
/// With LossScaling{.init_scale = 1, .is_dynamic = false}, gradients are not scaled, and a step
/// only skips its updates if gradients are non-finite. This is useful for params of any type.
struct LossScaling {
  double init_scale = 65536;
  /// If false, the scale is constant, and the settings below are ignored.
  bool is_dynamic = true;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // consecutive good steps before growth
};

/// Returns kInvalidArgument if the initial scale is not in [2^-126, 2^126], the range in which the
/// scale and its inverse are normal f32 numbers. For a dynamic scale, also returns kInvalidArgument
/// if the growth factor is not a finite number above 1, if the backoff factor is not between 0 and
/// 1, or if the interval is below 1.
Status CheckLossScaling(const LossScaling& scaling);

struct TrainOptions {
  Optimizer optimizer = AdamW{};
  /// The names of the params to train. If empty, all float params are trained.
  std::vector<std::string> wrt = {};
  /// If set, gradients are clipped to this global norm, and the step has an output "grad_norm", the
  /// norm before clipping.
  std::optional<double> clip_norm = std::nullopt;
  /// If set, the loss is scaled, and updates are skipped if gradients are non-finite. The outputs
  /// "grad_norm" and "grad:<param>" do not include the scale.
  std::optional<LossScaling> loss_scaling = std::nullopt;
  /// If set, the step computes an exponential moving average of each trained param with this decay,
  /// which must be above 0 and below 1. An average is a state, "<param>.ema", in f64 for an f64
  /// param and in f32 otherwise. The first update sets the average to the param. Later updates set
  /// it to decay * average + (1 - decay) * param, as in torch's AveragedModel with
  /// get_ema_multi_avg_fn(decay). A skipped step does not change the average.
  /// train/state_backup.h evaluates a model with its averages.
  std::optional<double> ema = std::nullopt;
  /// Params with their own optimizer, decay or learning rate, and frozen params. A param belongs to
  /// the first group that matches its name. A frozen param is treated like a param that is not in
  /// `wrt`, so the global norm does not include its gradient.
  std::vector<ParamGroup> groups = {};
  /// Patterns (GlobMatches, base/strings.h) that select params by name. The gradients of these
  /// params are outputs of the step, called "grad:<param>". They are the gradients of the whole
  /// batch before clipping.
  std::vector<std::string> gradients = {};
  /// Whether splitting the batch into micro-batches or over ranks may change an output or a value
  /// that the model writes, for example because a batch norm uses statistics of the batch. The loss
  /// is then the mean of the micro-batches' losses. If false, splitting the batch of such a model
  /// is an error.
  bool allow_batch_change = false;
};

/// The name of the state that counts the updates of moving averages, an i64 scalar.
inline constexpr std::string_view kAverageUpdates = "ema.updates";
/// Returns the name of the state that is the moving average of `param`.
std::string AverageName(std::string_view param);

/// Returns whether all gradients must be known before the first update. This is the case with
/// clipping by global norm and with loss scaling.
bool UpdatesWait(const TrainOptions& options);

/// Returns whether the optimizer, or the optimizer of a group, reads a seed (ReadsSeed).
bool UpdatesReadSeed(const TrainOptions& options);

/// Checks `options` for the model `forward`. Returns the errors of BuildTrainStep that can be
/// detected without building the step. Linear in the number of groups times the number of params.
Status CheckTrainOptions(const Graph& forward, const TrainOptions& options);

/// Returns the training step of `forward`. Its outputs are the outputs of `forward`, followed by
/// the gradients, the norm and the loss scale that `options` requests. States that `forward` writes
/// are states of the step.
///
/// Propagates errors of BuildBackward, CheckOptimizer, CheckLossScaling, CheckParamGroups and
/// WithoutFrozen. Returns kInvalidArgument in these cases:
///   - `options.wrt` contains a value that is not a param.
///   - A pattern in `options.gradients` matches no trained param.
///   - `options.clip_norm` or `options.ema` is out of range.
///   - An optimizer does not support the type of a param.
///   - `forward` has a cache, or has a value with the name of an input, state or output that the
///     step declares, such as "lr", "w.m" or "loss_scale".
///   - `forward` has a value "step", or a value "seed" if an optimizer reads one, that is not an
///     i64 scalar input.
/// Returns kUnsupported in these cases:
///   - Loss scaling is requested, and an update rule writes with other ops than Set and Lerp.
///   - Moving averages are requested, and an update rule writes a param with another op than Set
///     and does not name the new content "new:<param>".
///
/// Linear in the number of nodes of `forward`, except that each constant of the backward graph is
/// compared with all nodes of `forward`, and each param group with every param.
Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options = {});

/// Returns a graph that runs `forward` and then `backward`, which must be the result of
/// BuildBackward for `forward` and `loss`. Its outputs are the outputs of both graphs. The seed is
/// 1. If `scale` is not empty, the seed is instead an f32 scalar input with the name `scale`.
/// Returns kInvalidArgument if `forward` lacks a value that `backward` reads, or if the value has
/// another type there.
Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss, std::string_view scale = "");

/// The modes in which tensors are sharded over ranks (ZeRO; Rajbhandari et al. 2020). Every rank
/// processes its own shard of the batch. All four modes compute equal losses and weights, bit for
/// bit.
///
///   kNone        Every rank stores all tensors.
///   kStates      Optimizer states are sharded. A rank updates its own block of a param from its
///                block of the summed gradient, and the updated blocks are gathered.
///   kGradients   In addition, a gradient is reduced to the ranks' blocks after every micro-batch,
///                unless the updates need all gradients first (UpdatesWait).
///   kWeights     In addition, params are sharded. They are gathered before they are read, and the
///                gathered copies are freed after the read.
enum class Sharding : uint8_t { kNone, kStates, kGradients, kWeights };
/// All modes, in order of increasing sharding.
inline constexpr std::array<Sharding, 4> kShardings = {
    Sharding::kNone, Sharding::kStates, Sharding::kGradients,
    Sharding::kWeights};
/// Returns "none", "states", "gradients" or "weights".
std::string_view ShardingName(Sharding sharding);
/// Returns the mode called `name`, the inverse of ShardingName. Returns kInvalidArgument for any
/// other name.
Result<Sharding> ParseSharding(std::string_view name);

/// The default of Ranks::bucket_bytes.
inline constexpr Bytes kBucketBytes = Bytes{1} << 20;

/// The ranks that run a step together.
struct Ranks {
  int64_t ranks = 1;
  /// This rank. It affects only the random numbers of dropout and of stochastic rounding.
  int64_t rank = 0;
  Sharding shard = Sharding::kNone;
  /// Gradients smaller than this size are collected in buckets. A bucket is reduced in one
  /// all-reduce or reduce-scatter once it has this size.
  Bytes bucket_bytes = kBucketBytes;
};

/// Returns kInvalidArgument if `ranks` is below 1, if `rank` is not in [0, ranks), or if
/// `bucket_bytes` is below 1.
Status CheckRanks(const Ranks& ranks);

/// Returns the granule of the blocks of a param with `elements` elements: the size of a rank's
/// block is a multiple of the granule. For params that are large enough for 8-bit moments, it is
/// kMomentBlock, the number of elements that share a scale. For smaller params, it is 4, the number
/// of elements whose random numbers for stochastic rounding are computed together. A block can
/// thereby be updated separately exactly as within the whole param.
int64_t BlockGranule(int64_t elements);
/// Returns the number of elements of a rank's block of a param with `elements` elements. Requires
/// `elements >= 1` and `ranks >= 1`.
int64_t BlockElements(int64_t elements, int64_t ranks);

/// Returns the name of this rank's block of the param or state `name`, for example "own:w" for "w".
std::string OwnName(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_TRAIN_STEP_H_
