#ifndef STOWAGE_IR_SHAPE_H_
#define STOWAGE_IR_SHAPE_H_

// Static shapes and strides, at most kMaxRank dimensions, held inline: copying
// one never allocates, so kernels may pass them by value.
//
//   Shape s{32, 784};
//   s.num_elements() == 25088;  s.ToString() == "(32, 784)"
//   ContiguousStrides(s) == Strides{784, 1}

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "ir/dtype.h"

namespace stowage {

inline constexpr int kMaxRank = 8;

/// A fixed-capacity list of 64-bit integers: dimensions or strides. `rank()` is
/// what was asked for; a builder refuses more than kMaxRank, of which only the
/// first kMaxRank are kept.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> dims)
      : Dims(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const int64_t> dims)
      : rank_(static_cast<int>(dims.size())) {
    for (int i = 0; i < kept(); ++i)
      dims_[static_cast<size_t>(i)] = dims[static_cast<size_t>(i)];
  }
  /// `rank` dimensions, all `value`.
  static Dims Filled(int rank, int64_t value) {
    Dims dims;
    dims.rank_ = rank;
    for (int i = 0; i < dims.kept(); ++i) dims[i] = value;
    return dims;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  /// The last dimension. Precondition: rank() >= 1.
  int64_t back() const { return (*this)[rank_ - 1]; }
  void push_back(int64_t value) {
    if (rank_ < kMaxRank) dims_[static_cast<size_t>(rank_)] = value;
    ++rank_;
  }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + kept(); }
  std::span<const int64_t> span() const { return {begin(), end()}; }

  /// "(32, 784)"; "()" for a scalar.
  std::string ToString() const;

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;
  }

 private:
  int kept() const { return rank_ < kMaxRank ? rank_ : kMaxRank; }

  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

/// Distances between neighbours along each axis, in elements; 0 on an axis that
/// is broadcast.
using Strides = Dims;

class Shape : public Dims {
 public:
  using Dims::Dims;
  Shape() = default;
  explicit Shape(const Dims& dims) : Dims(dims) {}

  /// Product of the dimensions; 1 for a scalar. Graphs hold only shapes whose
  /// byte size fits 64 bits.
  int64_t num_elements() const {
    int64_t product = 1;
    for (const int64_t dim : *this) product *= dim;
    return product;
  }
  /// num_elements, or nothing when it does not fit 63 bits or a dimension is
  /// below 1.
  std::optional<int64_t> CheckedNumElements() const;
};

/// What a value is made of.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  Bytes bytes() const { return shape.num_elements() * SizeOf(dtype); }
  /// "f32(32, 784)"
  std::string ToString() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Row-major strides of a value that owns its bytes.
Strides ContiguousStrides(const Shape& shape);

/// Whether elements laid out with `strides` are contiguous and in row-major
/// order (strides of dimensions of size 1 do not matter).
bool IsContiguous(const Shape& shape, const Strides& strides);

}  // namespace stowage

#endif  // STOWAGE_IR_SHAPE_H_
