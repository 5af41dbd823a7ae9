#include "tools/optimization_flags.h"

#include <limits>
#include <string_view>
#include <utility>

#include "autodiff/param_groups.h"
#include "base/strings.h"
#include "nn/label_smoothing.h"
#include "train/choose_optimizer.h"

namespace stowage::tools {
namespace {

Error Invalid(std::string_view message) {
  return {ErrorCode::kInvalidArgument, std::string(message)};
}

}  // namespace

void AddOptimizationOptions(Options& options, OptimizationFlags* flags) {
  options.Group("optimization");
  options.Add("--clip-norm", &flags->clip_norm,
              "Scale gradients so that their global norm is at most this; "
              "the updates then wait for all gradients; default: no clipping");
  options.Add("--weight-decay", &flags->weight_decay,
              "Decay of all trained params, biases and norms included; "
              "decoupled from the gradient with AdamW, Lion, Adafactor and "
              "Muon; default: the model's, or the optimizer's where it is not "
              "the model's");
  options.AddEach("--no-decay", &flags->no_decay,
                  "Params without weight decay, a pattern of names as "
                  "'*.bias'; may be repeated; default: none");
  options.Add("--momentum", &flags->momentum,
              "Of sgd, momentum, nesterov and muon; default: 0 of sgd, 0.95 "
              "of muon, else 0.9");
  options.Add("--label-smoothing", &flags->label_smoothing,
              "Part of each target that is spread over all classes, of a "
              "cross-entropy in training; what is held out is judged without; "
              "default: 0");
}

Status SetOptimization(const OptimizationFlags& flags, TrainOptions* options) {
  if (flags.clip_norm) {
    // The step computes it in f32.
    if (!(*flags.clip_norm > 0 &&
          *flags.clip_norm <= std::numeric_limits<float>::max())) {
      return Invalid(StrCat("[clip-norm] ", *flags.clip_norm,
                            " is out of range; expected a number above 0 that "
                            "is finite in f32"));
    }
    options->clip_norm = flags.clip_norm;
  }
  if (flags.momentum) {
    STOWAGE_ASSIGN_OR_RETURN(
        options->optimizer,
        WithMomentum(std::move(options->optimizer), *flags.momentum));
  }
  if (flags.weight_decay) {
    STOWAGE_ASSIGN_OR_RETURN(
        options->optimizer,
        WithDecay(std::move(options->optimizer), *flags.weight_decay));
  }
  return {};
}

ModelFn WithSmoothing(const OptimizationFlags& flags, ModelFn model) {
  if (!flags.label_smoothing) return model;
  return [model = std::move(model),
          smoothing = *flags.label_smoothing](int64_t batch) -> Result<Graph> {
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph, model(batch));
    return WithLabelSmoothing(graph, smoothing);
  };
}

Status SetNoDecay(const OptimizationFlags& flags, TrainingSpec* training) {
  if (flags.no_decay.empty()) return {};
  TrainOptions& options = training->training;
  if (DecayOf(options.optimizer) == 0) {
    return Invalid(StrCat("[no-decay] ", OptimizerName(options.optimizer),
                          " has a weight decay of 0 here, so --no-decay ",
                          Quoted(flags.no_decay.front()),
                          " changes nothing; give --weight-decay with it"));
  }
  STOWAGE_ASSIGN_OR_RETURN(const Graph model, training->model(training->batch));
  STOWAGE_ASSIGN_OR_RETURN(
      options.groups,
      WithoutDecay(model, std::move(options.groups), flags.no_decay));
  return {};
}

}  // namespace stowage::tools
