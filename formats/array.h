#ifndef STOWAGE_FORMATS_ARRAY_H_
#define STOWAGE_FORMATS_ARRAY_H_

// Provides arrays in host memory for reading and writing files. An array has a type and a string of
// bytes, which are its elements in row-major order and native byte order. ValuesOf, IntsOf, RealsOf
// and ArrayOf convert between elements and numbers.
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
  std::string bytes;  // of length type.bytes()

  /// Returns the bytes in the form that Runner::WriteBytes and ReadBytes expect
  /// (runtime/session.h).
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

/// Returns the elements of `array`. Requires that its dtype is the dtype of T.
template <typename T>
std::vector<T> ValuesOf(const Array& array) {
  STOWAGE_CHECK(array.type.dtype == DTypeOf<T>());
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

/// Returns the elements as 64-bit integers. Floats are truncated toward zero. Values that do not
/// fit become the nearest 64-bit integer, and NaN becomes 0.
std::vector<int64_t> IntsOf(const Array& array);

/// Returns the elements as doubles. The result is exact except for integers beyond 2^53.
std::vector<double> RealsOf(const Array& array);

/// Returns an array of these numbers, which must be in row-major order, converted to `dtype`.
/// Conversions to float types round to nearest. Conversions of reals to integers follow IntsOf, and
/// narrower integers keep the lower bits. For bool, every nonzero number is true. The size of the
/// vector must be the number of elements of `shape`.
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<int64_t>& ints);
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<double>& reals);

/// Returns kInvalidArgument if an element is NaN or infinite after conversion to `dtype`, a float
/// type. The message names `origin` and the position and value of the first such element. Integers
/// are always accepted.
Status CheckFinite(const Array& array, DType dtype, const std::string& origin);

/// Returns kInvalidArgument if an element is not in [0, end). The elements must be integers. The
/// message names `origin` and the position and value of the first such element.
Status CheckRange(const Array& array, int64_t end, const std::string& origin);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_ARRAY_H_
