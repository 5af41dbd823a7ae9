#ifndef STOWAGE_IR_GRAPH_COPY_H_
#define STOWAGE_IR_GRAPH_COPY_H_

// Copies of a graph: into a builder, as linking and passes do (GraphCopy), with nodes run more
// than once, as recomputation does (Rewriter), and in another order (Reorder). Values keep
// their names, with a suffix if one is given, if these are free and get fresh ones
// otherwise; nodes keep their phase and origin.
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

/// Declares a leaf with `info`'s name, type and init, in the given leaf role.
Value DeclareLeaf(GraphBuilder& to, const ValueInfo& info, Role role);

class GraphCopy {
 public:
  /// Both must outlive this. `suffix` is added to the names of the nodes' results.
  GraphCopy(const Graph& from, GraphBuilder* to, std::string suffix = {})
      : from_(from),
        to_(*to),
        suffix_(std::move(suffix)),
        values_(static_cast<size_t>(from.num_values())) {}

  /// Maps the value `id` of the graph to `value` of the builder.
  void Map(ValueId id, Value value) {
    values_[static_cast<size_t>(id)] = value;
  }
  /// The value to which `id` is mapped; inert before it is mapped, declared or copied.
  Value operator[](ValueId id) const {
    return values_[static_cast<size_t>(id)];
  }

  /// Declares the leaf `id`.
  void DeclareLeaf(ValueId id);
  /// Declares all leaves that have not been mapped.
  void DeclareLeaves();
  /// Appends node `id`. Precondition: all its inputs are mapped.
  void CopyNode(NodeId id) { CopyNode(id, from_.node(id).attrs); }
  /// Likewise, with other attributes.
  void CopyNode(NodeId id, const Attrs& attrs);
  /// Gives this origin to the nodes that are copied from here on.
  void UseOrigin(std::string origin) { origin_ = std::move(origin); }
  /// Gives the phase, origin and source line of node `id` to the nodes that follow.
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

/// The suffix of the names of results of a further run, perhaps followed by a number.
inline constexpr std::string_view kRunAgainSuffix = "~recomputed";

/// Runs nodes of a graph into a new one, some of them more than once. The first run of a node
/// keeps its names; a further run gives its results fresh ones. Nodes may get other operands
/// of the same types.
class Rewriter {
 public:
  /// Declares the leaves of `from`, which must outlive this.
  explicit Rewriter(const Graph& from);

  /// The new value of a leaf of the old graph.
  Value leaf(ValueId id) const { return first_[static_cast<size_t>(id)]; }

  /// Appends node `id` of the old graph with these operands, its phase and origin; returns
  /// its results, which are inert after an error.
  std::vector<Value> Run(NodeId id, std::span<const Value> operands);

  /// Declares the old graph's outputs, each as the result of its node's first
  /// run, and ends the rewriting: the first error, or the verified graph.
  /// Precondition: the nodes that make outputs have been run. Linear.
  Result<Graph> Finish();

 private:
  std::string FreshName(const std::string& of);

  const Graph& from_;
  GraphBuilder to_;
  std::vector<Value> first_;  // by id in from_: the leaf, or of the first run
};

/// `graph` with its nodes in another order of execution: results stay the same, bit for bit,
/// but lifetimes change. Values keep their names, types, roles and layouts, nodes their
/// attributes, phases and origins; leaves keep their order and come first. Error
/// kInvalidArgument: `order` is no permutation of the nodes, or a node would come before one
/// that it reads or after an update that overwrites what it reads. Linear in nodes and
/// operands.
Result<Graph> Reorder(const Graph& graph, std::span<const NodeId> order);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_COPY_H_
