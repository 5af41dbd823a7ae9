#ifndef STOWAGE_TESTS_SUPPORT_INTERPRET_H_
#define STOWAGE_TESTS_SUPPORT_INTERPRET_H_

// Evaluates a graph with a reference implementation of every op: plain loops in double
// precision. Tests compare backends with it. Every value, including a view, is a separate vector
// in row-major order. The interpreter has no memory planning, buffer reuse or tiling, and it shares
// no code with the kernels. Integers and bools are stored as doubles.
//
// Kernels for 16-bit floats compute in f32 and round what they store. For comparison with them,
// the interpreter can round each value to its type.
//
//   Tensors values = Interpret(graph, {{"x", {1, 2}}, {"w", {3, 4}}});
//   values["loss"][0];

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace stowage {

/// The elements of each tensor in row-major order, keyed by the tensor's name.
using Tensors = std::map<std::string, std::vector<double>>;

enum class Rounding {
  kNone,  // Nothing is rounded. Casts between float types are identities, so
          // the graph stays differentiable.
  kTo16Bits,  // Each f16 or bf16 leaf and result is rounded to the nearest
              // number of its type, ties to even.
};

/// Evaluates `graph` on `leaves`. Returns every value under its name and every output under the
/// output's name. Casts to integers truncate. The result of an in-place update is the new
/// content, and the updated leaf keeps its old content. Aborts if a leaf is missing or has the
/// wrong size, or if an index is out of range.
Tensors Interpret(const Graph& graph, const Tensors& leaves,
                  Rounding rounding = Rounding::kNone);

/// Writes the results of the graph's in-place updates into `leaves`, ready for the next step.
void CarryOver(const Graph& graph, const Tensors& values, Tensors* leaves);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_INTERPRET_H_
