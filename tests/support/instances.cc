#include "tests/support/instances.h"

#include <cstdlib>

#include "base/sanitizers.h"

namespace stowage::testing {

bool TakesAllInstances() {
  return !STOWAGE_ASAN || std::getenv("STOWAGE_ALL_INSTANCES") != nullptr;
}

}  // namespace stowage::testing
