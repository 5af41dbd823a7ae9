#ifndef STOWAGE_AUTODIFF_OPTIMIZER_H_
#define STOWAGE_AUTODIFF_OPTIMIZER_H_

// Optimizers as IR: their memory is state in the arena, their arithmetic a node
// per param. Whatever changes from step to step (learning rate, step number,
// clip factor) is an input of the graph, so that changing it recompiles
// nothing. The constants below follow PyTorch's defaults and update rules.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

/// velocity = momentum * velocity + g + decay * w;  w -= lr * velocity. With
/// `bf16_velocity`, that of an f32 or bf16 param is bf16, rounded as AdamW's moments are
/// with Moments::kBf16, and a bf16 param is in two parts as AdamW's are.
struct Momentum {
  double momentum = 0.9;
  double decay = 0;
  bool bf16_velocity = false;
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

/// How AdamW's two moments are kept, and so how many bytes they take for each element:
/// in full, 8; rounded stochastically to bf16, 4; in eight bits with a scale for each
/// 256 elements, 2.03, by the dynamic code of Dettmers et al. 2022, as in bitsandbytes'
/// AdamW8bit, or companded, as in Gonzalez Ortiz et al. 2026, FlashOptim
/// (math/optimizer.h). As in bitsandbytes, params of less than
/// kMinElementsIn8Bit elements keep theirs in full whatever the code.
enum class Moments : uint8_t { kFull, kBf16, kDynamic8, kCompanded8 };
inline constexpr int64_t kMinElementsIn8Bit = 4096;

/// Decoupled decay (Loshchilov & Hutter 2019), bias correction from the step
/// input. A bf16 param is the upper part of an f32 weight, or of its first 24 bits,
/// whose rest, 16 or 8 bits, is a state (math/optimizer.h); its moments in full
/// are f32. An f16 param is as UpdatesInF32 says. All others compute and keep everything
/// in the param's type. Moments that
/// are not kept in full are for params in f32 and bf16.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0.01;
  Moments moments = Moments::kFull;
  int rest_bits = 16;  // of a bf16 param's weight, 16 or 8
};

/// Or one of lean_optimizers.h, or a rule of the program's own
/// (autodiff/update_rule.h).
using Optimizer = std::variant<Sgd, Momentum, AdamW, Nesterov, RmsProp, Adagrad,
                               Adam, Lion, Adafactor, Muon, UpdateRule>;

/// An optimizer by the name that users know it by, with its defaults.
struct NamedOptimizer {
  std::string_view name;
  Optimizer optimizer;
};
/// All of them (docs/reference/optimizers.md has the table).
const std::vector<NamedOptimizer>& NamedOptimizers();

/// What NamedOptimizers calls an optimizer of this kind and with states of these types,
/// or the name of the rule.
std::string_view OptimizerName(const Optimizer& optimizer);
/// Their names: "sgd, momentum, ... or muon".
std::string OptimizerChoices();
/// The optimizer of that name with its defaults, or an error naming the
/// choices.
Result<Optimizer> ParseOptimizer(std::string_view name);

/// A learning rate to start from where nothing better is known of the model:
/// 1e-3 for Adam and AdamW, 1e-1 for Sgd, 2e-2 for Momentum and Nesterov, 1e-2 for
/// RmsProp, Adagrad and Adafactor, 1e-4 for Lion, 1e-3 for Muon; a rule says its own.
double DefaultLearningRate(const Optimizer& optimizer);

/// Whether the constants are in range: momentum, alpha and betas in [0, 1), eps and
/// clip above 0, decay not negative, beta2_decay negative, 1 to 100 iterations, 8 or 16
/// bits of rest; a rule as CheckUpdateRule wants it.
Status CheckOptimizer(const Optimizer& optimizer);

/// Whether a param of that type is updated as an f32 number, of which it is the nearest
/// f16: what it lacks is a state of f32, "w.rest", and the optimizer's are f32. Squares of
/// gradients, which Adam, AdamW, RmsProp and Adagrad keep, are zeros in f16. So f16 takes
/// moments in full alone.
bool UpdatesInF32(const Optimizer& optimizer, DType param);

/// Names of the states the optimizer keeps for the param `name` of that type:
/// "w.velocity"; "w.v"; "w.m", "w.v", and for AdamW after these "w.m_scale",
/// "w.v_scale" if they are of eight bits; before all of these "w.delta" if w is in two
/// parts, or "w.rest" if it is updated in f32. What a rule keeps, those of lean_optimizers.h among them, is known when it has
/// run: none here.
std::vector<std::string> StateNames(const Optimizer& optimizer,
                                    std::string_view name,
                                    const TensorType& type);

/// Whether updates round by chance, and so read a seed.
bool ReadsSeed(const Optimizer& optimizer);

/// Whether a block of a param, cut as BlockElements has it (autodiff/train_step.h), can be
/// updated by itself, as a param, to the same bits.
bool UpdatesByBlocks(const Optimizer& optimizer);

/// Which elements of a param an update is of.
struct ParamBlock {
  std::string param = {};  // its name
  int64_t elements = 0;    // of all of it
  int64_t first = 0;       // of the block; 0 where it is all of the param
};

/// What an update reads of its step.
struct UpdateInputs {
  Value lr;         // f32 scalar
  Value step;       // i64 scalar, 1 at the first step
  Value scale;      // f32 scalar multiplying every gradient; Value() for none
  Value seed = {};  // i64 scalar; Value() where ReadsSeed says no
  /// Bool scalar: whether anything is to be updated; if not, `scale` is infinite, which
  /// says the same. Value() where it is, come what may.
  Value good = {};
};

/// Emits the update of `block` by `gradient` into `block`'s builder and declares the
/// states it needs. The new content of "w" is called "new:w". What is rounded by chance
/// depends on the seed, the step, the param's name and the element. A param of a type
/// that the optimizer does not update is an error of the builder.
void EmitUpdate(const Optimizer& optimizer, const ParamBlock& which,
                Value block, Value gradient, const UpdateInputs& inputs);

/// `gradient` times an f32 scalar, of the gradient's type, and computed in one that has
/// the scalar's range.
Value EmitScaled(Value gradient, Value scale);

/// The factor that brings gradients of that global norm down to `max_norm`, as
/// PyTorch's clip_grad_norm_: min(1, max_norm / (norm + 1e-6)), an f32 scalar.
Value EmitClipScale(Value norm, double max_norm);

// Params that are trained otherwise than the rest: without weight decay, by a
// learning rate of their own, or not at all. A group names its params by a
// pattern (base/strings.h), and the first group whose pattern matches a param's
// name is the one that applies to it. A param that no pattern matches keeps the
// optimizer's own settings. The updates are those of PyTorch's param groups,
// where `decay` is a group's weight_decay and its lr is `lr_scale` times the
// step's.
//
//   // GPT-2 as it is usually trained: decay for matrices only.
//   TrainOptions options{.optimizer = AdamW{.decay = 0.1},
//                        .groups = {{.pattern = "*.bias", .decay = 0},
//                                   {.pattern = "*ln_*", .decay = 0},
//                                   {.pattern = "wte", .lr_scale = 0.1},
//                                   {.pattern = "wpe", .frozen = true}}};

struct ParamGroup {
  /// Of the params' names: `*` is any run of characters, `?` exactly one.
  std::string pattern;
  /// Takes the place of the optimizer's decay.
  std::optional<double> decay = std::nullopt;
  /// Multiplies the learning rate, in f32. With 0 the params stay as they are,
  /// but have gradients and states.
  double lr_scale = 1;
  /// Neither gradients nor states are made for the params, and they stay as
  /// they are. Then `decay` and `lr_scale` say nothing.
  bool frozen = false;
};

/// The first group whose pattern matches `param`; null where none does.
const ParamGroup* FindParamGroup(std::span<const ParamGroup> groups,
                                 std::string_view param);

/// Error kInvalidArgument: a pattern that matches no param of `graph` (the error
/// names some that there are), a decay below 0 or not finite, an lr_scale below
/// 0 or not finite in f32. Takes time for every param and group.
Status CheckParamGroups(const Graph& graph, std::span<const ParamGroup> groups);

/// The names of `wrt`, or where it is empty of all float params of `graph`, but
/// for the params that are frozen. Error kInvalidArgument: all of them are.
Result<std::vector<std::string>> WithoutFrozen(
    const Graph& graph, const std::vector<std::string>& wrt,
    std::span<const ParamGroup> groups);

/// `groups` with a decay of 0 for the params of `graph` whose names match one of
/// `patterns`; what else applies to them stays. Error kInvalidArgument: a pattern that
/// matches no param, or only frozen ones.
Result<std::vector<ParamGroup>> WithoutDecay(
    const Graph& graph, std::vector<ParamGroup> groups,
    std::span<const std::string> patterns);

/// `optimizer` with the decay that `group` gives its params. `group` may be
/// null.
Optimizer OptimizerOfGroup(const Optimizer& optimizer, const ParamGroup* group);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_OPTIMIZER_H_
