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
#include <string>
#include <utility>
#include <vector>

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

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_COPY_H_
