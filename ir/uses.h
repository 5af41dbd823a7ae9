#ifndef STOWAGE_IR_USES_H_
#define STOWAGE_IR_USES_H_

// The nodes that use each value, which results may overwrite which operands, and how long
// collectives are in flight.
//
// Uses lists, for every value that owns bytes, the nodes that use it or a view of it.
// Taking a view is a use, because the root must be live, but reads no bytes. The result of
// an update shares the bytes of its first operand, so that reading it is a use of the
// updated param or state. The readers of a forward value fall into two groups: those in
// the forward phase, and the first in a later phase with all that follow it.
//
//   const Uses uses(graph, layouts);
//   uses.readers(root);           // nodes, by time, each once
//   uses.later_readers(root);     // those of backward and of the updates
//   uses.last_use(root);          // after which the root may die
//   uses.overwriter(value);       // after which the value has another content
//
// Every query except overwriter takes a root (ir/layout.h).
//
// InPlace is the rule for writing result 0 of a node over an operand's content that dies at
// the node. The content must have as many bytes as the result, and every operand inside it
// must cover it whole, in order, and be one that the kernel may overwrite
// (OpDef::may_overwrite). No element is then read after it has been written, neither
// through a view nor through a second operand on the same value. The caller checks that the
// content dies there and that its memory may be reused: both depend on the plan.
//
//   const InPlace in_place(graph, layouts, node);
//   if (in_place.MayTakeOver(layouts, node, root)) ...
//
// An exchange is a node that sends values to other ranks and waits for theirs. It starts at
// its position in the order, and a backend may run later nodes while its bytes travel. It
// completes at the first node that reads its result, at the latest where the
// kExchangesUnderWay-th exchange after it starts, or at the end. Until then its operands,
// results and workspace must stay untouched. Exchanges complete in the order in which they
// start, which is the same on every rank.
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
  /// Linear in values and operands.
  Uses(const Graph& graph, const Layouts& layouts);

  /// The nodes that read the root or a view of it or that take a view of it.
  std::span<const NodeId> uses(ValueId root) const { return of(root).uses; }
  /// The uses that read its bytes.
  std::span<const NodeId> readers(ValueId root) const {
    return of(root).readers;
  }
  /// The readers before the first in a later phase than forward; that one and all after it.
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

  /// The node that overwrites the content that `id`, a root or not, stands for; kNoNode if
  /// none does. Each content is overwritten at most once.
  NodeId overwriter(ValueId id) const {
    return overwriter_[Index(content_[Index(id)])];
  }

  /// Whether the root, a view of it or its new content is an output.
  bool is_output(ValueId root) const { return of(root).is_output; }

 private:
  struct UsesOfRoot {
    std::vector<NodeId> uses = {};
    std::vector<NodeId> readers = {};
    size_t forward_readers = 0;  // their count
    NodeId last_use = kNoNode;
    bool is_output = false;
  };

  const UsesOfRoot& of(ValueId root) const { return of_[Index(root)]; }

  std::vector<UsesOfRoot> of_;    // per value
  std::vector<ValueId> content_;  // per value: the value that a view looks into
  std::vector<NodeId> overwriter_;  // per content
};

/// The in-place rule for one node, held in one word.
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

  /// Whether result 0 may take over the content that holds exactly the operands `i` for
  /// which `lies_in(i)` is true.
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

/// Most exchanges in flight at a time: enough for a bucket of gradients and, with sharded
/// states, the weights of the bucket before it.
inline constexpr int kExchangesUnderWay = 8;

/// Whether nodes of `op` are exchanges: all_reduce, reduce_scatter, all_gather,
/// all_gather_update.
bool IsExchange(OpKind op);

struct Exchange {
  NodeId node = kNoNode;
  NodeId lands = kNoNode;  // where it completes; num_nodes(): at the end
};

/// The exchanges of `graph` in order, without those of bodies. Linear in its nodes.
std::vector<Exchange> ExchangesOf(const Graph& graph, const Uses& uses,
                                  const Layouts& layouts);

}  // namespace stowage

#endif  // STOWAGE_IR_USES_H_
