#ifndef STOWAGE_IR_GRAPH_COPY_H_
#define STOWAGE_IR_GRAPH_COPY_H_

// Copies a graph, or parts of it, into a builder: what the linking of graphs is
// made of, and passes that put other nodes in the place of some. Values keep their names,
// with a suffix if one is given, where these are free and get fresh ones where not; nodes
// keep their phase and origin.
//
//   GraphCopy copy(forward, &g);
//   for (ValueId id : forward.Leaves(Role::kParam)) copy.DeclareLeaf(id);
//   copy.CopyNode(0);

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
  /// Both must outlive this. `suffix` is added to the names of what nodes make.
  GraphCopy(const Graph& from, GraphBuilder* to, std::string suffix = {})
      : from_(from),
        to_(*to),
        suffix_(std::move(suffix)),
        values_(static_cast<size_t>(from.num_values())) {}

  /// Lets `value` of the builder stand for the value `id` of the graph.
  void Map(ValueId id, Value value) {
    values_[static_cast<size_t>(id)] = value;
  }
  /// What stands for `id`; inert before it was mapped, declared or copied.
  Value operator[](ValueId id) const {
    return values_[static_cast<size_t>(id)];
  }

  /// Declares the leaf `id` as it is.
  void DeclareLeaf(ValueId id);
  /// All that were not mapped before.
  void DeclareLeaves();
  /// Appends node `id`. Precondition: all its inputs stand for something.
  void CopyNode(NodeId id) { CopyNode(id, from_.node(id).attrs); }
  /// Likewise, with other attributes.
  void CopyNode(NodeId id, const Attrs& attrs);
  /// Nodes that are copied from here on have this origin, in place of their own.
  void UseOrigin(std::string origin) { origin_ = std::move(origin); }
  /// What comes next is for node `id`: its phase, its origin, the user's line.
  void SetOrigin(NodeId id);
  /// Declares the graph's outputs. All nodes that make them must be there.
  void DeclareOutputs();

 private:
  const Graph& from_;
  GraphBuilder& to_;
  const std::string suffix_;
  std::optional<std::string> origin_;
  std::vector<Value> values_;  // by id in from_
};

// Runs the nodes of a graph into a new one, some of them more than once: what
// recomputation is made of. The first run of a node keeps its names; a further
// run gives its results fresh ones, "h.0.ln_1~recomputed". Nodes may be given
// other operands than they had, of the same types.
//
//   Rewriter to(graph);
//   std::vector<Value> y = to.Run(0, {to.leaf(x)});
//   std::vector<Value> again = to.Run(0, {to.leaf(x)});
//   Result<Graph> rewritten = to.Finish();

/// What the names of results of a further run end with, or have before a number.
inline constexpr std::string_view kRunAgainSuffix = "~recomputed";

class Rewriter {
 public:
  /// `from` must outlive this. Its leaves are there from the start.
  explicit Rewriter(const Graph& from);

  /// What stands for a leaf of the old graph.
  Value leaf(ValueId id) const { return first_[static_cast<size_t>(id)]; }

  /// Appends node `id` of the old graph with these operands; returns its
  /// results, which are inert after an error. Phase and origin stay.
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

// The same graph with its nodes in another order of execution. What a step
// computes stays the same to the bit; when its values live, and so what memory
// it takes, does not.
//
//   const NodeId order[] = {1, 0, 2};
//   Result<Graph> other = Reorder(graph, order);

/// `graph` with the nodes `order`, in that order. Values keep their names,
/// types, roles and layouts, nodes their attributes, phases and origins; leaves
/// keep their order and come first. Error kInvalidArgument when `order` is no
/// permutation of the nodes, or a node would come before one that it reads, or
/// after an update that overwrites what it reads. Linear in nodes and operands.
Result<Graph> Reorder(const Graph& graph, std::span<const NodeId> order);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_COPY_H_
