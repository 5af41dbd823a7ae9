#ifndef STOWAGE_AUTODIFF_VJP_H_
#define STOWAGE_AUTODIFF_VJP_H_

// Reverse-mode differentiation of a graph's nodes: the rule of each op and the sweep that
// applies the rules to a whole graph or to the body of a loop.
//
// A rule is a vector-Jacobian product written in IR: given the gradients of a node's
// results (the cotangents), it emits nodes that compute the gradients of its inputs. Every
// op of ir/ops.def has one Vjp, defined in vjps/<family>.cc as <op>Vjp; a missing one is a
// link error. The backward graph keeps what a rule reads through input() or output(), so a
// rule reads the type where the type is enough, and the output where it serves as well as
// the input.
//
//   constinit const Vjp ExpVjp = Differentiable([](VjpContext& v) {
//     v.Contribute(0, Mul(v.cotangent(), v.output()));
//   });
//
// The sweep visits nodes last first, when all readers of their results have contributed:
//
//   Cotangents cotangents(forward);
//   cotangents.Want(w);
//   WantAllThatDepends(forward, &cotangents);
//   cotangents.Add(loss, seed);
//   Sweep(forward, &values, &cotangents, &g);
//   cotangents.Find(w);  // the gradient

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// The gradients of forward values during the sweep. Contributions to values through which
/// no requested gradient passes are dropped, so that rules need not check.
class Cotangents {
 public:
  /// Nothing is wanted yet. `forward` must outlive this.
  explicit Cotangents(const Graph& forward)
      : forward_(forward),
        wanted_(static_cast<size_t>(forward.num_values()), false),
        sums_(static_cast<size_t>(forward.num_values())) {}

  void Want(ValueId id) { wanted_[static_cast<size_t>(id)] = true; }
  bool wanted(ValueId id) const { return wanted_[static_cast<size_t>(id)]; }

  /// Adds `gradient`, of the value's type, to the sum; emits an `add` from the second
  /// contribution on.
  void Add(ValueId id, Value gradient);

  /// The sum so far; nothing before the first contribution.
  std::optional<Value> Find(ValueId id) const {
    return sums_[static_cast<size_t>(id)];
  }
  /// Removes and returns the sum so far.
  std::optional<Value> Take(ValueId id) {
    return std::exchange(sums_[static_cast<size_t>(id)], std::nullopt);
  }

 private:
  const Graph& forward_;
  std::vector<bool> wanted_;
  std::vector<std::optional<Value>> sums_;
};

/// Forward values as a backward graph reads them. Leaves of the forward graph keep their
/// roles and names unless forward overwrites them. Views are taken again from their roots
/// and fills and constants emitted again, so that none of them is saved. A value that only
/// a concatenation reads is a slice of its result if backward has read that before and it
/// is a small part of all forward values. Every other value is a leaf of role saved.
class ForwardValues {
 public:
  /// Declares a leaf in `backward` for every value of `forward` that could be read, leaves
  /// first, then results in order, so that new names differ from theirs; the caller drops
  /// unread leaves. Both must outlive this.
  ForwardValues(const Graph& forward, GraphBuilder* backward);

  /// The value `id` of the forward graph, in the backward graph.
  Value Read(ValueId id);

  /// Read up to rounding, for a rule that multiplies by the value. The result of a layer
  /// norm without scale and shift, or of a group norm as a view of one, is not saved if only
  /// multiplications read it: it is computed as (x - mean) / deviation from the operands
  /// that its own rule saves.
  Value ReadFactor(ValueId id);

  /// Starts the reads of another forward node. A fill of more than one element is emitted
  /// again for each node that reads it, so that it is not live in between.
  void BeginNode();

 private:
  std::optional<Value> Normalized(ValueId id);
  std::optional<Value> InConcat(ValueId id);

  const Graph& forward_;
  GraphBuilder& backward_;
  std::vector<std::optional<Value>> values_;  // by forward id
  // By forward id: whether only rules of multiplications read it.
  std::vector<bool> is_factor_;
  std::vector<NodeId> concat_;  // its only reader, or kNoNode
  std::vector<bool> was_read_;
  std::vector<ValueId> of_this_node_;  // fills and their views
};

/// One node of the forward graph and its gradients, for a rule. Values belong to the
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

  // Reading a type saves nothing.
  const TensorType& input_type(int i) const {
    return forward_.value(input_id(i)).type;
  }
  const TensorType& output_type(int r = 0) const {
    return forward_.value(output_id(r)).type;
  }
  const Shape& input_shape(int i) const { return input_type(i).shape; }
  const Shape& output_shape(int r = 0) const { return output_type(r).shape; }

  // Reading a value saves it until backward.
  Value input(int i) { return values_.Read(input_id(i)); }
  Value output(int r = 0) { return values_.Read(output_id(r)); }
  /// Input `i` of a multiplication (ForwardValues::ReadFactor).
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
  /// Adds `gradient`, of input i's type, to the gradient of input i. Ignored unless
  /// needs(i).
  void Contribute(int i, Value gradient) {
    cotangents_.Add(input_id(i), gradient);
  }
  /// Removes and returns the gradient of input `i` so far, for rules that accumulate onto it
  /// and contribute the sum. Nothing if there is none yet.
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

/// The derivative of an op: a rule, zero wherever it exists, or the reason why there is none.
struct Vjp {
  using Rule = void (*)(VjpContext&);
  Rule rule = nullptr;
  const char* refusal = nullptr;

  bool is_zero() const { return rule == nullptr && refusal == nullptr; }
};

constexpr Vjp Differentiable(Vjp::Rule rule) { return {.rule = rule}; }

/// The derivative is zero (comparisons, signs, indices), or there are no inputs.
#define STOWAGE_ZERO_DERIVATIVE(kind) \
  constinit const Vjp kind##Vjp {}
/// A gradient that would flow through the op is an error with this reason.
#define STOWAGE_NON_DIFFERENTIABLE(kind, reason) \
  constinit const Vjp kind##Vjp { .rule = nullptr, .refusal = reason }

/// The derivative of an op; a refusal for an op of the program without one.
const Vjp& GetVjp(OpKind op);

/// Defines the derivative of `op`, which DefineOp (ir/op_def.h) has returned:
/// Differentiable(rule), Vjp{} if no gradient flows, or a refusal with its reason. The rule
/// may emit any op. Error: `op` is not from DefineOp.
Status DefineVjp(OpKind op, const Vjp& vjp);

/// "grad:" + name.
std::string GradientName(std::string_view name);

/// Marks as wanted every value that depends on a wanted one.
void WantAllThatDepends(const Graph& forward, Cotangents* cotangents);

/// Names `gradient` as the gradient of `of`, unless it is a leaf or has such a name already
/// (one value can be the gradient of several).
void NameGradient(const ValueInfo& of, Value gradient, GraphBuilder* g);

/// Emits the gradients of every node between the values with a cotangent and the wanted
/// ones, last node first. Linear in the nodes.
void Sweep(const Graph& forward, ForwardValues* values, Cotangents* cotangents,
           GraphBuilder* g);

#define STOWAGE_OP(kind, name) extern const Vjp kind##Vjp;
#include "ir/ops.def"
#undef STOWAGE_OP

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_VJP_H_
