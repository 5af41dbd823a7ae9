#ifndef STOWAGE_AUTODIFF_OPTIMIZER_H_
#define STOWAGE_AUTODIFF_OPTIMIZER_H_

// Optimizers as IR: their memory is state in the arena, and their arithmetic is one node per
// param, or several for settings that no node has (autodiff/optimizer_rules.h). Values that
// change from step to step (learning rate, step number, clip factor) are inputs of the graph.
// Defaults and update rules are PyTorch's.
//
//   Optimizer optimizer = *ParseOptimizer("adamw");
//   EmitUpdate(optimizer, {.param = "w", .elements = 640}, w, gradient, inputs);

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "autodiff/optimizer_rules.h"
#include "autodiff/step_scalars.h"
#include "autodiff/update_rule.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage {

/// w -= lr * (g + decay * w)
struct Sgd {
  double decay = 0;
};

/// velocity = momentum * velocity + g + decay * w;  w -= lr * velocity. With `bf16_velocity`,
/// the velocity of an f32 or bf16 param is bf16, rounded as in Moments::kBf16, and a bf16
/// param is split as in AdamW. With `dampening`, the gradient is added times 1 - dampening,
/// but at the first step, as in PyTorch.
struct Momentum {
  double momentum = 0.9;
  double decay = 0;
  bool bf16_velocity = false;
  double dampening = 0;  // 0 with bf16_velocity
};

/// d = g + decay * w;  velocity = momentum * velocity + d;
/// w -= lr * (d + momentum * velocity). PyTorch's SGD with nesterov.
struct Nesterov {
  double momentum = 0.9;
  double decay = 0;
};

/// d = g + decay * w;  v = alpha * v + (1 - alpha) * d^2;
/// w -= lr * d / (sqrt(v) + eps). If `centered`, the root is of v - mean^2, for
/// mean = alpha * mean + (1 - alpha) * d; with a momentum,
/// velocity = momentum * velocity + d / (...) and w -= lr * velocity.
struct RmsProp {
  double alpha = 0.99;
  double eps = 1e-8;
  double decay = 0;
  double momentum = 0;
  bool centered = false;
};

/// d = g + decay * w;  v = v + d^2, at first `initial`;
/// w -= lr / (1 + (step - 1) * lr_decay) * d / (sqrt(v) + eps)
struct Adagrad {
  double eps = 1e-10;
  double decay = 0;
  double lr_decay = 0;
  double initial = 0;
};

/// Kingma & Ba 2015; the decay is part of the gradient, as in Sgd. With `amsgrad` (Reddi et al.
/// 2018), the root is of the largest v so far, a state "w.v_max".
struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  bool amsgrad = false;
};

/// The format of AdamW's two moments, with their bytes per element: f32, 8; bf16, rounded
/// stochastically, 4; 8 bits with a scale for each 256 elements, 2.03, by the dynamic code of
/// Dettmers et al. 2022, as in bitsandbytes' AdamW8bit, or companded, as in Gonzalez Ortiz et
/// al. 2026, FlashOptim (math/optimizer.h). As in bitsandbytes, params of less than
/// kMinElementsIn8Bit elements have f32 moments in the 8-bit formats.
enum class Moments : uint8_t { kFull, kBf16, kDynamic8, kCompanded8 };
inline constexpr int64_t kMinElementsIn8Bit = 4096;

/// Decoupled decay (Loshchilov & Hutter 2019), bias correction from the step input. A bf16
/// param is the upper part of an f32 master weight, or of its first 24 bits, whose remaining
/// 16 or 8 bits are a state (math/optimizer.h); its moments are f32 by default. For an f16
/// param, see UpdatesInF32. Other params compute and keep everything in their own type.
/// Low-precision moments are for f32 and bf16 params.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
  Moments moments = Moments::kFull;
  int rest_bits = 16;    // of a bf16 param's weight, 16 or 8
  bool amsgrad = false;  // as in Adam; for full moments and 16 rest bits
};

/// One of the optimizers above, one of autodiff/optimizer_rules.h or autodiff/update_rule.h, or a
/// program's own UpdateRule.
using Optimizer = std::variant<Sgd, Momentum, AdamW, Nesterov, RmsProp, Adagrad,
                               Adam, NAdam, RAdam, Adamax, Adadelta, Asgd,
                               Rprop, Lion, Adafactor, Muon, UpdateRule>;

/// An optimizer with its defaults and its name for users.
struct NamedOptimizer {
  std::string_view name;
  Optimizer optimizer;
};
/// All optimizers with a name.
const std::vector<NamedOptimizer>& NamedOptimizers();

/// The name, in NamedOptimizers, of an optimizer of this kind and with states of these types,
/// or the name of the rule.
std::string_view OptimizerName(const Optimizer& optimizer);
/// Their names: "sgd, momentum, ... or muon".
std::string OptimizerChoices();
/// The optimizer of that name with its defaults, or an error naming the
/// choices.
Result<Optimizer> ParseOptimizer(std::string_view name);

/// The default learning rate: 1e-3 for Adam, AdamW, RAdam and Muon, 2e-3 for NAdam and Adamax,
/// 1e-1 for Sgd, 2e-2 for Momentum and Nesterov, 1e-2 for RmsProp, Adagrad, Adafactor, Asgd and
/// Rprop, 1 for Adadelta, 1e-4 for Lion, and UpdateRule::learning_rate for a rule.
double DefaultLearningRate(const Optimizer& optimizer);

/// Error unless the constants are in range: momentum, alpha, rho and betas in [0, 1), eps and
/// clip above 0, decay and the other constants of sums not negative, beta2_decay negative, 1 to
/// 100 iterations, 8 or 16 rest bits; eta_minus in (0, 1), eta_plus above 1; and unless they can
/// be combined (amsgrad and dampening). For a rule, CheckUpdateRule.
Status CheckOptimizer(const Optimizer& optimizer);

/// Whether a param of that type is updated in f32, as an f16 param is by optimizers that keep
/// squares of gradients, which would underflow: Adam, AdamW, RmsProp and Adagrad. The
/// difference from the f32 number is a state of f32, "w.rest", the optimizer's states are
/// f32, and AdamW's moments must be Moments::kFull.
bool UpdatesInF32(const Optimizer& optimizer, DType param);

/// The names of the optimizer's states for the param `name` of that type: "w.velocity"; "w.v";
/// "w.m", "w.v", and for 8-bit AdamW then "w.m_scale", "w.v_scale"; before these "w.delta" if
/// w is split, or "w.rest" if it is updated in f32. Empty for optimizers that are rules
/// (autodiff/update_rule.h), whose states are known once they have run.
std::vector<std::string> StateNames(const Optimizer& optimizer,
                                    std::string_view name,
                                    const TensorType& type);

/// Whether updates round stochastically, and so read a seed.
bool ReadsSeed(const Optimizer& optimizer);

/// Whether a block of a param (BlockElements, autodiff/train_step.h) can be updated by itself to
/// the same bits.
bool UpdatesByBlocks(const Optimizer& optimizer);

/// The elements of a param that an update covers.
struct ParamBlock {
  std::string param = {};  // its name
  int64_t elements = 0;    // of the whole param
  int64_t first = 0;       // first element of the block
};

/// The step's inputs of an update.
struct UpdateInputs {
  Value lr;     // f32 scalar; f64 for an f64 param, which a rule updates then
  Value step;   // i64 scalar, 1 at the first step
  Value scale;  // f32 scalar multiplying every gradient; Value() for none
  Value seed = {};  // i64 scalar; Value() unless ReadsSeed
  /// Bool scalar: whether to update anything; if not, `scale` is infinite too. Value(): always
  /// true.
  Value good = {};
  /// The inputs of a ParamGroup; Value() for none.
  Value momentum = {};
  Value decay = {};
  StepScalars* scalars = nullptr;  // of the step; not null
};

/// Emits the update of `block` by `gradient` into `block`'s builder and declares its states. The
/// new content of "w" is called "new:w". Stochastic rounding depends on the seed, the step,
/// the param's name and the element. A param of a type that the optimizer does not update is
/// an error of the builder.
void EmitUpdate(const Optimizer& optimizer, const ParamBlock& which,
                Value block, Value gradient, const UpdateInputs& inputs);

/// `gradient` times an f32 scalar, in the gradient's type; computed in a type with the scalar's
/// range.
Value EmitScaled(Value gradient, Value scale);

/// The factor that scales gradients of global norm `norm` to at most `max_norm`, as in PyTorch's
/// clip_grad_norm_: min(1, max_norm / (norm + 1e-6)), an f32 scalar.
Value EmitClipScale(Value norm, double max_norm);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_OPTIMIZER_H_
