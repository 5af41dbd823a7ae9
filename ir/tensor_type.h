#ifndef STOWAGE_IR_TENSOR_TYPE_H_
#define STOWAGE_IR_TENSOR_TYPE_H_

// Defines TensorType, the element type and shape of a tensor, and strides.
//
//   TensorType type{DType::kBF16, {32, 784}};
//   type.bytes() == 50176;  type.ToString() == "bf16(32, 784)"
//   ContiguousStrides(type.shape) == Strides{784, 1}
//
// Shapes are static. They have at most kMaxRank dimensions, which are stored inline, so copying a
// shape never allocates and kernels pass shapes by value.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// Element types. Kernels compute in f32 and f64, and in f16 and bf16 if the backend supports them.
/// i32 and i64 are for indices. i16 is for the low halves of f32 master weights whose high halves
/// are bf16 (math/optimizer.h). u8 is for bytes, and bool is for masks.
enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool
};

inline constexpr std::array kAllDTypes = {
    DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI16,
    DType::kI32, DType::kI64, DType::kU8,  DType::kBool};

/// Returns the size of one element in bytes.
constexpr Bytes SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

/// Returns whether `dtype` is f32, f64, f16 or bf16.
constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

/// Returns whether `dtype` is i32 or i64.
constexpr bool IsIndex(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64;
}

/// Returns "f32", "bf16", "bool", ...
std::string_view DTypeName(DType dtype);

/// Returns the element type called `name`, such as "f32". Returns kInvalidArgument for other names.
Result<DType> ParseDType(std::string_view name);

/// Returns the element type of the C++ type T: DTypeOf<float>() == DType::kF32.
template <typename T>
constexpr DType DTypeOf();
template <>
constexpr DType DTypeOf<float>() {
  return DType::kF32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kF64;
}
template <>
constexpr DType DTypeOf<int16_t>() {
  return DType::kI16;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType DTypeOf<bool>() {
  return DType::kBool;
}

inline constexpr int kMaxRank = 8;

/// A list of dimensions or strides with fixed capacity. Only the first kMaxRank integers are
/// stored, but rank() counts all of them, so that a builder can reject longer lists. operator[]
/// requires an index in [0, kMaxRank). Unlike axes, indices must not be negative.
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
  /// Returns `rank` dimensions that are all `value`.
  static Dims Filled(int rank, int64_t value) {
    Dims dims;
    dims.rank_ = rank;
    for (int i = 0; i < dims.kept(); ++i) dims[i] = value;
    return dims;
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return dims_[static_cast<size_t>(i)]; }
  /// Returns the last dimension. Requires `1 <= rank() && rank() <= kMaxRank`.
  int64_t back() const { return (*this)[rank_ - 1]; }
  void push_back(int64_t value) {
    if (rank_ < kMaxRank) dims_[static_cast<size_t>(rank_)] = value;
    ++rank_;
  }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + kept(); }
  std::span<const int64_t> span() const { return {begin(), end()}; }

  /// Returns "(32, 784)", or "()" for a scalar.
  std::string ToString() const;

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;
  }

 private:
  int kept() const { return rank_ < kMaxRank ? rank_ : kMaxRank; }

  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

/// For each axis, the distance between adjacent elements, in elements. The stride of a broadcast
/// axis is 0.
using Strides = Dims;

class Shape : public Dims {
 public:
  using Dims::Dims;
  Shape() = default;
  explicit Shape(const Dims& dims) : Dims(dims) {}

  /// Returns the number of elements, which is 1 for a scalar. The number must fit 63 bits, which
  /// holds for all shapes in graphs.
  int64_t num_elements() const {
    int64_t product = 1;
    for (const int64_t dim : *this) product *= dim;
    return product;
  }
  /// Returns the number of elements, or nullopt if it does not fit 63 bits or a dimension is below
  /// 1.
  std::optional<int64_t> CheckedNumElements() const;
};

/// The element type and shape of a tensor.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  /// Returns the size in bytes, which must fit 63 bits. This holds for all types in graphs.
  Bytes bytes() const { return shape.num_elements() * SizeOf(dtype); }
  /// Returns "f32(32, 784)".
  std::string ToString() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Returns the row-major strides of a contiguous tensor.
Strides ContiguousStrides(const Shape& shape);

/// Returns whether a tensor with `shape` and `strides` is contiguous in row-major order. Strides of
/// dimensions of size 1 are ignored.
bool IsContiguous(const Shape& shape, const Strides& strides);

}  // namespace stowage

#endif  // STOWAGE_IR_TENSOR_TYPE_H_
