#ifndef STOWAGE_IR_GRAPH_COPY_H_
#define STOWAGE_IR_GRAPH_COPY_H_

// Copies graphs, for linking and for passes. GraphCopy copies nodes to a builder. Rewriter creates
// a graph in which some nodes occur more than once, for recomputation. Reorder changes the order of
// execution. Copied nodes keep their phases and origins.
//
//   GraphCopy copy(forward, &g);
//   for (ValueId id : forward.Leaves(Role::kParam)) copy.DeclareLeaf(id);
//   copy.CopyNode(0);
//
//   Rewriter to(graph);
//   std::vector<Value> y = to.Run(0, {to.leaf(x)});
//   std::vector<Value> again = to.Run(0, {to.leaf(x)});  // "y~recomputed"
//   Result<Graph> rewritten = to.Finish();
//
//   const NodeId order[] = {1, 0, 2};
//   Result<Graph> other = Reorder(graph, order);

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

/// Declares a leaf with the name, type and source line of `info`, and with `role`. If `role` is
/// kParam or kState, the leaf also has the initial content and the memory (host or arena) of
/// `info`.
Value DeclareLeaf(GraphBuilder& to, const ValueInfo& info, Role role);

/// Copies leaves, nodes and outputs of a graph to a builder. Leaves keep their names, which must be
/// new in the builder. A result keeps its name, with the suffix of the constructor, unless the
/// builder already has that name. The builder then chooses a fresh name.
class GraphCopy {
 public:
  /// Prepares to copy `from` to the builder `to`. Both must outlive this object. `suffix` is
  /// appended to the names of results.
  GraphCopy(const Graph& from, GraphBuilder* to, std::string suffix = {})
      : from_(from),
        to_(*to),
        suffix_(std::move(suffix)),
        values_(static_cast<size_t>(from.num_values())) {}

  /// Maps the graph's value `id` to the builder's value `value`. Copied nodes then read `value`
  /// instead of `id`.
  void Map(ValueId id, Value value) {
    values_[static_cast<size_t>(id)] = value;
  }
  /// Returns the builder's value for `id`. The value is inert until `id` is mapped or declared, or
  /// its producer is copied.
  Value operator[](ValueId id) const {
    return values_[static_cast<size_t>(id)];
  }

  /// Declares the leaf `id` in the builder, and maps it.
  void DeclareLeaf(ValueId id);
  /// Declares all leaves that have not been mapped.
  void DeclareLeaves();
  /// Appends a copy of node `id`, and maps its results. All inputs of the node must be mapped.
  void CopyNode(NodeId id) { CopyNode(id, from_.node(id).attrs); }
  /// Appends a copy of node `id` with other attributes.
  void CopyNode(NodeId id, const Attrs& attrs);
  /// Gives all nodes that are copied from now on the origin `origin` instead of their own.
  void UseOrigin(std::string origin) { origin_ = std::move(origin); }
  /// Sets the builder's phase, origin and source line for later nodes to the phase, origin and
  /// source line of node `id`. After UseOrigin, its origin is used instead of the node's.
  void SetOrigin(NodeId id);
  /// Declares the graph's outputs, whose nodes must have been copied.
  void DeclareOutputs();

 private:
  const Graph& from_;
  GraphBuilder& to_;
  const std::string suffix_;
  std::optional<std::string> origin_;
  std::vector<Value> values_;  // by id in from_
};

/// The suffix of the names of recomputed values. For further recomputations of the same value, it
/// is followed by a number.
inline constexpr std::string_view kRunAgainSuffix = "~recomputed";

/// Builds a new graph from the nodes of another graph, each of which may occur more than once. The
/// results of the first copy of a node keep their names, and the results of further copies get
/// fresh names with the suffix kRunAgainSuffix. A copy may read other operands than the original,
/// but they must have the same types.
class Rewriter {
 public:
  /// Declares the leaves of `from`, which must outlive this object.
  explicit Rewriter(const Graph& from);

  /// Returns the new graph's value for the leaf `id` of the old graph.
  Value leaf(ValueId id) const { return first_[static_cast<size_t>(id)]; }

  /// Appends a copy of node `id` of the old graph that reads `operands`. The copy keeps the phase
  /// and origin. Returns its results, which are inert after an error.
  std::vector<Value> Run(NodeId id, std::span<const Value> operands);

  /// Declares the old graph's outputs. Each is a leaf or a result of the first copy of its node,
  /// which must exist. Returns the verified graph, or the first error. Linear in the size of the
  /// graph.
  Result<Graph> Finish();

 private:
  std::string FreshName(const std::string& of);

  const Graph& from_;
  GraphBuilder to_;
  std::vector<Value> first_;  // by id in from_: the leaf, or the first copy
};

/// Returns `graph` with its nodes in the execution order `order`. The graph computes the same
/// results, bit for bit, but lifetimes change. Values keep their names, types, roles and layouts,
/// and nodes keep their attributes, phases and origins. Leaves precede all results and keep their
/// order. Returns kInvalidArgument if `order` is not a permutation of the nodes, or if a node would
/// run before a producer of its operands or after an update that overwrites an operand. Linear in
/// the numbers of nodes and operands.
Result<Graph> Reorder(const Graph& graph, std::span<const NodeId> order);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_COPY_H_
