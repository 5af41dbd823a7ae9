#ifndef STOWAGE_IR_GRAPH_COPY_H_
#define STOWAGE_IR_GRAPH_COPY_H_

// Copies graphs, for linking and for passes. GraphCopy copies nodes to a builder. Rewriter creates
// a graph in which some nodes occur more than once, for recomputation. Reorder changes the order of
// execution. Values keep their names, with the suffix if one is given, unless a name is taken, in
// which case a fresh name is chosen. Nodes keep their phase and origin.
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

/// Declares a leaf with the name, type and source line of `info` and the given role. A param or
/// state also gets its initial content and its memory, host or arena.
Value DeclareLeaf(GraphBuilder& to, const ValueInfo& info, Role role);

class GraphCopy {
 public:
  /// Prepares to copy `from` to the builder `to`. Both must outlive this object. `suffix` is
  /// appended to the names of the nodes' results.
  GraphCopy(const Graph& from, GraphBuilder* to, std::string suffix = {})
      : from_(from),
        to_(*to),
        suffix_(std::move(suffix)),
        values_(static_cast<size_t>(from.num_values())) {}

  /// Maps the value `id` of the graph to `value` of the builder.
  void Map(ValueId id, Value value) {
    values_[static_cast<size_t>(id)] = value;
  }
  /// Returns the value to which `id` is mapped. It is inert before `id` is mapped, declared or
  /// copied.
  Value operator[](ValueId id) const {
    return values_[static_cast<size_t>(id)];
  }

  /// Declares the leaf `id`.
  void DeclareLeaf(ValueId id);
  /// Declares all leaves that have not been mapped.
  void DeclareLeaves();
  /// Appends a copy of node `id`. All its inputs must be mapped.
  void CopyNode(NodeId id) { CopyNode(id, from_.node(id).attrs); }
  /// Appends a copy of node `id` with other attributes.
  void CopyNode(NodeId id, const Attrs& attrs);
  /// Sets the origin of all nodes that are copied from now on.
  void UseOrigin(std::string origin) { origin_ = std::move(origin); }
  /// Sets the builder's phase, origin and source line for later nodes to the ones of node `id`, or
  /// to the origin of UseOrigin.
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

/// The suffix of the names of recomputed values. A number may follow it.
inline constexpr std::string_view kRunAgainSuffix = "~recomputed";

/// Builds a new graph from the nodes of another, each of which may occur more than once. The
/// results of the first copy of a node keep their names, and the results of further copies get
/// fresh names. A copy may read other operands than the original, of the same types.
class Rewriter {
 public:
  /// Declares the leaves of `from`, which must outlive this object.
  explicit Rewriter(const Graph& from);

  /// Returns the new value of a leaf of the old graph.
  Value leaf(ValueId id) const { return first_[static_cast<size_t>(id)]; }

  /// Appends a copy of node `id` of the old graph that reads `operands`. The copy keeps the phase
  /// and origin. Returns its results, which are inert after an error.
  std::vector<Value> Run(NodeId id, std::span<const Value> operands);

  /// Declares the old graph's outputs, each as the result of the first copy of its node, and
  /// returns the verified graph or the first error. The nodes that compute outputs must have been
  /// copied. Linear in the size of the graph.
  Result<Graph> Finish();

 private:
  std::string FreshName(const std::string& of);

  const Graph& from_;
  GraphBuilder to_;
  std::vector<Value> first_;  // by id in from_: the leaf, or the first copy
};

/// Returns `graph` with its nodes in the execution order `order`. Results are the same, bit for
/// bit, but lifetimes change. Values keep their names, types, roles and layouts, and nodes keep
/// their attributes, phases and origins. Leaves come first and keep their order. Returns
/// kInvalidArgument if `order` is not a permutation of the nodes, or if a node would run before a
/// producer of its operands or after an update that overwrites an operand. Linear in the numbers of
/// nodes and operands.
Result<Graph> Reorder(const Graph& graph, std::span<const NodeId> order);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_COPY_H_
