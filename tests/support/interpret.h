#ifndef STOWAGE_TESTS_SUPPORT_INTERPRET_H_
#define STOWAGE_TESTS_SUPPORT_INTERPRET_H_

// The reference implementation: evaluates a graph by plain loops over the definitions of its
// ops, in double precision. Every value, views included, is a vector of its own in row-major
// order; nothing is planned, reused, blocked or shared with the kernels. Integers and bools are
// stored as doubles.
//
// A graph of 16-bit floats is compared with kernels that compute in f32 and
// round what they store; for that, its values can be rounded to their types.
//
//   Tensors values = Interpret(graph, {{"x", {1, 2}}, {"w", {3, 4}}});
//   values["loss"][0];

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace stowage {

/// Elements by name, in row-major order.
using Tensors = std::map<std::string, std::vector<double>>;

enum class Rounding {
  kNone,  // everything is a double: casts between float types change nothing,
          // so derivatives exist
  kTo16Bits,  // leaves and results of f16 and bf16 are the nearest numbers of
              // those types, ties to even
};

/// Every value of `graph` by its name and every output by its own, given its
/// leaves. Casts to integers truncate. An update's result is the new content;
/// the leaf keeps the old. A missing leaf, a wrong size or an index out of range
/// aborts.
Tensors Interpret(const Graph& graph, const Tensors& leaves,
                  Rounding rounding = Rounding::kNone);

/// After a step: writes the results of the graph's updates into `leaves`.
void CarryOver(const Graph& graph, const Tensors& values, Tensors* leaves);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_INTERPRET_H_
