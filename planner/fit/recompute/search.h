#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_SEARCH_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_SEARCH_H_

// Searches the fates of forward values for all good bargains between live bytes
// and extra cost at once, whatever the budget: so that a larger budget
// never costs more than a smaller one.
//
// Small steps are solved exactly (planner/fit/recompute/exact.h). For others the
// corners of the cuts of planner/fit/recompute/chain.h, at several times, are the
// start. From one corner to the next, values change in independent groups, one a
// layer: the layers are changed one by one, earliest first, because what is made
// there waits longest. Forward cut into segments of which only the borders are
// kept gives more. Then a ladder of targets is climbed down: at each, values are
// dropped by bytes above the target per extra cost, until it is met, and
// kept again where that does no harm. A large step takes all the effort before the
// ladder ends; its rest is climbed by lazy steps, which add to what was found. Values
// at like places of like layers form a class, and of a class only the first and the
// last are tried. Where forward is a chain of equal pieces, what is best of those is
// known (planner/fit/recompute/chain.h), and is added.

#include <functional>
#include <vector>

#include "base/bytes.h"
#include "planner/fit/recompute/rehearsal.h"

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
  std::vector<uint8_t> always_remade = {};
  bool gradients = true;  // may run again too
  double effort = 1;      // as a share of the usual
  /// Called with every choice that is looked at, if there is one to call.
  std::function<void()> on_choice = {};
};

/// What was found, none of it beaten by another in both respects, by falling
/// peak and rising extra cost; the first is the step as given (as
/// decided by the user). The effort is bounded in rehearsals, not in time:
/// deterministic.
std::vector<FoundScript> SearchRecompute(const Graph& graph,
                                         Rehearsal& rehearsal,
                                         const RecomputeSearchOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_SEARCH_H_
