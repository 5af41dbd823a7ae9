#ifndef STOWAGE_RUNTIME_WEIGHT_VALUES_H_
#define STOWAGE_RUNTIME_WEIGHT_VALUES_H_

// What makes a trained model, and what only its training needs. A file of weights
// holds the params and the states that the model itself keeps, such as a batch norm's
// running statistics; an optimizer's states are for going on.
//
//   for (ValueId id : WeightValues(runner.graph())) ...

#include <vector>

#include "ir/graph.h"

namespace stowage {

/// The params of `graph`, then those of its states that a node of the forward phase
/// reads or writes, each in the order of declaration. Linear in operands.
std::vector<ValueId> WeightValues(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_WEIGHT_VALUES_H_
