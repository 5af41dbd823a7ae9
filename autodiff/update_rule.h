#ifndef STOWAGE_AUTODIFF_UPDATE_RULE_H_
#define STOWAGE_AUTODIFF_UPDATE_RULE_H_

// An update rule of a program's own: how a param follows from its gradient, written
// in ops. It is emitted once for each param, and its states lie in the arena like
// any optimizer's.
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
// A rule that is one op, with `updates` in its definition, saves the copy that Set
// is: ir/op_def.h. It cannot be skipped (autodiff/train_step.h), as what is written
// by Set and Lerp can.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

struct UpdateRule;

/// One param as a rule sees it.
class ParamUpdate {
 public:
  ParamUpdate(Value of, Value by) : param(of), gradient(by), leaf_(of) {}
  /// Of a bf16 param in two parts, of which `delta` is the other one, by an f32.
  ParamUpdate(Value of, Value delta, Value by);

  const Value param;     // in f32, if it is in two parts
  const Value gradient;  // of the same type; clipped, if the step clips
  Value lr = {};         // f32 scalar, times the lr_scale of the param's group
  Value step = {};       // i64 scalar, 1 at the first step
  double decay = 0;      // of the param's group, or the rule's
  /// Bool scalar: whether the step is to update anything; Value() where it is, come what
  /// may. Set and Lerp heed it.
  Value good = {};

  /// A state called "<param>.<suffix>", of the param's type unless one is given.
  Value State(std::string_view suffix, Init init = Init::Zeros());
  Value State(std::string_view suffix, const TensorType& type,
              Init init = Init::Zeros());

  /// Makes `content`, of the same type, the new content of the param or of a
  /// state. What reads the old one comes before.
  void Set(Value target, Value content);
  /// Moves a state towards `x` by `weight`, as LerpUpdate does (ir/ops.h), and returns
  /// its new content.
  Value Lerp(Value state, Value x, Value weight);

  /// The learning rate in the param's element type, which formulas are in.
  Value LearningRate() const;

 private:
  friend void EmitUpdate(const UpdateRule& rule, ParamUpdate& update);

  void Note(Value written, Value leaf);

  Value leaf_;                        // of the graph
  Value delta_ = {};                  // likewise, if the param is in two parts
  std::vector<NodeId> writers_ = {};  // of Set and Lerp
};

struct UpdateRule {
  std::string name = {};  // for messages and reports
  /// Emits the update; it must write the param.
  std::function<void(ParamUpdate&)> update = {};
  double learning_rate = 1e-3;  // to start from
  double decay = 0;             // what `update` makes of it
  /// Whether a bf16 param is the upper part of an f32 one, which the rule is given, and
  /// whose other 16 bits are a state, "<param>.delta" (math/optimizer.h). In bf16
  /// most of what a small learning rate changes would be lost by rounding.
  bool splits_bf16 = false;
};

/// Error kInvalidArgument: no name, no function, a learning rate or decay that is
/// not finite or below 0.
Status CheckUpdateRule(const UpdateRule& rule);

/// Runs the rule. A rule that does not write the param is an error of the builder, and so
/// is one that writes otherwise than by Set and Lerp where the step may be skipped.
void EmitUpdate(const UpdateRule& rule, ParamUpdate& update);

// Optimizers that keep less than Adam's eight bytes of states for a param's four, made
// of other ops, so that they run wherever these do and the planner places what they need
// in between, as anything else of a step:
//
//   optimizer   states of a matrix (R, C)          of a vector (N)
//   Lion        4 R C bytes                        4 N
//   Muon        4 R C                              8 N (AdamW)
//   Adafactor   4 (R + C)                          4 N
//
// Params of more than two axes, such as filters (O, I, 3, 3), count as matrices of their
// first axis and the rest. Params are f32 or f64, or bf16 as the upper part of an f32 that
// these compute with, whose other 16 bits are a state more (UpdateRule::splits_bf16).
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

/// Shazeer & Stern 2018, "Adafactor", in PyTorch's form. Of a matrix's mean squares
/// only those of rows and columns are kept:
/// b = step^beta2_decay;  r += b (mean of g^2 over a row - r);
/// c += b (mean of g^2 over a column - c);  v = r c / max(mean r, eps1); of a vector
/// v += b (g^2 - v). u = g / sqrt(max(v, eps1^2));
/// a = max(eps2, rms w) min(lr, 1 / sqrt(step));
/// w -= lr decay w + a u / max(1, rms u / clip). eps1 is the machine epsilon of w's
/// type. r and c are the states row_var and col_var, as PyTorch calls them.
struct Adafactor {
  double beta2_decay = -0.8;
  double eps2 = 1e-3;
  double clip = 1;
  double decay = 0;
};

/// Jordan et al. 2024, "Muon", with the scale of Liu et al. 2025, by which AdamW's
/// learning rates serve: m += (1 - momentum) (g - m);  u = g + momentum (m - g);
/// u = u / max(norm u, 1e-7), then `iterations` times u = a u + b s u + c s^2 u for
/// s = u u^T (or its mirror image where R > C);
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

/// Whether Muon makes the param's momentum orthogonal: it is a matrix, or counts as one,
/// and no table of which rows are taken. Linear in the nodes of its graph.
bool TakesMatrix(Value param);

/// As rules; that of Muon for params that TakesMatrix. Preconditions: constants in range.
UpdateRule RuleOf(const Lion& lion);
UpdateRule RuleOf(const Adafactor& adafactor);
UpdateRule RuleOf(const Muon& muon);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_UPDATE_RULE_H_
