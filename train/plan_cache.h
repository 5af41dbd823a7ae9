#ifndef STOWAGE_TRAIN_PLAN_CACHE_H_
#define STOWAGE_TRAIN_PLAN_CACHE_H_

// Remembers what planning found, so that a plan found once is found again: in
// this process, and in a folder for others.
//
// A key is the whole of what was asked for, written out; an entry is taken only
// where its key is equal to the last byte, not where a hash is. What is damaged,
// or of another key with the same hash, is as if it were not there, and said.
// Losing the folder loses nothing but time; writing it in many processes at once
// is safe, for an entry appears as a whole or not at all.
//
//   PlanCache cache("/home/me/.cache/stowage");
//   PlanCache::Lookup found = cache.Find(key);
//   if (!found.content) cache.Store(key, Plan(...));

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/fit/memory_optimizations.h"

namespace stowage {

/// What a cache did for a plan.
enum class CacheUse { kOff, kMiss, kHit };
/// "off", "miss", "hit".
std::string_view CacheUseName(CacheUse use);

class PlanCache {
 public:
  /// In memory, and in `folder` unless that is empty. Copies share what is in
  /// memory. One thread at a time may use them.
  explicit PlanCache(std::string folder = {});

  struct Lookup {
    std::optional<std::string> content = {};
    std::string note = {};  // what was wrong with an entry that was there
  };
  Lookup Find(std::string_view key) const;

  /// Errors, kIo: the folder cannot be made or written; what is in memory stays.
  Status Store(std::string_view key, std::string content);

  /// Lets go of what is in memory, for all copies; what is in the folder stays.
  void Forget() const;

  const std::string& folder() const { return folder_; }

 private:
  struct Memory;

  std::string PathOf(std::string_view key) const;

  std::string folder_;
  std::shared_ptr<Memory> memory_;
};

/// Where a user's caches lie: $XDG_CACHE_HOME/stowage, else ~/.cache/stowage;
/// empty where neither is known.
std::string DefaultPlanCacheFolder();

// A fitted step as a plan cache keeps it: its graph (ir/graph_bytes.h), its plan,
// and what it costs, in bytes that are quick to read.
//
//   cache.Store(key, FittedStepToBytes(step));
//   Result<FittedStep> again = FittedStepFromBytes(*cache.Find(key).content);

/// What is written reads back equal, but for the passes, which are of the run
/// that planned.
std::string FittedStepToBytes(const FittedStep& step);

/// Reads what FittedStepToBytes wrote, and validates graph and plan like any
/// others, but for one thing: that the fingerprint is the graph's, which costs as
/// much as all the rest, is left to the digest that a cache keeps over both.
/// Errors, kInvalidArgument: the bytes are no fitted step, or its plan breaks a
/// law (ValidatePlan).
Result<FittedStep> FittedStepFromBytes(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_PLAN_CACHE_H_
