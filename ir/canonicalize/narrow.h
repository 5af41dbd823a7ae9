#ifndef STOWAGE_IR_CANONICALIZE_NARROW_H_
#define STOWAGE_IR_CANONICALIZE_NARROW_H_

// What a value of constants alone holds, once along each axis that it repeats itself along.
// A causal mask for every example, compared of positions, is a table of queries and keys.
//
//   const auto mask = NarrowOf(e, id);  // where(less_equal(keys, queries), 0, -1e9)
//   mask->dims;                         // {1, 1, 1024, 1024} of (64, 1, 1024, 1024)

#include "ir/canonicalize/expressions.h"
#include "ir/graph.h"

namespace stowage::canonical {

/// Null of what depends on a leaf, of ops that masks are not made of, and of tables of more
/// than 2^24 elements. Linear in the nodes and in what they hold; kept by `e`.
const Narrow* NarrowOf(const Expressions& e, ValueId id);

}  // namespace stowage::canonical

#endif  // STOWAGE_IR_CANONICALIZE_NARROW_H_
