#ifndef STOWAGE_TOOLS_HEAP_COUNTER_H_
#define STOWAGE_TOOLS_HEAP_COUNTER_H_

// Counts the heap allocations of the process, in all threads. Every call of malloc or a related
// function counts, including calls by operator new and Eigen. Linking this library replaces malloc
// by a function that counts calls and forwards them to glibc.
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

/// Returns the number of allocations so far. Returns nullopt without glibc, and under a sanitizer,
/// which replaces malloc itself.
std::optional<int64_t> HeapAllocations();

/// The number of most recent allocations whose callers are recorded.
inline constexpr int64_t kRememberedHeapCallers = 1024;

/// Returns the callers of the last `count` allocations, as a map from a file to its number of
/// allocations. The file is the program or the shared library that called malloc or a related
/// function. For operator new, it is the C++ library. It is "" for allocations that are no longer
/// recorded, and for callers that belong to no file. The allocations of this function itself are
/// excluded if no other thread allocates at the same time.
std::map<std::string, int64_t> HeapCallers(int64_t count);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_HEAP_COUNTER_H_
