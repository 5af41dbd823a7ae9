#ifndef STOWAGE_BASE_VERSION_H_
#define STOWAGE_BASE_VERSION_H_

// The version of this library, as in MODULE.bazel.

#include <string_view>

namespace stowage {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace stowage

#endif  // STOWAGE_BASE_VERSION_H_
