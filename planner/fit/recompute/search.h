#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_SEARCH_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_SEARCH_H_

// Searches what to recompute, for all good trade-offs between peak memory and extra cost at
// once, whatever the budget: so that a larger budget never costs more than a smaller one.
//
// Small steps are solved exactly (planner/fit/recompute/exact.h). For others:
//
// 1. The corners of the cuts of planner/fit/recompute/chain.h, at several times, are the
//    start. From one corner to the next, values change in independent groups, one a layer:
//    layers change one by one, the earliest first, because its values wait longest. Forward
//    divided into segments of which only the borders are kept gives more.
// 2. Single values climb down a ladder of targets (planner/fit/recompute/climb.h).
// 3. Whole classes of values climb down (planner/fit/recompute/class_climb.h), which finds
//    the small budgets that single changes do not reach, and the points of the frontier are
//    filled up and refined by single changes again.
// 4. If forward is a chain of equal pieces, the best schedules of those are known
//    (planner/fit/recompute/chain.h), and are added.

#include <functional>
#include <vector>

#include "base/bytes.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

/// What may run again, together.
struct FoundScript {
  Bytes peak = 0;   // of the live bytes that are packed
  double cost = 0;  // extra
  Script script;
};

struct RecomputeSearchOptions {
  /// By value: whether the user has decided. Empty: no decisions.
  std::vector<uint8_t> always_kept = {};
  std::vector<uint8_t> always_recomputed = {};
  bool gradients = true;  // may run again too
  double effort = 1;      // as a share of the usual
  /// Called with every choice that is looked at, if there is one to call.
  std::function<void()> on_choice = {};
};

/// What was found, none of it beaten by another in both respects, by falling
/// peak and rising extra cost; the first is the step as given (as
/// decided by the user). The effort is bounded in simulations, not in time:
/// deterministic.
std::vector<FoundScript> SearchRecompute(const Graph& graph,
                                         Simulation& simulation,
                                         const RecomputeSearchOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_SEARCH_H_
