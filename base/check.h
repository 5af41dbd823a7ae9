#ifndef STOWAGE_BASE_CHECK_H_
#define STOWAGE_BASE_CHECK_H_

// Internal checks: our own invariants. A failed check is a bug in Stowage,
// never a user's mistake; it prints file and line and aborts. User mistakes are
// Results (base/result.h).
//
//   STOWAGE_CHECK(slot.end() <= region_bytes);

namespace stowage::internal {

/// Prints "file:line: check failed: `condition`: this is a bug in Stowage" to
/// stderr and aborts. The one place where the library writes to a stream.
[[noreturn]] void CheckFailed(const char* condition, const char* file,
                              int line);

}  // namespace stowage::internal

#define STOWAGE_CHECK(condition) \
  (static_cast<bool>(condition)  \
       ? static_cast<void>(0)    \
       : ::stowage::internal::CheckFailed(#condition, __FILE__, __LINE__))

#endif  // STOWAGE_BASE_CHECK_H_
