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

#include <string>
#include <string_view>

#include "autodiff/cotangents.h"
#include "autodiff/forward_values.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

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
