#ifndef STOWAGE_BASE_MEMORY_H_
#define STOWAGE_BASE_MEMORY_H_

// Reports the memory that is available to this process on Linux. Because of overcommit, a larger
// allocation often succeeds, and the process is killed when it writes to the block. Large
// allocations are therefore checked first.
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
  /// The total, for messages: "the machine's 64.0 GiB" or "the 8.0 GiB of its cgroup".
  std::string of;
};

/// Returns the memory that this process can still use. It is the minimum of the machine's
/// available memory (MemAvailable plus free swap) and the unused memory under the limits of this
/// process's cgroups, version 1 or 2, and their ancestors. File caches count as unused. Returns
/// nullopt if the system does not report it. `root` is the folder that contains /proc and /sys.
std::optional<MemoryLeft> FindMemoryLeft(const std::string& root = "");

struct CgroupLimit {
  Bytes bytes = 0;
  /// The file that states the limit, such as "/sys/fs/cgroup/jobs/memory.max".
  std::string file;
};

/// Returns the smallest memory limit of this process's cgroups, version 1 or 2, and their
/// ancestors. Returns nullopt if none has a limit.
std::optional<CgroupLimit> FindCgroupLimit(const std::string& root = "");

/// Returns the heap's free memory to the system, if the C library supports it. Programs
/// call it after planning or autotuning, before they allocate an arena.
void ReturnFreeMemory();

/// Fixes glibc's mmap threshold at 128 KiB, so that larger blocks return to the system when
/// they are freed. By default the threshold grows, and the blocks of a finished search remain in
/// a fragmented heap. Programs call this function at their start. The library never calls it.
void KeepLargeBlocksApart();

/// Returns kDevice if fewer than `bytes` bytes are available. The message states both numbers, and
/// its subject is `what`, such as "an arena". Blocks below 1 MiB are not checked.
Status CheckMemory(std::string_view what, Bytes bytes,
                   const std::string& root = "");

}  // namespace stowage

#endif  // STOWAGE_BASE_MEMORY_H_
