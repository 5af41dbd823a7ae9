#ifndef STOWAGE_AUTODIFF_FORWARD_VALUES_H_
#define STOWAGE_AUTODIFF_FORWARD_VALUES_H_

// Forward values as a backward graph sees them. Leaves of the forward graph stay what
// they are, under their names, unless forward overwrites them. Views are taken again
// from their roots, fills and constants are made again: none of them is kept. Every
// other value becomes a leaf of role saved.

#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

class ForwardValues {
 public:
  /// Declares a leaf in `backward` for every value of `forward` that could be
  /// read, leaves first, then results in order; the caller drops those nobody
  /// read. New names in `backward` then differ from theirs. Both must outlive
  /// this.
  ForwardValues(const Graph& forward, GraphBuilder* backward);

  /// The value `id` of the forward graph, in the backward graph.
  Value Read(ValueId id);

  /// Tells that reads from here on are for another forward node. A fill of more
  /// than one element is made again for each node that reads it, so that its
  /// bytes need not live in between.
  void BeginNode();

 private:
  const Graph& forward_;
  GraphBuilder& backward_;
  std::vector<std::optional<Value>> values_;  // by forward id
  std::vector<ValueId> of_this_node_;         // fills and their views
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_FORWARD_VALUES_H_
