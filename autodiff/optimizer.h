#ifndef STOWAGE_AUTODIFF_OPTIMIZER_H_
#define STOWAGE_AUTODIFF_OPTIMIZER_H_

// Emits optimizer updates into the graph of a training step. Optimizer states are state values in
// the arena. The update of a param is a single op if an op exists that supports the settings, and
// otherwise several ops (autodiff/optimizer_rules.h). The learning rate and the step number are
// inputs of the graph, because they change from step to step.
//
// The update rules of the optimizers that torch.optim has are PyTorch's, except for the scale of
// Muon. Default settings are PyTorch's, except for the momentum of Momentum and Nesterov,
// Adafactor::by_last_axes and some learning rates (DefaultLearningRate).
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

/// SGD: w -= lr * (g + decay * w), where w is the param and g its gradient.
struct Sgd {
  double decay = 0;
};

/// SGD with momentum:
///
///   velocity = momentum * velocity + g + decay * w
///   w -= lr * velocity
struct Momentum {
  double momentum = 0.9;
  double decay = 0;
  /// Whether velocities are stored in bf16, with stochastic rounding. Params must then be f32 or
  /// bf16. A bf16 param is split into a master weight and a state, as described at AdamW.
  bool bf16_velocity = false;
  /// In all steps but the first, g + decay * w is multiplied by 1 - dampening before it is added to
  /// the velocity, as in PyTorch. Must be 0 with bf16_velocity.
  double dampening = 0;
};

/// PyTorch's SGD with nesterov=True:
///
///   d = g + decay * w
///   velocity = momentum * velocity + d
///   w -= lr * (d + momentum * velocity)
struct Nesterov {
  double momentum = 0.9;
  double decay = 0;
};

/// RMSprop:
///
///   d = g + decay * w
///   v = alpha * v + (1 - alpha) * d^2
///   w -= lr * d / (sqrt(v) + eps)
///
/// If `centered`, the square root is of v - mean^2, where mean is a state that is updated by
/// mean = alpha * mean + (1 - alpha) * d. If `momentum` is not 0, the last line becomes
/// velocity = momentum * velocity + d / (sqrt(v) + eps), followed by w -= lr * velocity.
struct RmsProp {
  double alpha = 0.99;
  double eps = 1e-8;
  double decay = 0;
  double momentum = 0;
  bool centered = false;
};

/// Adagrad, where v starts at `initial`:
///
///   d = g + decay * w
///   v = v + d^2
///   w -= lr / (1 + (step - 1) * lr_decay) * d / (sqrt(v) + eps)
struct Adagrad {
  double eps = 1e-10;
  double decay = 0;
  double lr_decay = 0;
  double initial = 0;
};

/// Adam (Kingma & Ba 2015). decay * w is added to the gradient, as in Sgd. With `amsgrad` (Reddi et
/// al. 2018), the elementwise maximum of v over all steps replaces v in the square root. The
/// maximum is a state, "w.v_max".
struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  bool amsgrad = false;
};

/// The format of AdamW's two moments, and their total size per element of the param:
///
///   kFull        8 bytes      f32
///   kBf16        4 bytes      bf16, with stochastic rounding
///   kDynamic8    2.03 bytes   8 bits with a scale for each 256 elements, in the dynamic code of
///                             Dettmers et al. 2022, as in bitsandbytes' AdamW8bit
///   kCompanded8  2.03 bytes   8 bits with a scale for each 256 elements, in the companded code of
///                             Gonzalez Ortiz et al. 2026, "FlashOptim" (math/optimizer.h)
///
/// As in bitsandbytes, params with fewer than kMinElementsIn8Bit elements have f32 moments instead
/// of 8-bit ones.
enum class Moments : uint8_t { kFull, kBf16, kDynamic8, kCompanded8 };
inline constexpr int64_t kMinElementsIn8Bit = 4096;

/// AdamW with decoupled weight decay (Loshchilov & Hutter 2019). Bias correction uses the step
/// input.
///
/// A bf16 param is split: it is the upper 16 bits of a master weight, which consists of all 32 bits
/// or the upper 24 bits of an f32. The remaining 16 or 8 bits are a state, "w.delta"
/// (math/optimizer.h). The moments are f32 by default. For f16 params, see UpdatesInF32. For params
/// of other types, the computation and the states use the param's type. Low-precision moments are
/// only supported for f32 and bf16 params.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
  Moments moments = Moments::kFull;
  /// The number of bits of a bf16 param's master weight that are stored as a state, 16 or 8.
  int rest_bits = 16;
  /// Has the same meaning as in Adam. Requires Moments::kFull and 16 rest bits.
  bool amsgrad = false;
};

/// An optimizer of this header, of autodiff/optimizer_rules.h or of autodiff/update_rule.h, or a
/// user-defined UpdateRule.
using Optimizer = std::variant<Sgd, Momentum, AdamW, Nesterov, RmsProp, Adagrad,
                               Adam, NAdam, RAdam, Adamax, Adadelta, Asgd,
                               Rprop, Lion, Adafactor, Muon, UpdateRule>;

/// An optimizer with its default settings, and the name by which users select it.
struct NamedOptimizer {
  std::string_view name;
  Optimizer optimizer;
};
/// Returns all named optimizers.
const std::vector<NamedOptimizer>& NamedOptimizers();

/// Returns the name of `optimizer`. For an UpdateRule, this is the name of the rule. Otherwise, it
/// is the name in NamedOptimizers of the optimizer of the same kind, with the same `moments`
/// (AdamW) or `bf16_velocity` (Momentum). Other settings are ignored.
std::string_view OptimizerName(const Optimizer& optimizer);
/// Returns the names of all named optimizers: "sgd, momentum, ... or muon".
std::string OptimizerChoices();
/// Returns the optimizer called `name` with its default settings. Returns kInvalidArgument, with
/// the known names in the message, if there is none.
Result<Optimizer> ParseOptimizer(std::string_view name);

/// Returns the default learning rate of `optimizer`: 1e-3 for Adam, AdamW, RAdam and Muon, 2e-3 for
/// NAdam and Adamax, 1e-1 for Sgd, 2e-2 for Momentum and Nesterov, 1e-2 for RmsProp, Adagrad,
/// Adafactor, Asgd and Rprop, 1 for Adadelta, 1e-4 for Lion, and UpdateRule::learning_rate for a
/// rule.
double DefaultLearningRate(const Optimizer& optimizer);

/// Returns kInvalidArgument if a setting is not finite or is out of range:
///   - `momentum`, the betas, `rho` and the `alpha` of RmsProp must be in [0, 1).
///   - `eps`, `eps2` and `clip` must be above 0.
///   - `decay`, `initial`, `lr_decay`, `momentum_decay`, `lambd`, `t0`, `min_step`, `eps1` and the
///     `alpha` of Asgd must not be negative.
///   - `beta2_decay` must be negative, and `iterations` must be 1 to 100.
///   - `eta_minus` must be in (0, 1), `eta_plus` above 1, and `max_step` at least `min_step`.
///   - `rest_bits` must be 8 or 16. The settings must satisfy the requirements of `amsgrad` (AdamW)
///     and `dampening` (Momentum).
/// An UpdateRule is checked by CheckUpdateRule.
Status CheckOptimizer(const Optimizer& optimizer);

/// Returns whether the op of `optimizer` updates a param of type `param` as an f32 weight. This is
/// the case for f16 params if the optimizer stores squares of gradients, which would underflow in
/// f16: Adam, RmsProp, Adagrad, and AdamW with Moments::kFull. The difference between the f32
/// weight and the f16 param is an f32 state, "w.rest". The other states are f32, too.
bool UpdatesInF32(const Optimizer& optimizer, DType param);

/// Returns the names of the states that the optimizer's op has for a param called `name` of type
/// `type`: "w.velocity", or "w.v", or "w.m" and "w.v", followed by "w.m_scale" and "w.v_scale" for
/// 8-bit AdamW. "w.delta" comes first if w is split, and "w.rest" comes first if w is updated in
/// f32. States of update rules (autodiff/update_rule.h) are only known once the rule has run, so
/// they are not included, even if the optimizer becomes a rule because of a setting such as
/// `amsgrad`.
std::vector<std::string> StateNames(const Optimizer& optimizer,
                                    std::string_view name,
                                    const TensorType& type);

/// Returns whether updates of `optimizer` round stochastically and therefore read a seed.
bool ReadsSeed(const Optimizer& optimizer);

/// Returns whether the blocks of a param (BlockElements, autodiff/train_step.h) can be updated
/// separately, with the same result as an update of the whole param, bit for bit. Returns false for
/// Adafactor, Muon, NAdam, Asgd and user-defined rules.
bool UpdatesByBlocks(const Optimizer& optimizer);

/// The param that an update changes, and the range of its elements.
struct ParamBlock {
  std::string param = {};  // the name of the param
  int64_t elements = 0;    // the number of elements of the whole param
  int64_t first = 0;       // the first element of the block
};

/// The scalars of a step that an update reads.
struct UpdateInputs {
  /// The learning rate, an f32 scalar. For an f64 param, it may be f64. An update rule then updates
  /// the param.
  Value lr;
  Value step;  // i64 scalar, 1 in the first step
  /// An f32 scalar that multiplies every gradient. Value() means 1.
  Value scale;
  Value seed = {};  // i64 scalar, required if ReadsSeed
  /// A bool scalar. If it is false, the step must not update anything, and `scale` is infinite.
  /// Value() means true.
  Value good = {};
  /// The inputs of a ParamGroup that replace the optimizer's momentum and decay. Value() means that
  /// the optimizer's constants are used.
  Value momentum = {};
  Value decay = {};
  StepScalars* scalars = nullptr;  // of the step, must not be null
};

/// Emits the update of `block` with `gradient` into the builder of `block`, and declares the
/// optimizer's states. `block` is the whole param or a block of it, which `which` describes. The
/// new content of "w" is called "new:w". Stochastic rounding depends on the seed, the step, the
/// param's name and the index of the element. Records an error in the builder if the optimizer does
/// not support the param's type.
void EmitUpdate(const Optimizer& optimizer, const ParamBlock& which,
                Value block, Value gradient, const UpdateInputs& inputs);

/// Emits `gradient` times the f32 scalar `scale`. The multiplication is in f32, or in f64 for an
/// f64 gradient, and the result has the gradient's type.
Value EmitScaled(Value gradient, Value scale);

/// Emits the factor that clips gradients to the global norm `max_norm`, as in PyTorch's
/// clip_grad_norm_: min(1, max_norm / (norm + 1e-6)). `norm`, the global norm of the gradients, and
/// the result are f32 scalars.
Value EmitClipScale(Value norm, double max_norm);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_OPTIMIZER_H_
