#ifndef STOWAGE_BASE_MEMORY_H_
#define STOWAGE_BASE_MEMORY_H_

// The memory that is available to this process on Linux. Because of overcommit, allocating
// a larger block often succeeds, and the process is killed when it writes to it; large
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
  std::string of;  // the machine, or a cgroup with its limit
};

/// The minimum of the machine's available memory (MemAvailable and free swap) and the
/// remainders of the limits of this process's cgroups, version 1 or 2; file caches count as
/// free. Absent if the system does not report it. `root` is the folder of /proc and /sys.
std::optional<MemoryLeft> FindMemoryLeft(const std::string& root = "");

struct CgroupLimit {
  Bytes bytes = 0;
  std::string file;  // its source: "/sys/fs/cgroup/jobs/memory.max"
};

/// The smallest memory limit of this process's cgroups, version 1 or 2, and their
/// ancestors. Absent if none has a limit.
std::optional<CgroupLimit> FindCgroupLimit(const std::string& root = "");

/// Returns the heap's free memory to the system, if the C library supports it. Called
/// between planning and allocating an arena.
void ReturnFreeMemory();

/// Fixes glibc's mmap threshold at 128 KiB, so that larger blocks return to the system when
/// they are freed. By default the threshold grows, and blocks of a finished search stay in
/// the fragmented heap. For programs, at their start; the library never calls it.
void KeepLargeBlocksApart();

/// Error kDevice, with the numbers, if `bytes` more are not available. `what` is the
/// subject of the message: "an arena". Blocks below 1 MiB always pass.
Status CheckMemory(std::string_view what, Bytes bytes,
                   const std::string& root = "");

}  // namespace stowage

#endif  // STOWAGE_BASE_MEMORY_H_
