#ifndef STOWAGE_IR_AXIS_GROUPS_H_
#define STOWAGE_IR_AXIS_GROUPS_H_

// The axes of a contiguous operand that is reduced, merged: neighbours that are
// all reduced, or all kept, become one, so that groups alternate between the two.
// Most reductions then have the form (outer, reduced, inner), whatever the rank:
// rows where `inner` is 1, columns where it is not. Axes of size 1 are in no group.
//
//   AxisGroups groups({8, 3, 4, 5}, axes);      // axes: 1, 2
//   groups.simple();                            // (8, 12, 5)
//   groups.outer();  groups.reduced();  groups.inner();
//
// What alternates more often is not simple; its groups' sizes and strides are in
// `kept_dims`, `reduced_dims` and so on.

#include <cstdint>
#include <span>

#include "ir/shape.h"

namespace stowage {

struct AxisGroups {
  /// Axes that are not of the shape do not matter.
  AxisGroups(const Shape& shape, std::span<const int64_t> reduced_axes);
  /// With all axes reduced.
  static AxisGroups AllReduced(const Shape& shape);

  /// Whether the operand is (outer, reduced, inner).
  bool simple() const { return reduced_dims.rank() <= 1; }
  /// Elements that become one result; results.
  int64_t reduced() const { return reduced_dims.num_elements(); }
  int64_t kept() const { return kept_dims.num_elements(); }
  /// Results next to each other: the last group, if it is kept; else 1.
  int64_t inner() const {
    if (inner_is_reduced || reduced_dims.rank() == 0) return 1;
    return kept_dims.back();
  }
  int64_t outer() const { return kept() / inner(); }

  Shape reduced_dims, kept_dims;  // sizes of groups
  Strides reduced_strides, kept_strides;
  bool inner_is_reduced = true;  // or there is no group
};

}  // namespace stowage

#endif  // STOWAGE_IR_AXIS_GROUPS_H_
