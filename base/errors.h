#ifndef STOWAGE_BASE_ERRORS_H_
#define STOWAGE_BASE_ERRORS_H_

// Errors of the usual codes, their messages put together as StrCat does.
//
//   if (rows < 1) return InvalidArgumentError("[data] ", rows, " rows; expected 1");

#include "base/result.h"
#include "base/strings.h"

namespace stowage {

template <typename... Args>
Error InvalidArgumentError(const Args&... args) {
  return {ErrorCode::kInvalidArgument, StrCat(args...)};
}

template <typename... Args>
Error UnsupportedError(const Args&... args) {
  return {ErrorCode::kUnsupported, StrCat(args...)};
}

template <typename... Args>
Error DeviceError(const Args&... args) {
  return {ErrorCode::kDevice, StrCat(args...)};
}

}  // namespace stowage

#endif  // STOWAGE_BASE_ERRORS_H_
