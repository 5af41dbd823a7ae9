#ifndef STOWAGE_IR_TEXT_H_
#define STOWAGE_IR_TEXT_H_

// The text forms of a graph: one that can be parsed, for goldens, bug reports and plan
// files, and Graphviz. ParseGraph(ToText(graph)) equals the graph. The form has one
// statement a line, values before their uses:
//
//   stowage-ir 1
//   graph "mlp" {
//     x: f32(32, 64) = input
//     w: f32(64, 10) = param {init=normal(0.02)}
//     logits: f32(32, 10) = matmul(x, w) {transpose_a=0, transpose_b=0}
//     ...
//     dh: f32(32, 64) gradient = matmul(dlogits, w) {...} @backward("logits")
//     output "loss" = loss
//   }
//
// A name with characters outside letters, digits and _.:/- is quoted, with the escapes
// \" \\ \n and \x1f, the last for control characters and for bytes that are not UTF-8, so
// that the text is always UTF-8. The role of a result follows its type where it is not the
// default (activation; output if an output line names it; constant for `constant`; the
// leaf's for an update). Attributes are integers, reals (always with a point or an
// exponent, or inf or nan), element types, [1, 2] lists and 0x00ff bytes; bodies
// (ir/bodies.h) are graphs in parentheses:
//
//     h: f32(8) = loop(h0, xs) {iterations=3, ..., bodies=(graph "cell" {
//       ...
//     })}
//
// A param or a state in host memory is a `host_param` or a `host_state`.

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/graph.h"

namespace stowage {

/// `graph` in the text form above. Linear in the text.
std::string ToText(const Graph& graph);

/// The attributes in the text of a node: " {transpose_a=0}", or "".
std::string AttrsText(const Attrs& attrs);

/// Parses the text form, verifies and legalizes; never aborts. Errors carry line and column
/// (in bytes, both from 1):
/// `[ir] line 7, column 12: there is no op "matmull"`.
Result<Graph> ParseGraph(std::string_view text);

/// `graph` as a Graphviz digraph. Nodes are boxes coloured by phase, in execution order;
/// views are dashed. Leaves are ellipses, outputs plain text, and every edge carries the
/// name and type of its value.
///
///   WriteFile("mlp.dot", ToDot(graph));  // then: dot -Tsvg mlp.dot
std::string ToDot(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_TEXT_H_
