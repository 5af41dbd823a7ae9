#ifndef STOWAGE_IR_VERIFY_H_
#define STOWAGE_IR_VERIFY_H_

// Re-derives everything a graph claims: inputs precede uses, every result type
// follows from its operands, names are unique, updates write in place of params
// or states and nothing reads the old content afterwards.

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// The first claim of `graph` that does not hold, as an error naming the node
/// and both the stated and the derived value. Linear in nodes and their
/// operands.
Status Verify(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_VERIFY_H_
