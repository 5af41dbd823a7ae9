#ifndef STOWAGE_FORMATS_ARRAY_H_
#define STOWAGE_FORMATS_ARRAY_H_

// An array in memory, as read from and written to files: a type and bytes, row-major, in
// native byte order; and its elements as numbers.
//
//   Array array{{DType::kF32, {2, 3}}, bytes};
//   std::vector<float> values = ValuesOf<float>(array);
//   const std::vector<int64_t> dims = IntsOf(array);
//   const Array wide = ArrayOf(DType::kF64, array.type.shape, RealsOf(array));
//   Status usable = CheckFinite(array, DType::kF32, "d.npz:x");

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/tensor_type.h"

namespace stowage {

struct Array {
  TensorType type;
  std::string bytes;  // type.bytes() of them

  /// The bytes as Runner::WriteBytes and ReadBytes take them (runtime/session.h).
  std::span<const std::byte> data() const {
    return std::as_bytes(std::span(bytes));
  }
  std::span<std::byte> data() {
    return std::as_writable_bytes(std::span(bytes));
  }

  friend bool operator==(const Array&, const Array&) = default;
};

struct NamedArray {
  std::string name;
  Array array;
};

/// The elements of an array of T. Precondition: its dtype is T's.
template <typename T>
std::vector<T> ValuesOf(const Array& array) {
  STOWAGE_CHECK(array.type.dtype == DTypeOf<T>());
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

/// The elements as 64-bit integers. Reals are truncated towards zero and saturate; NaN is
/// 0.
std::vector<int64_t> IntsOf(const Array& array);

/// The elements as doubles; exact except for integers beyond 2^53.
std::vector<double> RealsOf(const Array& array);

/// An array of numbers in row-major order, converted to the dtype: reals to nearest,
/// integers modulo 2^bits, nonzero to true. Precondition: the shape has as many elements.
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<int64_t>& ints);
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<double>& reals);

/// Checks that all elements are finite in `dtype`, a float type; integers are. Error
/// kInvalidArgument, naming `origin`, the first position and its value.
Status CheckFinite(const Array& array, DType dtype, const std::string& origin);

/// Checks that all elements, integers, are in [0, end). Error as above.
Status CheckRange(const Array& array, int64_t end, const std::string& origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_ARRAY_H_
