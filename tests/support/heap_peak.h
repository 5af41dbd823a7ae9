#ifndef STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_
#define STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_

// How much of the heap something takes at its peak. Linking this replaces malloc and its
// relatives, hence operator new too, by some that add up what glibc's hand out.
//
//   const HeapPeak peak;
//   ReadOnnx(path);
//   CHECK(peak.bytes().value_or(0) < 10 * size);

#include <cstdint>
#include <optional>

namespace stowage::testing {

/// Of the whole process, all threads; one at a time.
class HeapPeak {
 public:
  /// Begins to watch.
  HeapPeak();

  /// The most that was handed out at once since then, beyond what was before; absent
  /// where it cannot be told: under a sanitizer, which has a malloc of its own, and
  /// without glibc.
  std::optional<int64_t> bytes() const;

 private:
  int64_t before_ = 0;
};

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_HEAP_PEAK_H_
