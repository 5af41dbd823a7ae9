#ifndef STOWAGE_IR_USES_H_
#define STOWAGE_IR_USES_H_

// Determines what the planner needs to know for lifetimes: the nodes that use each value, the
// operands that a result may overwrite, and how long collectives are in flight.
//
// Uses lists, for each value that owns bytes (a root), the nodes that use it or a view of it. A
// node that creates a view uses the root, which must be live, but reads no bytes. The result of an
// update shares the bytes of the updated value, so reading the result is a use of the updated param
// or state. The readers of a value are divided into two groups. The later readers begin with the
// first reader in the backward or update phase. All readers before it are the forward readers.
//
//   const Uses uses(graph, layouts);
//   uses.readers(root);           // nodes, ordered by time, each once
//   uses.later_readers(root);     // readers from the first one in backward or update
//   uses.last_use(root);          // the node after which the root may be freed
//   uses.overwriter(value);       // the node that overwrites the value
//
// All queries except overwriter require a root (ir/layout.h).
//
// InPlace determines whether result 0 of a node may be written over the content of a root that the
// node reads. The content must have the same size in bytes as the result. Every operand that is the
// root or a view of it must cover the whole content, in order, and the kernel must be able to
// overwrite the operand (OpDef::may_overwrite). The node then reads no element after it has written
// the element. The caller must check that no later node reads the content and that its memory may
// be reused, since both depend on the plan.
//
//   const InPlace in_place(graph, layouts, node);
//   if (in_place.MayTakeOver(layouts, node, root)) ...
//
// An Exchange is an asynchronous collective: a node that sends values to other ranks and receives
// values from them. It starts at its position in the execution order, and a backend may run later
// nodes while data is transferred. It completes at the earliest of three points: before the first
// node that reads its result, before the kExchangesUnderWay-th collective after it, or at the end
// of the step. Until it completes, its operands and workspace must not be overwritten, and its
// results must not be accessed. Collectives complete in the order in which they start, which is the
// same on all ranks.
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
  /// Finds the uses of all values. `layouts` must be ComputeLayouts(graph). Linear in the numbers
  /// of values and operands.
  Uses(const Graph& graph, const Layouts& layouts);

  /// Returns the nodes that read the root or a view of it, or that create a view of it, in order.
  std::span<const NodeId> uses(ValueId root) const { return of(root).uses; }
  /// Returns the nodes that read the root's bytes, in order.
  std::span<const NodeId> readers(ValueId root) const {
    return of(root).readers;
  }
  /// Returns the readers before the first reader in the backward or update phase.
  std::span<const NodeId> forward_readers(ValueId root) const {
    return readers(root).first(of(root).forward_readers);
  }
  /// Returns the first reader in the backward or update phase, and all readers after it.
  std::span<const NodeId> later_readers(ValueId root) const {
    return readers(root).subspan(of(root).forward_readers);
  }

  /// Returns the last reader, or kNoNode if the root has no readers.
  NodeId last_reader(ValueId root) const {
    return readers(root).empty() ? kNoNode : readers(root).back();
  }
  /// Returns the last node that produces, updates or uses the root, or kNoNode for a leaf that no
  /// node uses.
  NodeId last_use(ValueId root) const { return of(root).last_use; }

  /// Returns the update node that overwrites the content of `id`, or kNoNode if there is none. `id`
  /// need not be a root. Each content is overwritten at most once.
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
  /// Creates an empty set.
  InPlace() = default;
  InPlace(const Graph& graph, const Layouts& layouts, const Node& node);

  /// Returns whether result 0 may be written over at least one operand.
  bool any() const { return operands_ != 0; }
  /// Returns whether result 0 may be written over operand `i`, provided that it may be written over
  /// all operands that share bytes with operand `i`.
  bool operand(size_t i) const { return HasInput(operands_, i); }

  /// Returns whether result 0 may be written over a content. `lies_in(i)` returns whether operand
  /// `i` is in this content. Returns false if no operand is.
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

/// The maximum number of collectives in flight. It is enough to transfer a bucket of gradients and,
/// with sharded states, the weights of the previous bucket.
inline constexpr int kExchangesUnderWay = 8;

/// Returns whether `op` is an asynchronous collective: all_reduce, reduce_scatter, all_gather or
/// all_gather_update.
bool IsExchange(OpKind op);

struct Exchange {
  NodeId node = kNoNode;
  /// The node before which the collective completes. num_nodes() means the end of the step.
  NodeId lands = kNoNode;
};

/// Returns the asynchronous collectives of `graph` in execution order. Collectives in bodies
/// (ir/bodies.h) are omitted. Linear in the number of nodes, except for a binary search per result
/// of a collective.
std::vector<Exchange> ExchangesOf(const Graph& graph, const Uses& uses,
                                  const Layouts& layouts);

}  // namespace stowage

#endif  // STOWAGE_IR_USES_H_
