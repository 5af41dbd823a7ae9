#ifndef STOWAGE_TOOLS_HEAP_COUNTER_H_
#define STOWAGE_TOOLS_HEAP_COUNTER_H_

// Counts the heap allocations of the process in all threads. It counts calls of malloc and related
// functions, and therefore also operator new and Eigen. Linking this library replaces malloc by a
// function that counts calls and forwards them to glibc.
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

/// Returns the number of allocations so far. The result is absent without glibc, and under a
/// sanitizer, which replaces malloc itself.
std::optional<int64_t> HeapAllocations();

/// The number of most recent callers that are recorded.
inline constexpr int64_t kRememberedHeapCallers = 1024;

/// Returns the callers of the last `count` allocations: the files of the program and of its shared
/// libraries that called malloc or a related function, with the number of their calls. Allocations
/// of operator new count for the file of the C++ library. Allocations that are no longer recorded,
/// and allocations of code that belongs to no file, count for "". The function itself allocates;
/// its own allocations are excluded if no other thread allocates at the same time.
std::map<std::string, int64_t> HeapCallers(int64_t count);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_HEAP_COUNTER_H_
