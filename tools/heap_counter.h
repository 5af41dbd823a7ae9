#ifndef STOWAGE_TOOLS_HEAP_COUNTER_H_
#define STOWAGE_TOOLS_HEAP_COUNTER_H_

// Counts heap allocations of the whole process, all threads: malloc and its
// relatives, hence operator new and Eigen too. Linking this replaces malloc by
// one that counts and then calls glibc's own.
//
//   const std::optional<int64_t> before = HeapAllocations();
//   runner.Step();
//   const int64_t made = *HeapAllocations() - *before;
//   if (made > 0) std::cerr << HeapCallers(made).begin()->first;

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace stowage::tools {

/// Allocations so far; nothing where they cannot be counted: under a sanitizer,
/// which has a malloc of its own, and without glibc.
std::optional<int64_t> HeapAllocations();

/// How many callers are remembered, the last ones.
inline constexpr int64_t kRememberedHeapCallers = 1024;

/// Who made the last `count` allocations: the files of the program and of shared
/// libraries whose code called malloc or one of its relatives, each with how often.
/// What operator new allocates is told under the C++ library's file. The rest is
/// under "": what the last kRememberedHeapCallers do not hold, and code that
/// belongs to no file. Allocates, which it does not count among the `count` if it
/// is called before anything else allocates.
std::map<std::string, int64_t> HeapCallers(int64_t count);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_HEAP_COUNTER_H_
