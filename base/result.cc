#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace stowage::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: `%s`: this is a bug in Stowage\n",
               file, line, condition);
  std::abort();
}

}  // namespace stowage::internal

namespace stowage {

void DieOf(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(1);
}

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kBudgetTooSmall:
      return "budget too small";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kRankLost:
      return "rank lost";
    case ErrorCode::kNotFinite:
      return "not finite";
  }
  STOWAGE_CHECK(false);
}

}  // namespace stowage
