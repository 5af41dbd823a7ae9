#include "base/result.h"

namespace stowage {

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
    case ErrorCode::kNotFinite:
      return "not finite";
  }
  STOWAGE_CHECK(false);
}

}  // namespace stowage
