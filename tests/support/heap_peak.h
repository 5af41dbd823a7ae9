#ifndef STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_
#define STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_

// Measures the peak heap usage of a scope. Linking this library replaces malloc and related
// functions, and therefore operator new, with wrappers of glibc's functions that count the
// allocated bytes.
//
//   const HeapPeak peak;
//   ReadOnnx(path);
//   CHECK(peak.bytes().value_or(0) < 10 * size);

#include <cstdint>
#include <optional>

namespace stowage::testing {

/// Measures the heap usage of all threads of the process. At most one object may exist at a time.
class HeapPeak {
 public:
  /// Starts the measurement.
  HeapPeak();

  /// Returns the peak number of bytes in use since construction, minus the bytes in use at
  /// construction. Returns nullopt without glibc and under a sanitizer that has its own malloc.
  std::optional<int64_t> bytes() const;

 private:
  int64_t before_ = 0;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_
