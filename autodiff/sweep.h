#ifndef STOWAGE_AUTODIFF_SWEEP_H_
#define STOWAGE_AUTODIFF_SWEEP_H_

// The backward sweep over the nodes of a graph: of a whole one, and of the bodies in it.
//
//   Cotangents cotangents(forward);
//   cotangents.Want(w);
//   WantAllThatDepends(forward, &cotangents);
//   cotangents.Add(loss, seed);
//   Sweep(forward, &values, &cotangents, &g);
//   cotangents.Find(w);  // the gradient

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

// The gradients of forward values while the backward sweep gathers them. Only
// values that a requested gradient passes through are wanted; contributions to
// any other are dropped, so that rules need not ask.

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

// Forward values as a backward graph sees them. Leaves of the forward graph stay what
// they are, under their names, unless forward overwrites them. Views are taken again
// from their roots, fills and constants are made again: none of them is kept. What only
// a concatenation reads is a slice of that, where backward has read it before and it is a
// small part of what forward makes. Every other value becomes a leaf of role saved.

class ForwardValues {
 public:
  /// Declares a leaf in `backward` for every value of `forward` that could be
  /// read, leaves first, then results in order; the caller drops those nobody
  /// read. New names in `backward` then differ from theirs. Both must outlive
  /// this.
  ForwardValues(const Graph& forward, GraphBuilder* backward);

  /// The value `id` of the forward graph, in the backward graph.
  Value Read(ValueId id);

  /// The same to rounding, for a rule that multiplies by it. What a layer norm without scale
  /// and shift makes, or a group norm as a view of one, is not kept where nothing but
  /// products reads it: it is (x - mean) / deviation, of what its own rule keeps.
  Value ReadFactor(ValueId id);

  /// Tells that reads from here on are for another forward node. A fill of more
  /// than one element is made again for each node that reads it, so that its
  /// bytes need not live in between.
  void BeginNode();

 private:
  std::optional<Value> Normalized(ValueId id);
  std::optional<Value> InConcat(ValueId id);

  const Graph& forward_;
  GraphBuilder& backward_;
  std::vector<std::optional<Value>> values_;  // by forward id
  // By forward id, and so below: whether no rule but a product's reads it.
  std::vector<bool> is_factor_;
  std::vector<NodeId> concat_;  // that alone reads it, or kNoNode
  std::vector<bool> was_read_;
  std::vector<ValueId> of_this_node_;  // fills and their views
};

/// "grad:" + name.
std::string GradientName(std::string_view name);

/// Wants the gradient of every value on which one that is wanted so far can act.
void WantAllThatDepends(const Graph& forward, Cotangents* cotangents);

/// Marks `gradient` as that of `of`, unless it has such a name already (one value can be
/// the gradient of several) or is a leaf.
void NameGradient(const ValueInfo& of, Value gradient, GraphBuilder* g);

/// Emits the gradient of every node on the way from what has a cotangent to what is
/// wanted, last node first, when all readers of its results have contributed.
void Sweep(const Graph& forward, ForwardValues* values, Cotangents* cotangents,
           GraphBuilder* g);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_SWEEP_H_
