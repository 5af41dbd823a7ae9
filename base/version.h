#ifndef STOWAGE_BASE_VERSION_H_
#define STOWAGE_BASE_VERSION_H_

// Defines the version of this library, which equals the version in MODULE.bazel.

#include <string_view>

namespace stowage {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace stowage

#endif  // STOWAGE_BASE_VERSION_H_
