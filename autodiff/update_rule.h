#ifndef STOWAGE_AUTODIFF_UPDATE_RULE_H_
#define STOWAGE_AUTODIFF_UPDATE_RULE_H_

// Defines optimizers as update rules composed of ops: user-defined rules, and the built-in Lion,
// Adafactor and Muon. A rule is a function that emits the update of one param. It is called once
// for each param. The states of a rule are in the arena, like the states of every optimizer.
//
//   // Lion (Chen et al. 2023).
//   Optimizer lion = UpdateRule{
//       .name = "lion",
//       .update = [](ParamUpdate& u) {
//         Value m = u.State("m");
//         Value c = Add(MulScalar(m, 0.9), MulScalar(u.gradient, 0.1));
//         u.Set(u.param, Sub(u.param, Mul(Sign(c), u.LearningRate())));
//         u.Set(m, Add(MulScalar(m, 0.99), MulScalar(u.gradient, 0.01)));
//       },
//       .learning_rate = 1e-4};
//
// A rule can also consist of a single custom op that updates its operands in place
// (OpDef::updates, ir/op_def.h). Unlike Set, such an op needs no buffer for the new content.
// However, it cannot be used with loss scaling, which must be able to skip updates (LossScaling,
// autodiff/train_step.h) and can only skip Set and Lerp.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

class StepScalars;
struct UpdateRule;

/// The update of one param, as a rule sees it.
class ParamUpdate {
 public:
  /// Prepares the update of the param `of` with the gradient `by`.
  ParamUpdate(Value of, Value by) : param(of), gradient(by), leaf_(of) {}
  /// Prepares the update of a split bf16 param with the f32 gradient `by`. `of` and `delta` are the
  /// upper and lower halves of the f32 master weight.
  ParamUpdate(Value of, Value delta, Value by);

  const Value param;     // the f32 master weight if the param is split
  const Value gradient;  // has the type of `param` and is already clipped
  /// The learning rate of the param's group, a scalar. It is f64 if the param is f64 and its group
  /// has an input for the learning rate (ParamGroup). Otherwise it is f32.
  Value lr = {};
  Value step = {};   // i64 scalar, 1 in the first step
  double decay = 0;  // the decay of the param's group, or of the rule
  /// The inputs of the step that replace the momentum (or beta1) and the decay (ParamGroup).
  /// Value() means that the rule uses its constants.
  Value momentum = {};
  Value decay_input = {};
  StepScalars* scalars = nullptr;  // of the step, must not be null
  /// A bool scalar that is false if the step must not update anything. Set and Lerp then keep the
  /// old content. Value() means true.
  Value good = {};

  /// Declares and returns a state called "<param>.<suffix>". By default, it has the type of
  /// `param`.
  Value State(std::string_view suffix, Init init = Init::Zeros());
  Value State(std::string_view suffix, const TensorType& type,
              Init init = Init::Zeros());

  /// Assigns `content` to `target` and returns the new content. `target` must be `param` or a
  /// state, and must have the type of `content`. For a split bf16 param, returns the bf16 half of
  /// the new content. Ops that read the old content must be emitted before.
  Value Set(Value target, Value content);
  /// Interpolates in place, state += weight * (x - state), as LerpUpdate does (ir/ops.h). Returns
  /// the new content.
  Value Lerp(Value state, Value x, Value weight);

  /// Returns the learning rate in the element type of the param.
  Value LearningRate() const;

 private:
  friend void EmitUpdate(const UpdateRule& rule, ParamUpdate& update);

  void Note(Value written, Value leaf);

  Value leaf_;                        // the param in the graph
  Value delta_ = {};                  // the low bits, if the param is split
  std::vector<NodeId> writers_ = {};  // nodes emitted by Set and Lerp
};

struct UpdateRule {
  std::string name = {};  // for messages and reports
  /// Emits the update, which must write the param with Set or with an op that updates it in place.
  std::function<void(ParamUpdate&)> update = {};
  double learning_rate = 1e-3;  // the default learning rate
  double decay = 0;             // the weight decay, which `update` must apply
  /// Whether bf16 params are the upper halves of f32 master weights. The rule then updates the
  /// master weight, whose lower 16 bits are a state, "<param>.delta" (math/optimizer.h). Without a
  /// master weight, rounding to bf16 would discard most updates with a small learning rate.
  bool splits_bf16 = false;
};

/// Returns whether the built-in rules support the type of update.param: f32 (which includes split
/// bf16) or f64. Otherwise also records an error in the builder, whose message states `name`, the
/// name of the rule.
bool UpdatesType(const ParamUpdate& update, std::string_view name);

/// Returns kInvalidArgument if the rule has no name or no function, or if its learning rate or
/// decay is negative or not finite.
Status CheckUpdateRule(const UpdateRule& rule);

/// Calls the function of `rule`. Records an error in the builder if the rule does not write the
/// param, or if the step may be skipped and the rule writes with other ops than Set and Lerp.
void EmitUpdate(const UpdateRule& rule, ParamUpdate& update);

// The following built-in rules have less state than Adam, which stores eight bytes for each element
// of an f32 param. They are composed of other ops, so they run on every backend, and their
// intermediate values are planned like all other values. Bytes of state for f32 params:
//
//   optimizer   matrix (R, C)   vector (N)
//   Lion        4 R C           4 N
//   Muon        4 R C           8 N (AdamW)
//   Adafactor   4 (R + C)       4 N
//
// A param with more than two axes, such as filters (O, I, 3, 3), is treated as a matrix. Its rows
// are the indices of the first axis, and its columns are the indices of all other axes. Params may
// be f32, f64 or bf16. A bf16 param is split, which adds a state (UpdateRule::splits_bf16).
//
//   TrainOptions options{.optimizer = Adafactor{}};

/// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms"):
///
///   c = beta1 m + (1 - beta1) g
///   w -= lr (sign(c) + decay w)
///   m = beta2 m + (1 - beta2) g
///
/// Suitable learning rates are 3 to 10 times smaller than for AdamW.
struct Lion {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double decay = 0;
};

/// Adafactor (Shazeer & Stern 2018) in PyTorch's form. For a matrix, only the mean squares of the
/// rows and columns of the gradient are stored:
///
///   b = step^beta2_decay
///   r += b (mean of g^2 over a row - r);  c += b (mean of g^2 over a column - c)
///   v = r c / max(mean r, eps1)                    (matrix)
///   v += b (g^2 - v)                               (vector)
///   u = g / sqrt(max(v, eps1^2))
///   a = max(eps2, rms w) min(lr, 1 / sqrt(step))
///   w -= lr decay w + a u / max(1, rms u / clip)
///
/// r and c are PyTorch's states row_var and col_var.
struct Adafactor {
  double beta2_decay = -0.8;
  /// 0 means the machine epsilon of the param's type.
  double eps1 = 0;
  double eps2 = 1e-3;
  double clip = 1;
  double decay = 0;
  /// If true, the last two axes of a param are a matrix, and each index of the other axes selects a
  /// separate matrix, as in PyTorch.
  bool by_last_axes = false;
};

/// Muon (Jordan et al. 2024) with the scale of Liu et al. 2025, which allows the learning rates of
/// AdamW:
///
///   m += (1 - momentum) (g - m);  u = g + momentum (m - g)
///   u = u / max(norm u, 1e-7)
///   `iterations` times: s = u u^T;  u = a u + b s u + c s^2 u
///   w -= lr decay w + lr 0.2 sqrt(max(R, C)) u
///
/// The iterations (Newton-Schulz, with Jordan's coefficients a, b and c) are computed in the type
/// of w. If R > C, s is u^T u, and u is multiplied by s from the right. Vectors, and embedding
/// tables that a `gather` op reads, are updated by AdamW with beta1, beta2, eps and decay.
struct Muon {
  double momentum = 0.95;
  int iterations = 5;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double decay = 0.1;
};

/// Returns whether Muon orthogonalizes the momentum of `param`, instead of updating it by AdamW.
/// This is the case if `param` has at least two axes and no `gather` op outside of bodies reads its
/// rows. Linear in the number of nodes of the builder's graph.
bool TakesMatrix(Value param);

/// These functions return an optimizer as an update rule. The settings must pass CheckOptimizer.
/// The rule of Muon requires a param for which TakesMatrix returns true.
UpdateRule RuleOf(const Lion& lion);
UpdateRule RuleOf(const Adafactor& adafactor);
UpdateRule RuleOf(const Muon& muon);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_UPDATE_RULE_H_
