#ifndef STOWAGE_RUNTIME_LAUNCH_ACCESSES_H_
#define STOWAGE_RUNTIME_LAUNCH_ACCESSES_H_

// The bytes that a launch accesses, to decide which launches may overlap. This depends on
// the addresses of operands, results and workspace, not on their names: a plan reuses the
// bytes of dead values.
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

  /// Returns whether neither writes bytes that the other reads or writes. Linear in the
  /// product of their numbers of operands and results.
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
