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
#include "ir/op_def.h"

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

// Which result may be written over which operand.
//
// Result 0 of a node may take the place of a content that dies at the node. The
// content must have as many bytes as the result, and every operand that lies in
// it must cover it whole, in order, and be one that the kernel may overwrite
// (OpDef::may_overwrite). So no element is read after it has been written, not
// through a view and not through a second operand on the same value.
//
// That the content dies there, and that it lies in memory which may change hands,
// is for the caller to know: these depend on the order of the nodes and on the
// plan, and the rule does not.
//
//   const InPlace in_place(graph, layouts, node);
//   if (in_place.MayTakeOver(layouts, node, root)) ...

/// What the rule says of one node. A search asks it a million times: it is one
/// word.
class InPlace {
 public:
  /// Nothing may be written over.
  InPlace() = default;
  InPlace(const Graph& graph, const Layouts& layouts, const Node& node);

  /// Whether result 0 may be written over any operand.
  bool any() const { return operands_ != 0; }
  /// Whether it may be written over operand `i`, unless another operand in the
  /// same content forbids it.
  bool operand(size_t i) const { return HasInput(operands_, i); }

  /// Whether result 0 may take over the content in which those of the node's
  /// operands lie of which `lies_in(i)` is true.
  template <typename LiesIn>
  bool MayTakeOver(size_t num_operands, const LiesIn& lies_in) const {
    bool reads = false;
    for (size_t i = 0; i < num_operands; ++i) {
      if (!lies_in(i)) continue;
      if (!operand(i)) return false;
      reads = true;
    }
    return reads;
  }
  /// The same for the content of `root`.
  bool MayTakeOver(const Layouts& layouts, const Node& node,
                   ValueId root) const {
    return MayTakeOver(node.inputs.size(), [&](size_t i) {
      return layouts[Index(node.inputs[i])].root == root;
    });
  }

 private:
  uint32_t operands_ = 0;  // bit i: operand(i)
};

}  // namespace stowage

#endif  // STOWAGE_IR_USES_H_
