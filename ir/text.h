#ifndef STOWAGE_IR_TEXT_H_
#define STOWAGE_IR_TEXT_H_

// The text form of a graph, for goldens, bug reports and plan files. What is
// printed parses back to an equal graph (ir/graph.h, Equal). One statement a
// line, values before their uses:
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
// A name with characters outside letters, digits and _.:/- is quoted, with the
// escapes \" \\ \n \x1f, the last of control characters and of bytes that are no UTF-8:
// the text is always UTF-8. The role of a result stands after its type where it is
// not the usual one (activation; output if an output line names it; constant of
// `constant`; the leaf's of an update). Attributes are integers, reals (always
// with a point or an exponent, or inf or nan), element types, [1, 2] lists and
// 0x00ff bytes; bodies (ir/bodies.h) are graphs in parentheses:
//
//     h: f32(8) = loop(h0, xs) {iterations=3, ..., bodies=(graph "cell" {
//       ...
//     })}
//
// A param or a state in the host's memory is a `host_param` or a `host_state`.

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/attrs.h"
#include "ir/graph.h"

namespace stowage {

/// `graph` in the text form above. Linear in the text.
std::string ToText(const Graph& graph);

/// The attributes as they stand behind a node: " {transpose_a=0}", or "".
std::string AttrsText(const Attrs& attrs);

/// Parses the text form, verifies and legalizes; no text makes it abort. Errors
/// carry line and column (in bytes, both from 1):
/// `[ir] line 7, column 12: there is no op "matmull"`.
Result<Graph> ParseGraph(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_IR_TEXT_H_
