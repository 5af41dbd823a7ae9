#ifndef STOWAGE_AUTODIFF_OPTIMIZER_H_
#define STOWAGE_AUTODIFF_OPTIMIZER_H_

// Optimizers as IR: their memory is state in the arena, their arithmetic a node
// per param. Whatever changes from step to step (learning rate, step number,
// clip factor) is an input of the graph, so that changing it recompiles
// nothing. The constants below follow PyTorch's defaults and update rules.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "autodiff/lean_optimizers.h"
#include "autodiff/update_rule.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/dtype.h"

namespace stowage {

/// w -= lr * (g + decay * w)
struct Sgd {
  double decay = 0;
};

/// velocity = momentum * velocity + g + decay * w;  w -= lr * velocity
struct Momentum {
  double momentum = 0.9;
  double decay = 0;
};

/// d = g + decay * w;  velocity = momentum * velocity + d;
/// w -= lr * (d + momentum * velocity). PyTorch's SGD with nesterov.
struct Nesterov {
  double momentum = 0.9;
  double decay = 0;
};

/// d = g + decay * w;  v = alpha * v + (1 - alpha) * d^2;
/// w -= lr * d / (sqrt(v) + eps)
struct RmsProp {
  double alpha = 0.99;
  double eps = 1e-8;
  double decay = 0;
};

/// d = g + decay * w;  v = v + d^2;  w -= lr * d / (sqrt(v) + eps)
struct Adagrad {
  double eps = 1e-10;
  double decay = 0;
};

/// Kingma & Ba 2015, the decay part of the gradient, as in Sgd.
struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
};

/// Decoupled decay (Loshchilov & Hutter 2019), bias correction from the step
/// input. A bf16 param is the upper part of an f32 weight, whose rest is a state
/// (math/split_master.h), and the moments are f32: 10 bytes of state for each
/// element. All others compute and keep everything in the param's type.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
};

/// Or one of lean_optimizers.h, or a rule of the program's own
/// (autodiff/update_rule.h).
using Optimizer = std::variant<Sgd, Momentum, AdamW, Nesterov, RmsProp, Adagrad,
                               Adam, Lion, Adafactor, Muon, UpdateRule>;

/// "sgd", "momentum", "nesterov", "rmsprop", "adagrad", "adam", "adamw", "lion",
/// "adafactor", "muon", or the name of the rule.
std::string_view OptimizerName(const Optimizer& optimizer);
/// The optimizer of that name with its defaults, or an error naming the
/// choices.
Result<Optimizer> ParseOptimizer(std::string_view name);

/// A learning rate to start from where nothing better is known of the model:
/// 1e-3 for Adam and AdamW, 1e-1 for Sgd, 2e-2 for Momentum and Nesterov, 1e-2 for
/// RmsProp, Adagrad and Adafactor, 1e-4 for Lion, 1e-3 for Muon; a rule says its own.
double DefaultLearningRate(const Optimizer& optimizer);

/// Whether the constants are in range: momentum, alpha and betas in [0, 1), eps and
/// clip above 0, decay not negative, beta2_decay negative, 1 to 100 iterations; a rule as
/// CheckUpdateRule wants it.
Status CheckOptimizer(const Optimizer& optimizer);

/// Names of the states the optimizer keeps for the param `name` of that type:
/// "w.velocity"; "w.v"; "w.m", "w.v", and for AdamW before these "w.delta" if w is
/// bf16. What a rule keeps, those of lean_optimizers.h among them, is known when it has
/// run: none here.
std::vector<std::string> StateNames(const Optimizer& optimizer,
                                    std::string_view name, DType dtype);

/// The step inputs an update reads.
struct UpdateInputs {
  Value lr;          // f32 scalar
  Value step;        // i64 scalar, 1 at the first step
  Value clip_scale;  // f32 scalar multiplying every gradient; Value() for none
};

/// Emits the update of `param` by `gradient` into `param`'s builder and
/// declares the states it needs. The new content of "w" is called "new:w".
void EmitUpdate(const Optimizer& optimizer, Value param, Value gradient,
                const UpdateInputs& inputs);

/// The factor that brings the gradients' global norm down to `max_norm`, as
/// PyTorch's clip_grad_norm_: min(1, max_norm / (norm + 1e-6)); and the norm.
struct ClipScale {
  Value scale;  // f32 scalar
  Value norm;   // f32 scalar
};
ClipScale EmitClipScale(GraphBuilder& g, const std::vector<Value>& gradients,
                        double max_norm);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_OPTIMIZER_H_
