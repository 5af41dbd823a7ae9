#ifndef STOWAGE_TOOLS_HEAP_COUNTER_H_
#define STOWAGE_TOOLS_HEAP_COUNTER_H_

// Counts heap allocations of the whole process, all threads: malloc and its
// relatives, hence operator new and Eigen too. Linking this replaces malloc by
// one that counts and then calls glibc's own.
//
//   const std::optional<int64_t> before = HeapAllocations();
//   runner.Step();

#include <cstdint>
#include <optional>

namespace stowage::tools {

/// Allocations so far; nothing where they cannot be counted: under a sanitizer,
/// which has a malloc of its own, and without glibc.
std::optional<int64_t> HeapAllocations();

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_HEAP_COUNTER_H_
