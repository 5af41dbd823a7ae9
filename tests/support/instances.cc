#include "tests/support/instances.h"

#include <cstdlib>

#include "base/sanitizers.h"

namespace stowage::testing {

bool TakesAllInstances() {
  constexpr bool kIsSlow = STOWAGE_ASAN || STOWAGE_TSAN;
  return !kIsSlow || std::getenv("STOWAGE_ALL_INSTANCES") != nullptr;
}

}  // namespace stowage::testing
