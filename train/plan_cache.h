#ifndef STOWAGE_TRAIN_PLAN_CACHE_H_
#define STOWAGE_TRAIN_PLAN_CACHE_H_

// Caches plans in this process, and in a folder that other processes share.
//
// A key is the complete input of planning, and an entry is used only if its key is equal byte for
// byte. Damaged entries, and entries whose key differs but has the same hash, are ignored and
// reported. Any number of processes may write to the folder, because entries are written
// atomically. Deleting the folder costs nothing but time.
//
//   PlanCache cache("/home/me/.cache/stowage");
//   PlanCache::Lookup found = cache.Find(key);
//   if (!found.content) cache.Store(key, FittedStepToBytes(step));
//   Result<FittedStep> again = FittedStepFromBytes(*cache.Find(key).content);

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/fit/memory_optimizations.h"

namespace stowage {

/// How a plan used the cache.
enum class CacheUse { kOff, kMiss, kHit };
/// Returns "off", "miss" or "hit".
std::string_view CacheUseName(CacheUse use);

class PlanCache {
 public:
  /// Creates a cache in memory, and in `folder` unless it is "". Copies share their memory, so only
  /// one thread at a time may use them.
  explicit PlanCache(std::string folder = {});

  struct Lookup {
    std::optional<std::string> content = {};
    std::string note = {};  // why an entry was ignored
  };
  Lookup Find(std::string_view key) const;

  /// Stores an entry. Returns kIo if the folder cannot be created or written to; the entry is then
  /// only in memory.
  Status Store(std::string_view key, std::string content);

  /// Drops the entries in the memory of all copies. The folder is unchanged.
  void Forget() const;

  const std::string& folder() const { return folder_; }

 private:
  struct Memory;

  std::string PathOf(std::string_view key) const;

  std::string folder_;
  std::shared_ptr<Memory> memory_;
};

/// Returns $XDG_CACHE_HOME/stowage, or ~/.cache/stowage if that variable is not set. Returns "" if
/// neither XDG_CACHE_HOME nor HOME is set.
std::string DefaultPlanCacheFolder();

/// Returns the graph (ir/graph_bytes.h), plan and costs of a fitted step as bytes. The passes are
/// omitted, since they describe the planning run.
std::string FittedStepToBytes(const FittedStep& step);

/// Parses the result of FittedStepToBytes, and validates graph and plan like any others. Only the
/// fingerprint of the graph is not checked: this would take as long as everything else, and the
/// cache's digest covers both. Returns kInvalidArgument if the bytes are not a fitted step, or the
/// plan is not valid according to ValidatePlan.
Result<FittedStep> FittedStepFromBytes(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_PLAN_CACHE_H_
