#ifndef STOWAGE_AUTODIFF_TRAIN_OPTIONS_H_
#define STOWAGE_AUTODIFF_TRAIN_OPTIONS_H_

// What a training step is asked for: the optimizer, the params it trains, what it
// clips, scales and gives out.
//
//   TrainOptions options{.optimizer = AdamW{}, .clip_norm = 1.0};
//   options.groups = {{.pattern = "*.bias", .decay = 0}};
//   options.loss_scaling = LossScaling{};

#include <optional>
#include <string>
#include <vector>

#include "autodiff/loss_scaling.h"
#include "autodiff/optimizer.h"
#include "autodiff/param_groups.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

struct TrainOptions {
  Optimizer optimizer = AdamW{};
  /// Names of the params to train; empty means all.
  std::vector<std::string> wrt = {};
  /// The global norm to clip the gradients to; adds an output "grad_norm".
  std::optional<double> clip_norm = std::nullopt;
  /// Whether gradients are scaled on their way, and updates skipped whose gradients are
  /// not finite. Norms and gradients that are given out are those without the scale.
  std::optional<LossScaling> loss_scaling = std::nullopt;
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

/// Whether no param may be updated before all gradients are there: they are to be
/// clipped by their norm, or their finiteness decides.
bool UpdatesWait(const TrainOptions& options);

/// That a step of `forward` can do what `options` asks for. Errors: those that
/// BuildTrainStep names, but for what only the backward graph can tell. Linear in the
/// groups times the params.
Status CheckTrainOptions(const Graph& forward, const TrainOptions& options);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_TRAIN_OPTIONS_H_
