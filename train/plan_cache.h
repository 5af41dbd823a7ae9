#ifndef STOWAGE_TRAIN_PLAN_CACHE_H_
#define STOWAGE_TRAIN_PLAN_CACHE_H_

// Caches plans, in this process and in a folder for others.
//
// A key is the complete input of planning; an entry is used only if its key is equal byte for
// byte. Damaged entries, and entries of another key with the same hash, are ignored and
// reported. Any number of processes may write the folder: entries appear whole or not at all.
// Deleting the folder costs only time.
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

/// The role of the cache in a plan.
enum class CacheUse { kOff, kMiss, kHit };
/// "off", "miss", "hit".
std::string_view CacheUseName(CacheUse use);

class PlanCache {
 public:
  /// Caches in memory, and in `folder` unless it is "". Copies share their memory, and may be
  /// used by one thread at a time.
  explicit PlanCache(std::string folder = {});

  struct Lookup {
    std::optional<std::string> content = {};
    std::string note = {};  // the error of an entry that was ignored
  };
  Lookup Find(std::string_view key) const;

  /// Error kIo: the folder cannot be created or written; the entry stays in memory.
  Status Store(std::string_view key, std::string content);

  /// Drops the entries in memory, of all copies; the folder keeps its own.
  void Forget() const;

  const std::string& folder() const { return folder_; }

 private:
  struct Memory;

  std::string PathOf(std::string_view key) const;

  std::string folder_;
  std::shared_ptr<Memory> memory_;
};

/// $XDG_CACHE_HOME/stowage, else ~/.cache/stowage; "" if neither variable is set.
std::string DefaultPlanCacheFolder();

/// The graph (ir/graph_bytes.h), plan and costs of a fitted step as bytes. Passes, which
/// describe the run that planned, are omitted.
std::string FittedStepToBytes(const FittedStep& step);

/// Parses the result of FittedStepToBytes, and validates graph and plan like any others, but
/// for the fingerprint of the graph: that takes as long as all the rest, and the cache's
/// digest covers both. Errors kInvalidArgument: bytes that are not a fitted step; a plan that
/// ValidatePlan refuses.
Result<FittedStep> FittedStepFromBytes(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_PLAN_CACHE_H_
