#ifndef STOWAGE_AUTODIFF_VJP_H_
#define STOWAGE_AUTODIFF_VJP_H_

// How one op is differentiated: given the gradients of a node's results (the
// cotangents), emit nodes that compute the gradients of its inputs. A rule is a
// vector-Jacobian product written in IR; nothing is computed here.
//
// Every op of ir/ops.def has one Vjp, defined in vjps/<family>.cc as <op>Vjp;
// one that is missing is a link error. What a rule reads through input() or
// output() is what the backward graph keeps, so a rule asks for the type where
// the type is enough, and for the output where that does instead of the input.
//
//   constinit const Vjp ExpVjp = Differentiable([](VjpContext& v) {
//     v.Contribute(0, Mul(v.cotangent(), v.output()));
//   });

#include <optional>
#include <string_view>

#include "autodiff/sweep.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// One node of the forward graph as its rule sees it. Values belong to the
/// backward builder.
class VjpContext {
 public:
  /// All arguments must outlive the context.
  VjpContext(const Graph& forward, const Node& node, ForwardValues* values,
             Cotangents* cotangents, GraphBuilder* builder)
      : forward_(forward),
        node_(node),
        values_(*values),
        cotangents_(*cotangents),
        builder_(*builder) {}

  GraphBuilder& builder() { return builder_; }
  const Graph& forward() const { return forward_; }
  const Node& node() const { return node_; }
  const Attrs& attrs() const { return node_.attrs; }
  int num_inputs() const { return static_cast<int>(node_.inputs.size()); }
  int num_results() const { return static_cast<int>(node_.results.size()); }

  // Types cost nothing.
  const TensorType& input_type(int i) const {
    return forward_.value(input_id(i)).type;
  }
  const TensorType& output_type(int r = 0) const {
    return forward_.value(output_id(r)).type;
  }
  const Shape& input_shape(int i) const { return input_type(i).shape; }
  const Shape& output_shape(int r = 0) const { return output_type(r).shape; }

  // Values: reading one keeps it until backward.
  Value input(int i) { return values_.Read(input_id(i)); }
  Value output(int r = 0) { return values_.Read(output_id(r)); }
  /// Input `i` of a product, likewise (ForwardValues::ReadFactor).
  Value factor(int i) { return values_.ReadFactor(input_id(i)); }

  /// Whether the loss depends on result `r`. At least one result has a
  /// cotangent.
  bool has_cotangent(int r) const {
    return cotangents_.Find(output_id(r)).has_value();
  }
  /// The gradient of result `r`, of that result's type. Precondition:
  /// has_cotangent(r).
  Value cotangent(int r = 0) const { return *cotangents_.Find(output_id(r)); }

  /// Whether a gradient of input `i` is wanted.
  bool needs(int i) const { return cotangents_.wanted(input_id(i)); }
  /// Adds `gradient`, of input i's type, to what input i has so far. Ignored
  /// where needs(i) is false.
  void Contribute(int i, Value gradient) {
    cotangents_.Add(input_id(i), gradient);
  }
  /// What input `i` has so far, taken away from it: for rules that accumulate
  /// onto it and contribute the sum. Nothing if there is none yet.
  std::optional<Value> TakeAccumulated(int i) {
    return cotangents_.Take(input_id(i));
  }

  /// Ends the differentiation with an error that names the node.
  void Refuse(std::string_view reason);

 private:
  ValueId input_id(int i) const { return node_.inputs[static_cast<size_t>(i)]; }
  ValueId output_id(int r) const {
    return node_.results[static_cast<size_t>(r)];
  }

  const Graph& forward_;
  const Node& node_;
  ForwardValues& values_;
  Cotangents& cotangents_;
  GraphBuilder& builder_;
};

/// What there is to know of an op's derivative: a rule, or that it is zero
/// wherever it exists, or why there is none.
struct Vjp {
  using Rule = void (*)(VjpContext&);
  Rule rule = nullptr;
  const char* refusal = nullptr;

  bool is_zero() const { return rule == nullptr && refusal == nullptr; }
};

constexpr Vjp Differentiable(Vjp::Rule rule) { return {.rule = rule}; }

/// The results do not change with small changes of the inputs (comparisons,
/// signs, indices), or there are no inputs: no gradient flows, silently.
#define STOWAGE_ZERO_DERIVATIVE(kind) \
  constinit const Vjp kind##Vjp {}
/// A gradient that has to flow through the op is an error with this reason.
#define STOWAGE_NON_DIFFERENTIABLE(kind, reason) \
  constinit const Vjp kind##Vjp { .rule = nullptr, .refusal = reason }

/// The derivative of an op. One of the program's own that was given none refuses.
const Vjp& GetVjp(OpKind op);

/// Gives the program's own `op` (ir/op_def.h) a derivative: Differentiable(rule),
/// Vjp{} where no gradient flows, or a refusal with its reason. The rule emits
/// nodes, of this library's ops or the program's. Error: `op` is not one that
/// DefineOp gave.
Status DefineVjp(OpKind op, const Vjp& vjp);

#define STOWAGE_OP(kind, name) extern const Vjp kind##Vjp;
#include "ir/ops.def"
#undef STOWAGE_OP

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_VJP_H_
