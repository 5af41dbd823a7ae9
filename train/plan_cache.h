#ifndef STOWAGE_TRAIN_PLAN_CACHE_H_
#define STOWAGE_TRAIN_PLAN_CACHE_H_

// Caches plans in the memory of this process, and in a folder that processes can share.
//
// A key is the complete input of planning, and an entry is used only if its key is equal byte for
// byte. Find ignores damaged entries, and entries of another key with the same hash, and reports
// them in Lookup::note. Any number of processes may write to the folder, because entries are
// written atomically. The folder may be deleted at any time. Plans are then computed again.
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

/// How a plan used the cache: kOff without a cache, kMiss if it was computed, kHit if it was found.
enum class CacheUse { kOff, kMiss, kHit };
/// Returns "off", "miss" or "hit".
std::string_view CacheUseName(CacheUse use);

class PlanCache {
 public:
  /// Creates a cache in memory and, unless `folder` is "", in `folder`. Copies of the object share
  /// the cache in memory, so only one thread at a time may use an object or its copies.
  explicit PlanCache(std::string folder = {});

  struct Lookup {
    std::optional<std::string> content = {};
    std::string note = {};  // why an entry was ignored; "" if none was
  };
  Lookup Find(std::string_view key) const;

  /// Stores an entry, replacing an entry of the same key. Returns kIo if the folder cannot be
  /// created or written to. The entry is then only in memory.
  Status Store(std::string_view key, std::string content);

  /// Removes all entries from memory, for all copies of this object. The folder is unchanged.
  void Forget() const;

  const std::string& folder() const { return folder_; }

 private:
  struct Memory;

  std::string PathOf(std::string_view key) const;

  std::string folder_;
  std::shared_ptr<Memory> memory_;
};

/// Returns $XDG_CACHE_HOME/stowage, or $HOME/.cache/stowage if XDG_CACHE_HOME is not set or empty.
/// Returns "" if both variables are not set or empty.
std::string DefaultPlanCacheFolder();

/// Returns the graph (ir/graph_bytes.h), plan and costs of a fitted step as bytes.
/// FittedStep::passes is omitted, since it describes how the step was planned.
std::string FittedStepToBytes(const FittedStep& step);

/// Parses the result of FittedStepToBytes, and validates the graph and the plan
/// (planner/validate_plan.h). The fingerprint of the graph is not compared, since computing it
/// would double the time. The digest that PlanCache stores with an entry covers the graph and the
/// fingerprint. Returns kInvalidArgument if the bytes are not a fitted step, or if the plan is not
/// valid according to ValidatePlan.
Result<FittedStep> FittedStepFromBytes(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_PLAN_CACHE_H_
