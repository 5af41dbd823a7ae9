#ifndef STOWAGE_FORMATS_ARRAY_H_
#define STOWAGE_FORMATS_ARRAY_H_

// An array as files of others hold it: a type and bytes, row-major, in this
// machine's order of bytes.
//
//   Array array{{DType::kF32, {2, 3}}, bytes};
//   std::vector<float> values = ValuesOf<float>(array);

#include <cstddef>
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

}  // namespace stowage

#endif  // STOWAGE_FORMATS_ARRAY_H_
