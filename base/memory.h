#ifndef STOWAGE_BASE_MEMORY_H_
#define STOWAGE_BASE_MEMORY_H_

// How much memory this process can still have, as Linux tells it. A block that is
// larger than that can often be allocated all the same, and the process is killed
// without a word when it is written to; so ask first.
//
//   Status there = CheckMemory("an arena", 8'000'000'000);
//   if (!there.ok()) return there.error();

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

struct MemoryLeft {
  Bytes bytes = 0;
  std::string of;  // whose: the machine's, or that of a cgroup with its limit
};

/// The least of what the machine has (MemAvailable and free swap) and what the
/// cgroups of this process, of version 1 or 2, still allow; file caches count as
/// free. Absent where the system does not tell. `root` is where /proc and /sys
/// are.
std::optional<MemoryLeft> FindMemoryLeft(const std::string& root = "");

struct CgroupLimit {
  Bytes bytes = 0;
  std::string file;  // it is read from: "/sys/fs/cgroup/jobs/memory.max"
};

/// The smallest memory limit of the cgroups of this process, of version 1 or 2, and of those
/// around them. Absent where none has a limit. `root` as above.
std::optional<CgroupLimit> FindCgroupLimit(const std::string& root = "");

/// Gives what the heap holds and nobody uses back to the system, where its library can:
/// what a search for a plan took, before an arena is taken.
void ReturnFreeMemory();

/// Lets blocks of 128 KiB and more always be the system's own, which go back to it when
/// they are freed. glibc's heap otherwise takes larger and larger ones among the small
/// once some were freed, and what a search took is then held by the little that lives
/// on between. For programs, before they allocate much; a library leaves that to them.
void KeepLargeBlocksApart();

/// Error kDevice, with the numbers, when `bytes` more cannot be had. `what` it is
/// opens the message: "an arena". Blocks below 1 MiB are not asked about.
Status CheckMemory(std::string_view what, Bytes bytes,
                   const std::string& root = "");

}  // namespace stowage

#endif  // STOWAGE_BASE_MEMORY_H_
