#ifndef STOWAGE_IR_TEXT_H_
#define STOWAGE_IR_TEXT_H_

// The text form of a graph, for goldens, bug reports and plan files. What is
// printed parses back to an equal graph (ir/graph.h, Equal).
//
//   stowage-ir 1
//   graph "mlp" {
//     x: f32(32, 64) = input
//     w: f32(64, 10) = param {init=normal(0.02)}
//     logits: f32(32, 10) = matmul(x, w) {transpose_a=0, transpose_b=0}
//     ...
//     output "loss" = loss
//   }

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

std::string ToText(const Graph& graph);

/// Parses the text form, verifies and legalizes. Errors carry line and column.
Result<Graph> ParseGraph(std::string_view text);

/// Graphviz: values as edges, nodes as boxes coloured by phase, views dashed.
std::string ToDot(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_TEXT_H_
