#include "tests/support/instances.h"

#include <cstdlib>

#include "base/sanitizers.h"

namespace stowage::testing {

bool TakesAllInstances() {
  const bool is_slow = STOWAGE_ASAN || STOWAGE_TSAN ||
                       std::getenv("STOWAGE_FEW_INSTANCES") != nullptr;
  return !is_slow || std::getenv("STOWAGE_ALL_INSTANCES") != nullptr;
}

}  // namespace stowage::testing
