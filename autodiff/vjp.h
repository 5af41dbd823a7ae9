#ifndef STOWAGE_AUTODIFF_VJP_H_
#define STOWAGE_AUTODIFF_VJP_H_

// Defines the derivatives of ops, and the sweep that applies them to a whole graph or to the body
// of a loop (reverse-mode differentiation).
//
// The derivative of an op is a rule that emits a vector-Jacobian product (VJP): given the gradients
// of a node's results (the cotangents), the rule emits nodes that compute the gradients of the
// inputs. Every op of ir/ops.def has one Vjp, defined in vjps/<family>.cc as <op>Vjp. A missing Vjp
// is a link error. The values that a rule reads with input() or output() become saved tensors. A
// rule should therefore read only the type of a value if that is sufficient, and should read the
// output instead of the input if either can be used.
//
//   constinit const Vjp ExpVjp = Differentiable([](VjpContext& v) {
//     v.Contribute(0, Mul(v.cotangent(), v.output()));
//   });
//
// The sweep visits the nodes in reverse order, so that all readers of a node's results have
// contributed to their gradients when the node is visited:
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

/// The gradients of forward values during the sweep. A gradient is accumulated only for values that
/// are marked as wanted. Contributions to other values are ignored, so rules need not check.
class Cotangents {
 public:
  /// Marks no value as wanted. `forward` must outlive this object.
  explicit Cotangents(const Graph& forward)
      : forward_(forward),
        wanted_(static_cast<size_t>(forward.num_values()), false),
        sums_(static_cast<size_t>(forward.num_values())) {}

  /// Marks value `id` as wanted.
  void Want(ValueId id) { wanted_[static_cast<size_t>(id)] = true; }
  bool wanted(ValueId id) const { return wanted_[static_cast<size_t>(id)]; }

  /// Adds `gradient`, which must have the value's type, to the gradient of value `id`. Each
  /// contribution after the first one emits an `add`.
  void Add(ValueId id, Value gradient);

  /// Returns the sum so far, or nullopt before the first contribution.
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

/// Provides forward values to a backward graph, in one of these forms:
/// - A leaf of the forward graph is a leaf with the same role and name, or with the role saved if
///   the forward graph overwrites it.
/// - Views are rebuilt from their roots, and fills, iotas and constants are emitted a second time,
///   so none of them is saved.
/// - A value that only a concatenation reads is a slice of the concatenation's result, if the
///   backward graph has already read that result, and if the result has at most 1/16 of the bytes
///   of all forward results.
/// - Every other value is a leaf with the role saved.
class ForwardValues {
 public:
  /// Declares a leaf in `backward` for every value of `forward`, except values that are rebuilt or
  /// emitted a second time. Leaves of `forward` come first, followed by its results in order. This
  /// reserves their names. The caller must remove unread leaves. Both arguments must outlive this
  /// object.
  ForwardValues(const Graph& forward, GraphBuilder* backward);

  /// Returns the value of the backward graph that equals value `id` of the forward graph.
  Value Read(ValueId id);

  /// Returns the same value as Read, except for rounding, for a rule that multiplies by it. This
  /// function does not save the result of a layer norm without scale and shift, or a view of it
  /// such as the result of a group norm, if only multiplications, additions and subtractions read
  /// the result. Instead, it recomputes the result as (x - mean) / deviation, from values that the
  /// norm's own rule saves.
  Value ReadFactor(ValueId id);

  /// Starts the reads of the next forward node. A fill or iota of more than one element is emitted
  /// separately for each node that reads it, so that it is not live between these nodes.
  void BeginNode();

 private:
  std::optional<Value> Normalized(ValueId id);
  std::optional<Value> InConcat(ValueId id);

  const Graph& forward_;
  GraphBuilder& backward_;
  // These are indexed by the id of the forward value.
  std::vector<std::optional<Value>> values_;
  std::vector<bool> is_factor_;  // whether ReadFactor may recompute it
  std::vector<NodeId> concat_;   // its only reader, a concat, or kNoNode
  std::vector<bool> was_read_;

  std::vector<ValueId> of_this_node_;  // fills of this node and their views
};

/// A node of the forward graph and its gradients, as the rule of its op sees them. Values belong to
/// the builder of the backward graph.
class VjpContext {
 public:
  /// All arguments must outlive this object.
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

  // The following functions return types. Reading a type does not save the value.
  const TensorType& input_type(int i) const {
    return forward_.value(input_id(i)).type;
  }
  const TensorType& output_type(int r = 0) const {
    return forward_.value(output_id(r)).type;
  }
  const Shape& input_shape(int i) const { return input_type(i).shape; }
  const Shape& output_shape(int r = 0) const { return output_type(r).shape; }

  // The following functions return values. Reading a value saves it until the backward pass.
  Value input(int i) { return values_.Read(input_id(i)); }
  Value output(int r = 0) { return values_.Read(output_id(r)); }
  /// Returns input `i` for a rule that multiplies by it (ForwardValues::ReadFactor).
  Value factor(int i) { return values_.ReadFactor(input_id(i)); }

  /// Returns whether the loss depends on result `r`. At least one result has a cotangent.
  bool has_cotangent(int r) const {
    return cotangents_.Find(output_id(r)).has_value();
  }
  /// Returns the gradient of result `r`, which has the type of the result. Requires
  /// has_cotangent(r).
  Value cotangent(int r = 0) const { return *cotangents_.Find(output_id(r)); }

  /// Returns whether the gradient of input `i` is wanted.
  bool needs(int i) const { return cotangents_.wanted(input_id(i)); }
  /// Adds `gradient`, which must have the type of input `i`, to the gradient of input `i`. Does
  /// nothing unless needs(i).
  void Contribute(int i, Value gradient) {
    cotangents_.Add(input_id(i), gradient);
  }
  /// Removes and returns the gradient of input `i` so far, or returns nullopt if there is none.
  /// Rules that accumulate in place call this function and then contribute the sum.
  std::optional<Value> TakeAccumulated(int i) {
    return cotangents_.Take(input_id(i));
  }

  /// Stops the differentiation with a kUnsupported error that names the node.
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

/// The derivative of an op: a rule, or the reason why the op is not differentiable. If both are
/// null, the derivative is zero wherever it exists.
struct Vjp {
  using Rule = void (*)(VjpContext&);
  Rule rule = nullptr;
  const char* refusal = nullptr;  // the reason, for error messages

  bool is_zero() const { return rule == nullptr && refusal == nullptr; }
};

constexpr Vjp Differentiable(Vjp::Rule rule) { return {.rule = rule}; }

/// Defines the derivative of an op as zero, for comparisons, signs, indices and ops without inputs.
#define STOWAGE_ZERO_DERIVATIVE(kind) \
  constinit const Vjp kind##Vjp {}
/// Defines an op as not differentiable. A gradient that flows through the op is an error, whose
/// message states `reason`.
#define STOWAGE_NON_DIFFERENTIABLE(kind, reason) \
  constinit const Vjp kind##Vjp { .rule = nullptr, .refusal = reason }

/// Returns the derivative of an op. A custom op is not differentiable until DefineVjp is called for
/// it.
const Vjp& GetVjp(OpKind op);

/// Defines the derivative of `op`, a custom op that DefineOp (ir/op_def.h) has returned. `vjp` is
/// Differentiable(rule), Vjp{} if the derivative is zero, or Vjp{.refusal = reason} if the op is
/// not differentiable. The rule may emit any op, but each gradient that it contributes must have
/// the type of the input. Returns kInvalidArgument if DefineOp has not returned `op`.
Status DefineVjp(OpKind op, const Vjp& vjp);

/// Returns "grad:" + name.
std::string GradientName(std::string_view name);

/// Marks as wanted every float value that depends on a wanted value through ops whose derivative is
/// not zero.
void WantAllThatDepends(const Graph& forward, Cotangents* cotangents);

/// Gives `gradient` the role gradient and the name GradientName(of.name). Does nothing if it is a
/// leaf or already has the role gradient, because one value can be the gradient of several values.
void NameGradient(const ValueInfo& of, Value gradient, GraphBuilder* g);

/// Applies the rules of all nodes whose results have a cotangent, in reverse order, so that all
/// wanted values on which these results depend have cotangents, too. Errors are recorded in `g`.
/// Linear in the number of nodes.
void Sweep(const Graph& forward, ForwardValues* values, Cotangents* cotangents,
           GraphBuilder* g);

#define STOWAGE_OP(kind, name) extern const Vjp kind##Vjp;
#include "ir/ops.def"
#undef STOWAGE_OP

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_VJP_H_
