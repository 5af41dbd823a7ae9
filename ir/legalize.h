#ifndef STOWAGE_IR_LEGALIZE_H_
#define STOWAGE_IR_LEGALIZE_H_

// Inserts a `copy` exactly where a kernel cannot take an operand's strides, or
// where strides cannot express a reshape. Elementwise kernels take any strides
// and products take any matrix with one unit stride, so a transposed operand or
// a packed qkv projection costs no copy.
//
// GraphBuilder::Finish, the autodiff passes and ParseGraph call it; a Graph in
// hand is legal.

#include "ir/graph.h"

namespace stowage {

/// `graph` with the copies it needs; the same graph when it needs none. A value
/// that several nodes need contiguous is copied once.
Graph Legalize(Graph graph);

/// Whether Legalize would change nothing.
bool IsLegal(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_LEGALIZE_H_
