#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace stowage::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: `%s`: this is a bug in Stowage\n",
               file, line, condition);
  std::abort();
}

}  // namespace stowage::internal
