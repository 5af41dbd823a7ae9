#ifndef STOWAGE_IR_IN_PLACE_H_
#define STOWAGE_IR_IN_PLACE_H_

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

#include <cstddef>
#include <cstdint>

#include "base/index.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {

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

#endif  // STOWAGE_IR_IN_PLACE_H_
