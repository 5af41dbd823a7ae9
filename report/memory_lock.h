#ifndef STOWAGE_REPORT_MEMORY_LOCK_H_
#define STOWAGE_REPORT_MEMORY_LOCK_H_

// A memory lock: the memory of steps, stored in a file beside the code, like a dependency
// lock. Comparing a plan with the lock finds a change that makes a step larger, and names
// the buffers that grew with the line that made each.
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
// The file is JSON with a line for each buffer, so that a review shows what changed:
//
//   {"format": "stowage-memory-lock", "version": 1, "programs": [
//    {"name": "train", "device": "cpu, 2 threads", "alignment": 64,
//     "arena_bytes": 528128, "host_bytes": 0, "lower_bound_bytes": 528128,
//     "phases": [
//      {"phase": "forward", "peak_bytes": 409600, "live": [
//       {"name": "h", "bytes": 256, "source": "model.cc:12"}, ...]}, ...]}]}
//
// Workspace of kernels depends on the device and its threads: a plan file names its
// device, and plans for different ones are not compared.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "report/plan_json.h"

namespace stowage {

/// The phases of a step, in their order.
inline constexpr Phase kLockedPhases[] = {Phase::kForward, Phase::kBackward,
                                          Phase::kUpdate};

struct LockedBuffer {
  std::string name;
  Bytes bytes = 0;
  std::string source = {};  // "model.cc:12" that made it; empty: unknown

  friend bool operator==(const LockedBuffer&, const LockedBuffer&) = default;
};

/// The peak within a phase, and the buffers live there, by name.
struct LockedPhase {
  std::string phase;  // "forward", "backward", "update"
  Bytes peak = 0;
  std::vector<LockedBuffer> live = {};

  friend bool operator==(const LockedPhase&, const LockedPhase&) = default;
};

struct LockedProgram {
  std::string name;
  std::string device = {};  // as PlanRequest::device
  Bytes alignment = 0;
  Bytes arena = 0, host = 0, lower_bound = 0;
  std::vector<LockedPhase> phases = {};

  friend bool operator==(const LockedProgram&, const LockedProgram&) = default;
};

struct MemoryLock {
  std::vector<LockedProgram> programs = {};

  friend bool operator==(const MemoryLock&, const MemoryLock&) = default;
};

/// The program of that name; null without one.
const LockedProgram* Find(const MemoryLock& lock, std::string_view name);

/// The figures of a plan. Linear in nodes, values and buffers, except for sorting.
LockedProgram LockProgram(std::string name, const PlanFile& file);

/// The file's contents; equal locks give equal bytes.
std::string ToText(const MemoryLock& lock);

/// Reads the output of ToText. Error kInvalidArgument for anything else, naming the
/// problem.
Result<MemoryLock> ParseMemoryLock(std::string_view text);

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

#endif  // STOWAGE_REPORT_MEMORY_LOCK_H_
