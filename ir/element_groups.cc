#include "ir/element_groups.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

namespace stowage {

AxisGroups::AxisGroups(const Shape& shape,
                       std::span<const int64_t> reduced_axes) {
  const Strides strides = ContiguousStrides(shape);
  std::optional<bool> last_is_reduced;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    const bool is_reduced = std::ranges::count(reduced_axes, axis) > 0;
    Shape& dims = is_reduced ? reduced_dims : kept_dims;
    Strides& steps = is_reduced ? reduced_strides : kept_strides;
    if (is_reduced == last_is_reduced) {
      dims[dims.rank() - 1] *= shape[axis];
      steps[steps.rank() - 1] = strides[axis];
    } else {
      dims.push_back(shape[axis]);
      steps.push_back(strides[axis]);
    }
    last_is_reduced = is_reduced;
  }
  inner_is_reduced = last_is_reduced.value_or(true);
}

AxisGroups AxisGroups::AllReduced(const Shape& shape) {
  std::array<int64_t, kMaxRank> axes;
  std::iota(axes.begin(), axes.end(), 0);
  return AxisGroups(shape, axes);
}

}  // namespace stowage
