#ifndef STOWAGE_REPORT_MEMORY_LOCK_H_
#define STOWAGE_REPORT_MEMORY_LOCK_H_

// Writes and compares memory locks. A memory lock is a file that stores the memory use of
// training steps. It is kept with the source code, like a dependency lock. Comparing a plan with
// the lock detects changes that increase the memory of a step. The comparison names the buffers
// that grew, and the source line that created each buffer.
//
//   MemoryLock lock = {.programs = {LockProgram("train", plan_file)}};
//   std::string text = ToText(lock);                  // memory.lock
//   Result<MemoryLock> locked = ParseMemoryLock(text);
//   Result<MemoryChanges> changes = CompareLocks(*locked, lock);
//   std::cout << ToText(*changes);
//   //   train: peak of forward 409,600 -> 410,624 bytes (+1024)
//   //     +1024  h, made at model.cc:12
//   return changes->grew ? 1 : 0;
//
// The file is JSON with one line per buffer, so that a code review shows the changes:
//
//   {"format": "stowage-memory-lock", "version": 1, "programs": [
//    {"name": "train", "device": "cpu, 2 threads", "alignment": 64,
//     "arena_bytes": 528128, "host_bytes": 0, "lower_bound_bytes": 528128,
//     "phases": [
//      {"phase": "forward", "peak_bytes": 409600, "live": [
//       {"name": "h", "bytes": 256, "source": "model.cc:12"}, ...]}, ...]}]}
//
// The workspace of kernels depends on the device and its number of threads. A plan file
// (report/plan_json.h) therefore names its device, and plans for different devices are not
// compared.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "report/plan_json.h"

namespace stowage {

/// The phases of a step, in order.
inline constexpr Phase kLockedPhases[] = {Phase::kForward, Phase::kBackward,
                                          Phase::kUpdate};

struct LockedBuffer {
  std::string name;
  Bytes bytes = 0;
  /// The source line that created the buffer's first value: "model.cc:12". Empty if unknown.
  std::string source = {};

  friend bool operator==(const LockedBuffer&, const LockedBuffer&) = default;
};

/// The peak within a phase, and the buffers that are live at the peak, sorted by name.
struct LockedPhase {
  std::string phase;  // "forward", "backward" or "update".
  /// The largest sum of live bytes at a node of the phase, without padding.
  Bytes peak = 0;
  std::vector<LockedBuffer> live = {};

  friend bool operator==(const LockedPhase&, const LockedPhase&) = default;
};

struct LockedProgram {
  std::string name;
  std::string device = {};  // See PlanRequest::device.
  Bytes alignment = 0;
  Bytes arena = 0, host = 0, lower_bound = 0;
  std::vector<LockedPhase> phases = {};

  friend bool operator==(const LockedProgram&, const LockedProgram&) = default;
};

struct MemoryLock {
  std::vector<LockedProgram> programs = {};

  friend bool operator==(const MemoryLock&, const MemoryLock&) = default;
};

/// Returns the program with this name, or null.
const LockedProgram* Find(const MemoryLock& lock, std::string_view name);

/// Returns the entry of a plan in a lock. Linear in the number of nodes, values and buffers, except
/// for sorting.
LockedProgram LockProgram(std::string name, const PlanFile& file);

/// Returns the contents of a lock file. Equal locks give equal contents.
std::string ToText(const MemoryLock& lock);

/// Parses the output of ToText. Returns kInvalidArgument, naming the problem, if the text is not
/// JSON, lacks a field, or has a field of the wrong type or two programs of the same name.
Result<MemoryLock> ParseMemoryLock(std::string_view text);

/// A buffer that grew or is new.
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
  /// For a phase whose peak increased: the buffers that grew, largest increase first.
  std::vector<GrownBuffer> buffers = {};
};

struct MemoryChanges {
  std::vector<ChangedFigure> figures;
  bool grew = false;  // True if any figure increased.
};

/// Returns the changes from `locked` to `now`, program by program. Compares the sizes of the arena
/// and of host memory, and the peak of each phase, but not the lower bound. Returns
/// kInvalidArgument, naming the program, if a program is in only one of the locks, or was planned
/// for different devices or alignments.
Result<MemoryChanges> CompareLocks(const MemoryLock& locked,
                                   const MemoryLock& now);

/// Returns the changes as text, with one line per figure. The lines of the phase's grown buffers,
/// at most `limit`, follow the line of the phase. Returns "" if nothing changed.
std::string ToText(const MemoryChanges& changes, size_t limit = 10);
/// Returns the changes in the form
/// {"grew": ..., "changes": [{"program", "figure", "before", "now", "buffers"}, ...]}.
nlohmann::ordered_json ToJson(const MemoryChanges& changes);
/// Returns a self-contained HTML page with a table of all changes.
std::string ToHtml(const MemoryChanges& changes);

}  // namespace stowage

#endif  // STOWAGE_REPORT_MEMORY_LOCK_H_
