#ifndef STOWAGE_IR_CANONICALIZE_LAYOUT_H_
#define STOWAGE_IR_CANONICALIZE_LAYOUT_H_

// How a value arranges the elements of another that it was made of by reshapes,
// permutations, broadcasts and multiplications by constants alone. Exporters express one
// permutation of attention heads by many such nodes; a pattern only needs to know which
// axis of the source each axis is.
//
//   const Layout k = LayoutOf(e, transposed);  // permute(reshape(copy(permute(x))))
//   k.source;                                  // x
//   k.axes;                                    // {{0}, {2}, {3}, {1}}: x's first axis, ...

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/canonicalize/expressions.h"
#include "ir/graph.h"

namespace stowage::canonical {

/// A part of an axis that no reshape has cut.
struct Part {
  int64_t size = 1;
  bool repeated = false;  // by a broadcast; the source has no such part
};

struct Layout {
  ValueId source = 0;
  double factor = 1;  // value = factor * source
  std::vector<Part> parts = {};
  /// Indices into `parts`, by axis of the value and for the whole source; the first varies
  /// slowest. Axes of one element have no part.
  std::vector<std::vector<int>> axes = {};
  std::vector<int> of_source = {};
};

/// The layout of a value; it is its own source if another op made it.
Layout LayoutOf(const Expressions& e, ValueId id);

/// The number of elements of one axis, without repeated parts.
int64_t SizeOf(const Layout& layout, const std::vector<int>& axis);
/// Whether `axes` contain every part of the source once and no repeated part.
bool IsWhole(const Layout& layout, const std::vector<std::vector<int>>& axes);
/// The source, permuted and reshaped to these axes. Precondition: IsWhole.
Value Arranged(const Layout& layout, const std::vector<std::vector<int>>& axes,
               Value source);

}  // namespace stowage::canonical

#endif  // STOWAGE_IR_CANONICALIZE_LAYOUT_H_
