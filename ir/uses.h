#ifndef STOWAGE_IR_USES_H_
#define STOWAGE_IR_USES_H_

// Determines the facts of a graph from which lifetimes follow: the nodes that use each value, the
// operands that a result may overwrite, and how long collectives are in flight.
//
// Uses lists, for each value that owns bytes (a root), the nodes that use it or a view of it. A
// node that creates a view uses the root, which must be live, but reads no bytes. The result of an
// update shares the bytes of the updated value, so reading the result is a use of the updated param
// or state. The readers of a forward value are divided into two groups. The later readers are the
// first reader in the backward or update phase and all readers after it. The forward readers
// precede them.
//
//   const Uses uses(graph, layouts);
//   uses.readers(root);           // nodes, ordered by time, each once
//   uses.later_readers(root);     // readers in backward and in the updates
//   uses.last_use(root);          // the node after which the root may be freed
//   uses.overwriter(value);       // the node that overwrites the value
//
// All queries except overwriter require a root (ir/layout.h).
//
// InPlace determines whether result 0 of a node may be written over an operand whose content is not
// needed after the node. The content must have the same size in bytes as the result. Each operand
// that shares its bytes must cover all of it, in order, and the kernel must be able to overwrite
// the operand (OpDef::may_overwrite). No element is then read after it has been written, neither
// through a view nor through a second operand with the same bytes. The caller must check that the
// content dies at the node and that its memory may be reused, since both depend on the plan.
//
//   const InPlace in_place(graph, layouts, node);
//   if (in_place.MayTakeOver(layouts, node, root)) ...
//
// An Exchange is an asynchronous collective: a node that sends values to other ranks and receives
// values from them. It starts at its position in the execution order, and a backend may run later
// nodes while data is transferred. It completes before the first node that reads its result, before
// the kExchangesUnderWay-th collective after it starts, or at the end of the step, whichever is
// first. Until it completes, its operands and workspace must not be overwritten, and its results
// must not be accessed. Collectives complete in the order in which they start, which is the same on
// all ranks.
//
//   for (const Exchange& each : ExchangesOf(graph, uses, layouts)) {
//     Keep(each.node, each.lands);
//   }

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"

namespace stowage {

class Uses {
 public:
  /// Linear in the numbers of values and operands.
  Uses(const Graph& graph, const Layouts& layouts);

  /// Returns the nodes that read the root or a view of it, or that create a view of it.
  std::span<const NodeId> uses(ValueId root) const { return of(root).uses; }
  /// Returns the uses that read the root's bytes.
  std::span<const NodeId> readers(ValueId root) const {
    return of(root).readers;
  }
  /// Returns the readers before the first reader in a later phase than forward, and the readers
  /// from that one on.
  std::span<const NodeId> forward_readers(ValueId root) const {
    return readers(root).first(of(root).forward_readers);
  }
  std::span<const NodeId> later_readers(ValueId root) const {
    return readers(root).subspan(of(root).forward_readers);
  }

  /// Returns the last reader, or kNoNode if the root has no readers.
  NodeId last_reader(ValueId root) const {
    return readers(root).empty() ? kNoNode : readers(root).back();
  }
  /// Returns the last node that produces, updates or uses the root, or kNoNode for an unused leaf.
  NodeId last_use(ValueId root) const { return of(root).last_use; }

  /// Returns the node that overwrites the content of `id`, which need not be a root, or kNoNode if
  /// none does. Each content is overwritten at most once.
  NodeId overwriter(ValueId id) const {
    return overwriter_[Index(content_[Index(id)])];
  }

  /// Returns whether the root, a view of it or its updated content is an output.
  bool is_output(ValueId root) const { return of(root).is_output; }

 private:
  struct UsesOfRoot {
    std::vector<NodeId> uses = {};
    std::vector<NodeId> readers = {};
    size_t forward_readers = 0;  // the number of forward readers
    NodeId last_use = kNoNode;
    bool is_output = false;
  };

  const UsesOfRoot& of(ValueId root) const { return of_[Index(root)]; }

  std::vector<UsesOfRoot> of_;      // per value
  std::vector<ValueId> content_;    // per value: itself, or the viewed value
  std::vector<NodeId> overwriter_;  // per content
};

/// The operands that result 0 of one node may overwrite, as a bit set.
class InPlace {
 public:
  /// No operand may be overwritten.
  InPlace() = default;
  InPlace(const Graph& graph, const Layouts& layouts, const Node& node);

  /// Returns whether result 0 may be written over any operand.
  bool any() const { return operands_ != 0; }
  /// Returns whether result 0 may be written over operand `i`, provided that this is also true for
  /// all other operands in the same content.
  bool operand(size_t i) const { return HasInput(operands_, i); }

  /// Returns whether result 0 may be written over the content in which exactly the operands `i`
  /// with `lies_in(i)` are placed.
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
  /// Returns whether result 0 may be written over the content of `root`.
  bool MayTakeOver(const Layouts& layouts, const Node& node,
                   ValueId root) const {
    return MayTakeOver(node.inputs.size(), [&](size_t i) {
      return layouts[Index(node.inputs[i])].root == root;
    });
  }

 private:
  uint32_t operands_ = 0;  // bit i: operand(i)
};

/// The maximum number of collectives in flight. It suffices for a bucket of gradients and, with
/// sharded states, the weights of the previous bucket.
inline constexpr int kExchangesUnderWay = 8;

/// Returns whether `op` is an asynchronous collective: all_reduce, reduce_scatter, all_gather or
/// all_gather_update.
bool IsExchange(OpKind op);

struct Exchange {
  NodeId node = kNoNode;
  /// The node before which the collective completes. num_nodes() means the end of the step.
  NodeId lands = kNoNode;
};

/// Returns the collectives of `graph`, without its bodies, in execution order. Linear in the number
/// of nodes.
std::vector<Exchange> ExchangesOf(const Graph& graph, const Uses& uses,
                                  const Layouts& layouts);

}  // namespace stowage

#endif  // STOWAGE_IR_USES_H_
