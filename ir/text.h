#ifndef STOWAGE_IR_TEXT_H_
#define STOWAGE_IR_TEXT_H_

// Converts graphs to text and back. The text form is for golden files, bug reports and plan files.
// ParseGraph(ToText(graph)) returns an equal graph, but without source lines. ToDot writes a graph
// for Graphviz. The text form has one statement per line, with values before their uses:
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
// A plain name consists of letters, digits and _.:/-, begins with a letter or an underscore, and
// does not end with a colon. Other names, and the name `output`, are quoted. The escapes in quotes
// are \" \\ \n and \x with two hexadecimal digits. The last is for control characters and for bytes
// that are not UTF-8, so the text is always UTF-8.
//
// The role of a result is written after its type if it is not the default. The default is the role
// of the target for an update, constant for `constant`, output if an output line names the result,
// and activation otherwise.
//
// Attributes are integers, reals (always with a point or an exponent, or inf or nan), element
// types, [1, 2] lists, 0x00ff bytes, and graphs in parentheses, such as bodies (ir/bodies.h):
//
//     h: f32(8) = loop(h0, xs) {iterations=3, ..., bodies=(graph "cell" {
//       ...
//     })}
//
// Params and states in host memory are declared as `host_param` and `host_state`.

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/graph.h"

namespace stowage {

/// Returns the text form of `graph`. Linear in the size of the text.
std::string ToText(const Graph& graph);

/// Returns `attrs` in the form that follows a node, such as " {transpose_a=0}", or "" if `attrs` is
/// empty.
std::string AttrsText(const Attrs& attrs);

/// Parses the text form, and legalizes and verifies the graph. Never aborts. Returns kUnsupported
/// if the text has another version, and kInvalidArgument if the text or the graph is invalid. The
/// message states the line and the column, which counts bytes. Both count from 1:
/// `[ir] line 7, column 12: there is no op "matmull"`. Properties that only the complete graph can
/// violate (ir/verify.h) are reported without a line.
Result<Graph> ParseGraph(std::string_view text);

/// Returns `graph` as a Graphviz digraph. Nodes are boxes, which are numbered in execution order
/// and colored by phase. Views have dashed boxes. Leaves are ellipses, and outputs are plain text.
/// Each edge is labeled with the name and type of its value. Bodies are clusters.
///
///   WriteFile("mlp.dot", ToDot(graph));  // then: dot -Tsvg mlp.dot
std::string ToDot(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_TEXT_H_
