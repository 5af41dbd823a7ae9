#ifndef STOWAGE_AUTODIFF_COTANGENTS_H_
#define STOWAGE_AUTODIFF_COTANGENTS_H_

// The gradients of forward values while the backward sweep gathers them. Only
// values that a requested gradient passes through are wanted; contributions to
// any other are dropped, so that rules need not ask.

#include <optional>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

class Cotangents {
 public:
  /// Nothing is wanted yet. `forward` must outlive this.
  explicit Cotangents(const Graph& forward)
      : forward_(forward),
        wanted_(static_cast<size_t>(forward.num_values()), false),
        sums_(static_cast<size_t>(forward.num_values())) {}

  void Want(ValueId id) { wanted_[static_cast<size_t>(id)] = true; }
  bool wanted(ValueId id) const { return wanted_[static_cast<size_t>(id)]; }

  /// Adds `gradient`, which must have the value's type: the first contribution
  /// is the sum so far, each further one is added by a node.
  void Add(ValueId id, Value gradient);

  /// The sum so far; nothing before the first contribution.
  std::optional<Value> Find(ValueId id) const {
    return sums_[static_cast<size_t>(id)];
  }
  /// The sum so far, which is forgotten here.
  std::optional<Value> Take(ValueId id) {
    return std::exchange(sums_[static_cast<size_t>(id)], std::nullopt);
  }

 private:
  const Graph& forward_;
  std::vector<bool> wanted_;
  std::vector<std::optional<Value>> sums_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_COTANGENTS_H_
