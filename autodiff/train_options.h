#ifndef STOWAGE_AUTODIFF_TRAIN_OPTIONS_H_
#define STOWAGE_AUTODIFF_TRAIN_OPTIONS_H_

// What a training step is asked for: the optimizer, the params it trains, what it
// clips, scales and gives out.
//
//   TrainOptions options{.optimizer = AdamW{}, .clip_norm = 1.0};
//   options.groups = {{.pattern = "*.bias", .decay = 0}};
//   options.loss_scaling = LossScaling{};

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

// Loss scaling, and steps that change nothing.
//
// Many gradients are smaller than the least number of f16, and would be zeros. So the
// gradient of the loss begins as a large number instead of 1, all others are as many
// times larger, and the updates divide them again (Micikevicius et al. 2018, Mixed
// Precision Training). A scale that is too large makes a gradient that is not finite.
// Such a step changes no param and no state of an optimizer, to the bit, and halves the
// scale; many good steps in a row double it. Rule and constants are those of
// torch.amp.GradScaler (torch/amp/grad_scaler.py, and _amp_update_scale_ in
// aten/src/ATen/native/cuda/AmpKernels.cu). All of it is in the step's graph, and the
// scale a state: the host decides nothing and is not asked.
//
//   TrainOptions options{.optimizer = Momentum{}, .loss_scaling = LossScaling{}};
//   ...
//   bool skipped = *step.ReadScalar("update_skipped") != 0;
//   float scale = *step.ReadScalar("new:loss_scale");  // of the next step
//
// LossScaling{.init_scale = 1, .is_dynamic = false} scales nothing, and skips the
// updates of steps whose gradients are not finite, in any type.

struct LossScaling {
  double init_scale = 65536;
  bool is_dynamic = true;  // else it stays, and the rest says nothing
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // good steps in a row, after which it grows
};

/// Error kInvalidArgument: a scale that is not a positive number of f32 whose inverse is
/// one, too; a growth that is not above 1, a backoff that is not between 0 and 1, an
/// interval below 1.
Status CheckLossScaling(const LossScaling& scaling);

struct TrainOptions {
  Optimizer optimizer = AdamW{};
  /// Names of the params to train; empty means all.
  std::vector<std::string> wrt = {};
  /// The global norm to clip the gradients to; adds an output "grad_norm".
  std::optional<double> clip_norm = std::nullopt;
  /// Whether gradients are scaled on their way, and updates skipped whose gradients are
  /// not finite. Norms and gradients that are given out are those without the scale.
  std::optional<LossScaling> loss_scaling = std::nullopt;
  /// The decay of an exponential moving average of each trained param, above 0 and below
  /// 1: a state "<param>.ema", in f32 or the param's f64, which each update moves to
  /// decay * average + (1 - decay) * param, and the first one to the param, as torch's
  /// AveragedModel with get_ema_multi_avg_fn(decay) does. A skipped step moves none.
  /// train/averaged_weights.h evaluates with them.
  std::optional<double> ema = std::nullopt;
  /// Params with a decay or learning rate of their own, and those that are not
  /// trained; the first group that matches a param's name applies. A frozen
  /// param is as one that is not in `wrt`, so that the norm above is without it.
  std::vector<ParamGroup> groups = {};
  /// Params whose gradients are outputs of the step, too, by patterns of their names
  /// (base/glob.h): "grad:<param>", of the whole batch and before any clipping.
  std::vector<std::string> gradients = {};
  /// Whether the batch may be taken in micro-batches, or by ranks, that change an output
  /// or what the model writes itself, as they do where examples are normalized by their
  /// batch: such a loss is then the micro-batches' mean. By default they are refused.
  bool allow_batch_change = false;
};

/// The state that counts updates of averages, an i64 scalar, and the one that holds the
/// average of a param.
inline constexpr std::string_view kAverageUpdates = "ema.updates";
std::string AverageName(std::string_view param);

/// Whether no param may be updated before all gradients are there: they are to be
/// clipped by their norm, or their finiteness decides.
bool UpdatesWait(const TrainOptions& options);

/// That a step of `forward` can do what `options` asks for. Errors: those that
/// BuildTrainStep names, but for what only the backward graph can tell. Linear in the
/// groups times the params.
Status CheckTrainOptions(const Graph& forward, const TrainOptions& options);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_TRAIN_OPTIONS_H_
