#ifndef STOWAGE_AUTODIFF_UPDATE_RULE_H_
#define STOWAGE_AUTODIFF_UPDATE_RULE_H_

// Update rules written in ops: a program's own, and the built-in Lion, Adafactor and Muon. A
// rule is emitted once for each param, and its states are in the arena like any optimizer's.
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
// A rule that is one op, with `updates` in its definition (ir/op_def.h), needs no copy by Set,
// but cannot be skipped (LossScaling, autodiff/train_step.h), as Set and Lerp can.

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

/// One param, for a rule.
class ParamUpdate {
 public:
  ParamUpdate(Value of, Value by) : param(of), gradient(by), leaf_(of) {}
  /// For a bf16 param whose f32 master weight `of` and `delta` hold; `by` is f32.
  ParamUpdate(Value of, Value delta, Value by);

  const Value param;     // in f32, if it is split
  const Value gradient;  // of the same type, after clipping
  /// Scalar of the param's group: f64 for an f64 param whose group has an input for it
  /// (ParamGroup), else f32.
  Value lr = {};
  Value step = {};   // i64 scalar, 1 at the first step
  double decay = 0;  // of the param's group, else the rule's
  /// The inputs of the step that replace the momentum, or beta1, and the decay (ParamGroup);
  /// Value(): the rule has constants.
  Value momentum = {};
  Value decay_input = {};
  StepScalars* scalars = nullptr;  // of the step; not null
  /// Bool scalar: whether the step updates anything, which Set and Lerp observe; Value():
  /// always true.
  Value good = {};

  /// A state called "<param>.<suffix>", of the param's type unless one is given.
  Value State(std::string_view suffix, Init init = Init::Zeros());
  Value State(std::string_view suffix, const TensorType& type,
              Init init = Init::Zeros());

  /// Makes `content`, of the same type, the new content of the param or of a state. All reads
  /// of the old content must come before. Returns the new content.
  Value Set(Value target, Value content);
  /// Moves a state towards `x` by `weight`, as LerpUpdate does (ir/ops.h), and returns
  /// its new content.
  Value Lerp(Value state, Value x, Value weight);

  /// The learning rate in the param's element type.
  Value LearningRate() const;

 private:
  friend void EmitUpdate(const UpdateRule& rule, ParamUpdate& update);

  void Note(Value written, Value leaf);

  Value leaf_;                        // of the graph
  Value delta_ = {};                  // of the graph, if the param is split
  std::vector<NodeId> writers_ = {};  // of Set and Lerp
};

struct UpdateRule {
  std::string name = {};  // for messages and reports
  /// Emits the update; it must write the param.
  std::function<void(ParamUpdate&)> update = {};
  double learning_rate = 1e-3;  // the default
  double decay = 0;             // for `update` to apply
  /// Whether a bf16 param is the upper half of an f32 master weight, which the rule updates and
  /// whose lower 16 bits are a state, "<param>.delta" (math/optimizer.h). In bf16 alone, most
  /// updates of a small learning rate would be lost by rounding.
  bool splits_bf16 = false;
};

/// Whether the param is of a type that rules composed of ops update, f32, bf16 or f64; else an
/// error of the builder, for the rule called `name`.
bool UpdatesType(const ParamUpdate& update, std::string_view name);

/// Error kInvalidArgument: no name, no function, a learning rate or decay that is
/// not finite or below 0.
Status CheckUpdateRule(const UpdateRule& rule);

/// Runs the rule. Errors of the builder: a rule that does not write the param, or that writes
/// other than by Set and Lerp in a step that may be skipped.
void EmitUpdate(const UpdateRule& rule, ParamUpdate& update);

// Built-in rules with fewer states than Adam, which has eight bytes for each f32 param. They
// are composed of other ops, so that they run on every backend and their intermediate values
// are planned like any others:
//
//   optimizer   states of a matrix (R, C)          of a vector (N)
//   Lion        4 R C bytes                        4 N
//   Muon        4 R C                              8 N (AdamW)
//   Adafactor   4 (R + C)                          4 N
//
// Params of more than two axes, such as filters (O, I, 3, 3), count as matrices of the first
// axis and the rest. Params are f32, f64 or, with one more state, split bf16
// (UpdateRule::splits_bf16).
//
//   TrainOptions options{.optimizer = Adafactor{}};

/// Chen et al. 2023, "Symbolic discovery of optimization algorithms":
/// c = beta1 m + (1 - beta1) g;  w -= lr (sign(c) + decay w);
/// m = beta2 m + (1 - beta2) g. Learning rates are 3 to 10 times below AdamW's.
struct Lion {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double decay = 0;
};

/// Shazeer & Stern 2018, "Adafactor", in PyTorch's form. For a matrix, only the mean squares of
/// rows and columns are kept:
/// b = step^beta2_decay;  r += b (mean of g^2 over a row - r);
/// c += b (mean of g^2 over a column - c);  v = r c / max(mean r, eps1); of a vector
/// v += b (g^2 - v). u = g / sqrt(max(v, eps1^2));
/// a = max(eps2, rms w) min(lr, 1 / sqrt(step));
/// w -= lr decay w + a u / max(1, rms u / clip). eps1 is the machine epsilon of w's
/// type, or as given. r and c are PyTorch's states row_var and col_var.
struct Adafactor {
  double beta2_decay = -0.8;
  double eps1 = 0;  // 0: the machine epsilon
  double eps2 = 1e-3;
  double clip = 1;
  double decay = 0;
  /// Matrices are the last two axes, as in PyTorch, one for each index of the axes before.
  bool by_last_axes = false;
};

/// Jordan et al. 2024, "Muon", with the scale of Liu et al. 2025, which allows AdamW's
/// learning rates: m += (1 - momentum) (g - m);  u = g + momentum (m - g);
/// u = u / max(norm u, 1e-7), then `iterations` times u = a u + b s u + c s^2 u for
/// s = u u^T (or transposed if R > C);
/// w -= lr decay w + lr 0.2 sqrt(max(R, C)) u. The Newton-Schulz steps are in w's type.
/// Vectors, and tables of which an op `gather` takes rows, are AdamW's, with beta1,
/// beta2 and eps.
struct Muon {
  double momentum = 0.95;
  int iterations = 5;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double decay = 0.1;
};

/// Whether Muon orthogonalizes the param's momentum: it is a matrix, or counts as one, and no
/// table of which an op `gather` takes rows. Linear in the nodes of its graph.
bool TakesMatrix(Value param);

/// The optimizers as rules; Muon's is for params that TakesMatrix. Preconditions: constants in
/// range.
UpdateRule RuleOf(const Lion& lion);
UpdateRule RuleOf(const Adafactor& adafactor);
UpdateRule RuleOf(const Muon& muon);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_UPDATE_RULE_H_
