#ifndef STOWAGE_REPORT_MEMORY_CHANGES_H_
#define STOWAGE_REPORT_MEMORY_CHANGES_H_

// What steps take now, compared with a memory lock (report/memory_lock.h): which figures
// changed, and of a peak that rose which buffers, with the line that made each.
//
//   Result<MemoryChanges> changes = CompareLocks(locked, now);
//   std::cout << ToText(*changes);
//   //   train: peak of forward 409,600 -> 410,624 bytes (+1024)
//   //     +1024  h, made at model.cc:12
//   return changes->grew ? 1 : 0;

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "report/memory_lock.h"

namespace stowage {

/// A buffer that takes more than it did, or was not there.
struct GrownBuffer {
  std::string name;
  Bytes before = 0, now = 0;
  std::string source = {};
};

/// A figure that is another now.
struct ChangedFigure {
  std::string program;
  std::string figure;  // "arena_bytes", "host_bytes", "forward", ...
  Bytes before = 0, now = 0;
  /// Of a phase whose peak is higher: the largest growth first.
  std::vector<GrownBuffer> buffers = {};
};

struct MemoryChanges {
  std::vector<ChangedFigure> figures;
  bool grew = false;  // whether any is more
};

/// What changed from `locked` to `now`, program by program. Errors kInvalidArgument: a
/// program that one of them lacks, and one that was planned for another device or alignment,
/// which are named.
Result<MemoryChanges> CompareLocks(const MemoryLock& locked,
                                   const MemoryLock& now);

/// The changes for people: a line for each figure, and for at most `limit` buffers of each
/// phase; "" where nothing changed.
std::string ToText(const MemoryChanges& changes, size_t limit = 10);
/// {"grew": ..., "changes": [{"program", "figure", "before", "now", "buffers"}, ...]}.
nlohmann::ordered_json ToJson(const MemoryChanges& changes);
/// A page with a table of all of it, which needs nothing else.
std::string ToHtml(const MemoryChanges& changes);

}  // namespace stowage

#endif  // STOWAGE_REPORT_MEMORY_CHANGES_H_
