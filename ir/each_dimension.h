#ifndef STOWAGE_IR_EACH_DIMENSION_H_
#define STOWAGE_IR_EACH_DIMENSION_H_

// Settings of windows that slide along spatial dimensions: one number for all of
// them, or one for each.
//
//   Conv(x, w, {.stride = 2, .padding = {1, 0}});

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace stowage {

/// `2`, or `{2, 1}`. Padding may also be given with those before each dimension and
/// then those after each: `{1, 1, 0, 0}`.
class EachDimension {
 public:
  EachDimension(int64_t all) : values_{all} {}
  EachDimension(std::initializer_list<int64_t> values) : values_(values) {}
  EachDimension(std::vector<int64_t> values) : values_(std::move(values)) {}
  const std::vector<int64_t>& values() const { return values_; }

  /// For `dimensions`, at least one. A list of another length stays as it is, for
  /// an op to refuse.
  std::vector<int64_t> For(int dimensions) const {
    if (values_.size() != 1 || dimensions < 1) return values_;
    return std::vector<int64_t>(static_cast<size_t>(dimensions), values_[0]);
  }

  /// As padding: before each dimension, then after each.
  std::vector<int64_t> BothSides(int dimensions) const {
    std::vector<int64_t> both = For(dimensions);
    const size_t count = both.size();
    if (count != static_cast<size_t>(dimensions)) return both;
    both.reserve(2 * count);
    for (size_t i = 0; i < count; ++i) both.push_back(both[i]);
    return both;
  }

 private:
  std::vector<int64_t> values_;
};

}  // namespace stowage

#endif  // STOWAGE_IR_EACH_DIMENSION_H_
