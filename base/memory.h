#ifndef STOWAGE_BASE_MEMORY_H_
#define STOWAGE_BASE_MEMORY_H_

// Reports the memory that is available to this process on Linux. Because of overcommit, an
// allocation that exceeds this memory often succeeds, and the process is killed later, when it
// writes to the block. Large allocations are therefore checked first.
//
//   STOWAGE_RETURN_IF_ERROR(CheckMemory("an arena", 8'000'000'000));

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

struct MemoryLeft {
  Bytes bytes = 0;
  /// The memory of which `bytes` are left: "the machine's 64.0 GiB" or "the 8.0 GiB of its cgroup".
  std::string of;
};

/// Returns the memory that this process can still use: the minimum of the machine's available
/// memory (MemAvailable plus free swap) and the memory that remains under each limit of this
/// process's cgroups and their ancestors (cgroups version 1 or 2). File caches count as unused.
/// Returns nullopt if the system reports none of these numbers. The numbers are read from files in
/// `root`/proc and `root`/sys, so that tests can provide other files.
std::optional<MemoryLeft> FindMemoryLeft(const std::string& root = "");

struct CgroupLimit {
  Bytes bytes = 0;
  /// The file that states the limit, such as "/sys/fs/cgroup/jobs/memory.max".
  std::string file;
};

/// Returns the smallest memory limit of this process's cgroups and their ancestors (cgroups version
/// 1 or 2). Returns nullopt if none has a limit. `root` has the same meaning as in FindMemoryLeft.
std::optional<CgroupLimit> FindCgroupLimit(const std::string& root = "");

/// Returns the heap's free memory to the system, if the C library supports it. It is called after
/// planning or autotuning, before an arena is allocated.
void ReturnFreeMemory();

/// Fixes glibc's mmap threshold at 128 KiB, so that larger blocks return to the system when
/// they are freed. By default the threshold grows, so blocks that planning has freed stay in a
/// fragmented heap. Programs call this function at their start. The library never calls it.
void KeepLargeBlocksApart();

/// Returns kDevice if FindMemoryLeft(root) reports less than `bytes`. The message states both
/// numbers, and names `what`, such as "an arena", as what needs the memory. Returns OK if `bytes`
/// is below 1 MiB or the available memory is unknown.
Status CheckMemory(std::string_view what, Bytes bytes,
                   const std::string& root = "");

}  // namespace stowage

#endif  // STOWAGE_BASE_MEMORY_H_
