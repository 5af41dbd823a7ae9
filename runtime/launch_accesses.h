#ifndef STOWAGE_RUNTIME_LAUNCH_ACCESSES_H_
#define STOWAGE_RUNTIME_LAUNCH_ACCESSES_H_

// Which bytes a launch touches, and so which launches may run beside one another. That is
// asked of where operands, results and scratch lie, not of their names: a plan gives
// bytes that have died to others.
//
//   const LaunchAccesses copy(reload), next(relu);
//   if (!next.MayRunBeside(copy)) Wait();

#include <cstdint>
#include <vector>

#include "runtime/kernel.h"

namespace stowage {

class LaunchAccesses {
 public:
  explicit LaunchAccesses(const Launch& launch);

  /// Whether neither writes what the other reads or writes. Linear in the operands and
  /// results of the one, times those of the other.
  bool MayRunBeside(const LaunchAccesses& other) const;

 private:
  // Addresses, half-open: from the first to the last byte that a view reaches.
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
  };
  using Ranges = std::vector<Range>;

  static Range RangeOf(const TensorView& view);
  static bool Meet(const Ranges& some, const Ranges& others);

  Ranges reads_, writes_;
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_LAUNCH_ACCESSES_H_
