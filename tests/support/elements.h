#ifndef STOWAGE_TESTS_SUPPORT_ELEMENTS_H_
#define STOWAGE_TESTS_SUPPORT_ELEMENTS_H_

// Conversion of elements in memory to and from the interpreter's doubles, and memory with
// guards that detect writes out of bounds.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ir/layout.h"
#include "ir/tensor_type.h"

namespace stowage {

/// Rounded once.
void EncodeElement(DType dtype, double x, std::byte* to);
double DecodeElement(DType dtype, const std::byte* from);

/// Byte offset, in its root, of the element that is `index`-th in row-major
/// order.
Bytes ElementOffset(int64_t index, const TensorType& type,
                    const Layout& layout);

/// The largest difference, relative to the largest finite element of `want` or 1; NaN if only
/// one element of a pair is NaN. Precondition: equal sizes.
double LargestError(const std::vector<double>& got,
                    const std::vector<double>& want);

/// Bytes between guards, initially 0xFF, which is NaN in every float type.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  /// `bytes` that start `shift` after a multiple of `alignment`.
  GuardedBuffer(Bytes bytes, size_t alignment, size_t shift = 0);
  std::byte* data() { return storage_.data() + start_; }
  const std::byte* data() const { return storage_.data() + start_; }
  size_t size() const { return size_; }
  /// Whether the guards are unchanged.
  bool intact() const;

 private:
  std::vector<std::byte> storage_;
  size_t start_ = 0;
  size_t size_ = 0;
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_ELEMENTS_H_
