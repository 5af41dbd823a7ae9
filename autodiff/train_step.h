#ifndef STOWAGE_AUTODIFF_TRAIN_STEP_H_
#define STOWAGE_AUTODIFF_TRAIN_STEP_H_

// Builds a training step: a single graph that contains the forward pass, the backward pass and the
// optimizer updates.
//
// The saved leaves of the backward graph become the forward values themselves, and the seed becomes
// 1 or the loss scale. The update of a param directly follows the last node that computes its
// gradient or reads the param, so that gradients have short lifetimes. Clipping by global norm and
// loss scaling need every gradient before the first update, so the updates then come last. If the
// loss is a linear_cross_entropy that no other node reads, the op is omitted from the forward pass.
// Its gradient op computes the loss too, so logits are computed once per step and never saved.
//
//   TrainOptions options{.optimizer = AdamW{}, .clip_norm = 1.0};
//   options.groups = {{.pattern = "*.bias", .decay = 0}};
//   Result<Graph> step = BuildTrainStep(forward, "loss", options);
//   // Inputs of the step: the inputs of `forward`, "lr" (f32), "step" (i64), "seed" (i64) if the
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

/// Settings of loss scaling, which also skips the updates of steps with non-finite gradients.
///
/// Many gradients are below the smallest f16 number and would be rounded to zero. Loss scaling
/// multiplies the gradient of the loss, and thereby all gradients, by a large scale, and the
/// updates divide by it (Micikevicius et al. 2018, "Mixed Precision Training"). If the scale is too
/// large, a gradient becomes non-finite. The step then changes no param and no optimizer state, and
/// halves the scale. Many consecutive good steps double the scale. The rule and the defaults are
/// those of torch.amp.GradScaler. The scale is a state, and all decisions are computed in the
/// step's graph, without the host.
///
///   TrainOptions options{.optimizer = Momentum{}, .loss_scaling = LossScaling{}};
///   ...
///   bool skipped = *step.ReadScalar("update_skipped") != 0;
///   float scale = *step.ReadScalar("new:loss_scale");  // of the next step
///
/// LossScaling{.init_scale = 1, .is_dynamic = false} does not scale and only skips the updates of
/// steps with non-finite gradients, for params of any type.
struct LossScaling {
  double init_scale = 65536;
  /// If false, the scale is constant, and the settings below are ignored.
  bool is_dynamic = true;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // consecutive good steps before growth
};

/// Returns kInvalidArgument if the initial scale is not in [2^-126, 2^126], so that the scale and
/// its inverse are positive f32 numbers. For a dynamic scale, also returns kInvalidArgument if the
/// growth factor is not a finite number above 1, if the backoff factor is not between 0 and 1, or
/// if the interval is below 1.
Status CheckLossScaling(const LossScaling& scaling);

struct TrainOptions {
  Optimizer optimizer = AdamW{};
  /// The names of the params to train. If empty, all float params are trained.
  std::vector<std::string> wrt = {};
  /// The maximum global norm of the gradients, to which they are clipped. Adds an output
  /// "grad_norm", the norm before clipping.
  std::optional<double> clip_norm = std::nullopt;
  /// Scales the loss, and skips updates with non-finite gradients. The norm and the gradients among
  /// the outputs do not include the scale.
  std::optional<LossScaling> loss_scaling = std::nullopt;
  /// The decay of an exponential moving average of each trained param, above 0 and below 1. The
  /// average is a state, "<param>.ema", in f64 for an f64 param and in f32 otherwise. The first
  /// update sets it to the param. Later updates set it to decay * average + (1 - decay) * param, as
  /// in torch's AveragedModel with get_ema_multi_avg_fn(decay). A skipped step does not change it.
  /// train/state_backup.h evaluates a model with its averages.
  std::optional<double> ema = std::nullopt;
  /// Params with their own optimizer, decay or learning rate, and frozen params. The first group
  /// that matches a param's name applies. A frozen param is treated like a param that is not in
  /// `wrt`, so the norm of clip_norm does not include it.
  std::vector<ParamGroup> groups = {};
  /// Patterns (base/strings.h) of the names of params whose gradients are outputs of the step,
  /// called "grad:<param>". The gradients are those of the whole batch, before clipping.
  std::vector<std::string> gradients = {};
  /// Whether micro-batches or ranks may change an output or a value that the model writes, for
  /// example because examples are normalized by statistics of their batch. The loss is then the
  /// mean of the micro-batches' losses. If false, splitting the batch of such a model is an error.
  bool allow_batch_change = false;
};

/// The name of the state that counts the updates of moving averages, an i64 scalar.
inline constexpr std::string_view kAverageUpdates = "ema.updates";
/// Returns the name of the state that is the moving average of `param`.
std::string AverageName(std::string_view param);

/// Returns whether the updates need all gradients before the first update, for clipping by global
/// norm or to check whether all gradients are finite.
bool UpdatesWait(const TrainOptions& options);

/// Returns whether the updates read a seed (ReadsSeed).
bool UpdatesReadSeed(const TrainOptions& options);

/// Returns the errors of BuildTrainStep that can be detected without a backward graph. Linear in
/// the number of groups times the number of params.
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
///   - `forward` has a cache, a value called "lr", or a value with a name that loss scaling or
///     moving averages use.
///   - `forward` has a value "step", or a value "seed" if an optimizer reads one, that is not an
///     i64 scalar input.
/// Returns kUnsupported if loss scaling would have to skip an update rule that writes by other
/// means than Set and Lerp, or if moving averages are requested for an update rule that does not
/// name the new content of the param.
///
/// Linear in the number of nodes of `forward`, except that each constant of the backward graph is
/// compared with all nodes of `forward`, and each param group with every param.
Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options = {});

/// Returns a graph that runs `forward` and then `backward`, which must be a result of
/// BuildBackward(forward, ...). Its outputs are the outputs of both graphs. The seed is 1, or an
/// f32 scalar input called `scale` if that is not empty. Returns kInvalidArgument if `forward`
/// lacks a value that `backward` reads, or has it with another type.
Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss, std::string_view scale = "");

/// Which tensors are sharded over ranks (ZeRO; Rajbhandari et al. 2020). Every rank processes its
/// own shard of the batch. Losses and weights are equal, bit for bit, in all four modes.
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
  /// Gradients smaller than this are collected in buckets. A bucket is reduced in one all-reduce or
  /// reduce-scatter once it has this size.
  Bytes bucket_bytes = kBucketBytes;
};

/// Returns kInvalidArgument if `ranks` is below 1, if `rank` is not in [0, ranks), or if
/// `bucket_bytes` is below 1.
Status CheckRanks(const Ranks& ranks);

/// Returns the number of elements of which every block of a param of `elements` elements is a
/// multiple. It is kMomentBlock for params large enough for 8-bit moments, whose scales are per
/// block, and otherwise 4, the number of elements that share a draw of random numbers for
/// stochastic rounding. A block is thereby updated exactly as within the whole param.
int64_t BlockGranule(int64_t elements);
/// Returns the number of elements of a rank's block of a param of `elements` elements, which is at
/// least 1.
int64_t BlockElements(int64_t elements, int64_t ranks);

/// Returns the name of this rank's block of the param or state `name`, for example "own:w" for "w".
std::string OwnName(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_TRAIN_STEP_H_
