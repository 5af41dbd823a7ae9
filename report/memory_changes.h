#ifndef STOWAGE_REPORT_MEMORY_CHANGES_H_
#define STOWAGE_REPORT_MEMORY_CHANGES_H_

// Compares the current memory of steps with a memory lock (report/memory_lock.h): the
// figures that changed, and for a peak that rose the buffers, with the line that made
// each.
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

/// A buffer that grew, or is new.
struct GrownBuffer {
  std::string name;
  Bytes before = 0, now = 0;
  std::string source = {};
};

/// A figure that changed.
struct ChangedFigure {
  std::string program;
  std::string figure;  // "arena_bytes", "host_bytes", "forward", ...
  Bytes before = 0, now = 0;
  /// For a phase whose peak rose: the largest growth first.
  std::vector<GrownBuffer> buffers = {};
};

struct MemoryChanges {
  std::vector<ChangedFigure> figures;
  bool grew = false;  // true if any figure grew
};

/// The changes from `locked` to `now`, program by program. Errors kInvalidArgument: a
/// program that one of them lacks, or that was planned for another device or alignment;
/// the message names it.
Result<MemoryChanges> CompareLocks(const MemoryLock& locked,
                                   const MemoryLock& now);

/// The changes as text: a line for each figure, and for at most `limit` buffers of each
/// phase; "" if nothing changed.
std::string ToText(const MemoryChanges& changes, size_t limit = 10);
/// {"grew": ..., "changes": [{"program", "figure", "before", "now", "buffers"}, ...]}.
nlohmann::ordered_json ToJson(const MemoryChanges& changes);
/// A self-contained page with a table of all changes.
std::string ToHtml(const MemoryChanges& changes);

}  // namespace stowage

#endif  // STOWAGE_REPORT_MEMORY_CHANGES_H_
