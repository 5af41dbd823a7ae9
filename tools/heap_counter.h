#ifndef STOWAGE_TOOLS_HEAP_COUNTER_H_
#define STOWAGE_TOOLS_HEAP_COUNTER_H_

// Counts the heap allocations of the process, in all threads: malloc and its relatives, hence
// operator new and Eigen too. Linking this library replaces malloc by a function that counts
// and calls glibc's.
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

/// The number of allocations so far; absent under a sanitizer, which replaces malloc itself, and
/// without glibc.
std::optional<int64_t> HeapAllocations();

/// The number of most recent callers that are recorded.
inline constexpr int64_t kRememberedHeapCallers = 1024;

/// The callers of the last `count` allocations: the files of the program and its shared
/// libraries that called malloc or a relative, with their numbers. Allocations of operator new
/// count for the C++ library's file; those before the recorded ones, and of code of no file, for
/// "". Allocates itself, which is not included if nothing else has allocated in between.
std::map<std::string, int64_t> HeapCallers(int64_t count);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_HEAP_COUNTER_H_
