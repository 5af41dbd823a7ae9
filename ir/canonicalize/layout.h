#ifndef STOWAGE_IR_CANONICALIZE_LAYOUT_H_
#define STOWAGE_IR_CANONICALIZE_LAYOUT_H_

// How a value lies over another that it was made of by nothing but reshapes, permutations,
// repetitions and products with numbers. Exporters spell one permutation of a tensor of
// heads in many such nodes; what counts is which axis of the source each axis is.
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

/// Part of an axis, that no reshape on the way has cut.
struct Part {
  int64_t size = 1;
  bool repeated = false;  // by a broadcast: the source has no such part
};

struct Layout {
  ValueId source = 0;
  double factor = 1;  // the value is so many times the source
  std::vector<Part> parts = {};
  /// Parts of each axis of the value, and of the source, the first varies slowest. Axes of
  /// one element have none.
  std::vector<std::vector<int>> axes = {};
  std::vector<int> of_source = {};
};

/// Of a value of the graph; its own source where it was made in another way.
Layout LayoutOf(const Expressions& e, ValueId id);

/// The elements of one axis: of its parts, repeated ones left out.
int64_t SizeOf(const Layout& layout, const std::vector<int>& axis);
/// Whether each part of the source is in one of `axes`, and none that is repeated.
bool IsWhole(const Layout& layout, const std::vector<std::vector<int>>& axes);
/// The source with these axes. Precondition: IsWhole.
Value Arranged(const Layout& layout, const std::vector<std::vector<int>>& axes,
               Value source);

}  // namespace stowage::canonical

#endif  // STOWAGE_IR_CANONICALIZE_LAYOUT_H_
