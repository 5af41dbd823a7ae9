#ifndef STOWAGE_IR_USES_H_
#define STOWAGE_IR_USES_H_

// Who reads what: of every value that owns bytes, the nodes that use it or a view
// of it.
//
// Taking a view is a use, since the root must be there for it, but reads no bytes.
// The result of an update lies where its first operand lies, so that reading it is
// a use of the param or state that was updated. Where a forward value waits for
// the backward pass, its readers fall into two: those in forward, and the first in
// a later phase with all that follow.
//
//   const Uses uses(graph, layouts);
//   uses.readers(root);           // nodes, by time, each once
//   uses.later_readers(root);     // what backward and the updates want it for
//   uses.last_use(root);          // after which it may die
//   uses.overwriter(value);       // after which it is something else
//
// All but the last are asked of roots (ir/layout.h).

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index.h"
#include "ir/graph.h"
#include "ir/layout.h"

namespace stowage {

class Uses {
 public:
  /// Linear in values and operands.
  Uses(const Graph& graph, const Layouts& layouts);

  /// The nodes that read the root or a view of it, or take a view of it.
  std::span<const NodeId> uses(ValueId root) const { return of(root).uses; }
  /// Those of them that read its bytes.
  std::span<const NodeId> readers(ValueId root) const {
    return of(root).readers;
  }
  /// The readers before the first that is in a later phase than forward; that
  /// one and all after it.
  std::span<const NodeId> forward_readers(ValueId root) const {
    return readers(root).first(of(root).forward_readers);
  }
  std::span<const NodeId> later_readers(ValueId root) const {
    return readers(root).subspan(of(root).forward_readers);
  }

  /// The last reader; kNoNode without one.
  NodeId last_reader(ValueId root) const {
    return readers(root).empty() ? kNoNode : readers(root).back();
  }
  /// The last node that makes or uses the root; kNoNode of a leaf that nothing
  /// uses.
  NodeId last_use(ValueId root) const { return of(root).last_use; }

  /// The node that overwrites in place what `id`, a root or not, reads; kNoNode
  /// where that lasts. A content is overwritten once: what does it makes another.
  NodeId overwriter(ValueId id) const {
    return overwriter_[Index(content_[Index(id)])];
  }

  /// Whether the root, a view of it or its new content is an output.
  bool is_output(ValueId root) const { return of(root).is_output; }

 private:
  struct UsesOfRoot {
    std::vector<NodeId> uses = {};
    std::vector<NodeId> readers = {};
    size_t forward_readers = 0;  // so many of the readers
    NodeId last_use = kNoNode;
    bool is_output = false;
  };

  const UsesOfRoot& of(ValueId root) const { return of_[Index(root)]; }

  std::vector<UsesOfRoot> of_;      // per value
  std::vector<ValueId> content_;    // per value: what a view is a view of
  std::vector<NodeId> overwriter_;  // per content
};

}  // namespace stowage

#endif  // STOWAGE_IR_USES_H_
