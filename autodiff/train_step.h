#ifndef STOWAGE_AUTODIFF_TRAIN_STEP_H_
#define STOWAGE_AUTODIFF_TRAIN_STEP_H_

// A training step: forward, backward and update linked into one graph on one timeline.
//
// The saved inputs of the backward graph become the forward values themselves, and the seed
// becomes 1 or a loss scale. The update of each param directly follows the last node that
// computes its gradient and the last that reads the param, so that a gradient dies as soon
// as it has been used. Clipping by global norm and loss scaling need every gradient before
// the first update; the updates then come last. A linear_cross_entropy that is the loss,
// and that nothing else reads, is left out of the forward part: its gradient op computes
// the loss too, so that logits are computed once in a step and never saved.
//
//   TrainOptions options{.optimizer = AdamW{}, .clip_norm = 1.0};
//   options.groups = {{.pattern = "*.bias", .decay = 0}};
//   Result<Graph> step = BuildTrainStep(forward, "loss", options);
//   // step inputs: the forward graph's, "lr" (f32) and "step" (i64), "seed" (i64) if the
//   // optimizer rounds stochastically, and those of groups (autodiff/param_groups.h)

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

/// Loss scaling, and steps that change nothing.
///
/// Many gradients are below the smallest number of f16 and would be zero. Loss scaling
/// multiplies the gradient of the loss, and thereby all gradients, by a large scale, and
/// the updates divide by it (Micikevicius et al. 2018, Mixed Precision Training). A scale
/// that is too large makes a gradient non-finite. Such a step changes no param and no
/// optimizer state and halves the scale; many good steps in a row double it. Rule and
/// constants are those of torch.amp.GradScaler. All of it is in the step's graph, with the
/// scale as a state, so that the host decides nothing.
///
///   TrainOptions options{.optimizer = Momentum{}, .loss_scaling = LossScaling{}};
///   ...
///   bool skipped = *step.ReadScalar("update_skipped") != 0;
///   float scale = *step.ReadScalar("new:loss_scale");  // of the next step
///
/// LossScaling{.init_scale = 1, .is_dynamic = false} scales nothing and only skips the
/// updates of steps with non-finite gradients, in any type.
struct LossScaling {
  double init_scale = 65536;
  bool is_dynamic = true;  // false: the scale is constant, the rest unused
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // good steps in a row before the scale grows
};

/// Error kInvalidArgument: a scale that is not, with its inverse, a positive f32; a growth
/// factor not above 1, a backoff factor not between 0 and 1, an interval below 1.
Status CheckLossScaling(const LossScaling& scaling);

struct TrainOptions {
  Optimizer optimizer = AdamW{};
  /// Names of the params to train; empty means all.
  std::vector<std::string> wrt = {};
  /// The global norm to clip the gradients to; adds an output "grad_norm".
  std::optional<double> clip_norm = std::nullopt;
  /// Scales the loss and skips updates with non-finite gradients. Norms and gradients
  /// among the outputs are without the scale.
  std::optional<LossScaling> loss_scaling = std::nullopt;
  /// The decay, above 0 and below 1, of an exponential moving average of each trained
  /// param: a state "<param>.ema", in f32 or the param's f64. The first update sets it to
  /// the param, later ones to decay * average + (1 - decay) * param, as torch's
  /// AveragedModel with get_ema_multi_avg_fn(decay) does. A skipped step changes none.
  /// train/state_backup.h evaluates with them.
  std::optional<double> ema = std::nullopt;
  /// Params with their own optimizer, decay or learning rate, and frozen ones; the first group that
  /// matches a param's name applies. A frozen param is treated like one not in `wrt`, so
  /// that the norm above does not include it.
  std::vector<ParamGroup> groups = {};
  /// Params whose gradients are outputs of the step, by patterns of their names
  /// (base/strings.h): "grad:<param>", of the whole batch and before any clipping.
  std::vector<std::string> gradients = {};
  /// Whether micro-batches or ranks may change an output or a value that the model writes,
  /// as they do where examples are normalized by their batch: the loss is then the mean of
  /// the micro-batches' losses. By default such a split is refused.
  bool allow_batch_change = false;
};

/// The state that counts updates of averages, an i64 scalar, and the state that holds the
/// average of a param.
inline constexpr std::string_view kAverageUpdates = "ema.updates";
std::string AverageName(std::string_view param);

/// Whether the updates need all gradients first: for clipping by their norm or to check
/// that they are finite.
bool UpdatesWait(const TrainOptions& options);

/// Whether the updates read a seed (ReadsSeed).
bool UpdatesReadSeed(const TrainOptions& options);

/// The errors of BuildTrainStep that need no backward graph. Linear in the groups times the
/// params.
Status CheckTrainOptions(const Graph& forward, const TrainOptions& options);

/// The training step of `forward`. Its outputs are those of the forward graph, then the
/// gradients, the norm and the loss scale that `options` asks for. States that `forward`
/// writes are states of the step.
///
/// Errors: those of BuildBackward, CheckLossScaling, CheckParamGroups and WithoutFrozen; a
/// name in `wrt` that is no param's; a pattern in `gradients` that matches no trained
/// param; a forward graph with a cache, with a value "lr", with a "step" (or a "seed" that
/// the optimizer reads) that is not an i64 scalar input, or with a name of loss scaling or
/// averages; a decay, beta or norm outside its range; kUnsupported for an update rule that
/// cannot be skipped. Linear in the nodes of `forward`, except that each constant is
/// compared with all of forward's and each param group with every param.
Result<Graph> BuildTrainStep(const Graph& forward, std::string_view loss,
                             const TrainOptions& options = {});

/// One graph that runs `forward` and then `backward` (from BuildBackward on it): saved
/// values linked, the seed a fill of 1, the gradients as outputs. With `scale`, the seed is an
/// f32 scalar input of that name. Error: `forward` lacks a value that `backward` reads, or has
/// it with another type.
Result<Graph> LinkBackward(const Graph& forward, const Graph& backward,
                           std::string_view loss, std::string_view scale = "");

/// What ranks shard (Rajbhandari et al. 2020, ZeRO). Every rank has a part of the batch.
/// With kNone each keeps everything. The others split tensors into one block for each rank:
/// a rank updates its own block of a param, from its block of the summed gradient, and keeps
/// only that part of the optimizer's states; the blocks are gathered afterwards. kGradients
/// also splits a gradient's sum as soon as a micro-batch has added to it, and kWeights also
/// splits a param, which is gathered before it is read and dropped after. Losses and weights
/// are the same, bit for bit, in all four.
enum class Sharding : uint8_t { kNone, kStates, kGradients, kWeights };
/// All of them, by increasing amount of sharding.
inline constexpr std::array<Sharding, 4> kShardings = {
    Sharding::kNone, Sharding::kStates, Sharding::kGradients,
    Sharding::kWeights};
/// "none", "states", "gradients", "weights".
std::string_view ShardingName(Sharding sharding);
/// The inverse of ShardingName. Error kInvalidArgument for any other text.
Result<Sharding> ParseSharding(std::string_view name);

/// The default of Ranks::bucket_bytes.
inline constexpr Bytes kBucketBytes = Bytes{1} << 20;

/// The ranks that take a step together.
struct Ranks {
  int64_t ranks = 1;
  /// Only selects the random numbers of dropouts.
  int64_t rank = 0;
  Sharding shard = Sharding::kNone;
  /// Smaller gradients are collected into buckets of up to this size, each reduced at once.
  Bytes bucket_bytes = kBucketBytes;
};

/// Error kInvalidArgument: no ranks, a rank outside them, a bucket of no bytes.
Status CheckRanks(const Ranks& ranks);

/// Blocks of a param of `elements` elements are multiples of this: 4 elements, which one
/// draw of stochastic rounding covers, or kMomentBlock for a param whose 8-bit moments
/// share scales. A block is then updated as it is within the whole param.
int64_t BlockGranule(int64_t elements);
/// The elements of a rank's block of a param of `elements` elements, at least one.
int64_t BlockElements(int64_t elements, int64_t ranks);

/// The name of this rank's block of the param or state `name`: "own:w".
std::string OwnName(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_TRAIN_STEP_H_
