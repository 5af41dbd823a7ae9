#ifndef STOWAGE_TESTS_SUPPORT_ELEMENTS_H_
#define STOWAGE_TESTS_SUPPORT_ELEMENTS_H_

// Compares tensors in memory with the interpreter's doubles, for tests. The header provides
// conversion of elements, an error measure, and a buffer whose guards detect out-of-bounds writes.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ir/layout.h"
#include "ir/tensor_type.h"

namespace stowage {

/// Writes `x` at `to` as an element of `dtype`. A float is rounded only once.
void EncodeElement(DType dtype, double x, std::byte* to);
/// Returns the element of `dtype` at `from`.
double DecodeElement(DType dtype, const std::byte* from);

/// Returns the byte offset, within the root buffer, of the element with row-major index `index`.
Bytes ElementOffset(int64_t index, const TensorType& type,
                    const Layout& layout);

/// Returns the largest absolute difference between corresponding elements, divided by the largest
/// finite magnitude in `want` or by 1, whichever is larger. Returns NaN if only one element of a
/// pair is NaN. Requires that `got` and `want` have equal sizes.
double LargestError(const std::vector<double>& got,
                    const std::vector<double>& want);

/// A buffer between two guards. Its bytes are initially 0xFF, which is NaN in every float type.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  /// Allocates `bytes` bytes that start `shift` bytes after a multiple of `alignment`.
  GuardedBuffer(Bytes bytes, size_t alignment, size_t shift = 0);
  std::byte* data() { return storage_.data() + start_; }
  const std::byte* data() const { return storage_.data() + start_; }
  size_t size() const { return size_; }
  /// Returns whether the guards are unchanged.
  bool intact() const;

 private:
  std::vector<std::byte> storage_;
  size_t start_ = 0;
  size_t size_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_ELEMENTS_H_
