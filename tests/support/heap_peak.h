#ifndef STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_
#define STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_

// The peak of the heap while an object lives. Linking this replaces malloc and its relatives,
// hence operator new too, by functions that count the bytes that glibc's return.
//
//   const HeapPeak peak;
//   ReadOnnx(path);
//   CHECK(peak.bytes().value_or(0) < 10 * size);

#include <cstdint>
#include <optional>

namespace stowage::testing {

/// Counts all threads of the process. At most one object may exist at a time.
class HeapPeak {
 public:
  /// Starts to count.
  HeapPeak();

  /// The most bytes in use at once since then, beyond those in use before. Absent under a
  /// sanitizer, which has its own malloc, and without glibc.
  std::optional<int64_t> bytes() const;

 private:
  int64_t before_ = 0;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_
