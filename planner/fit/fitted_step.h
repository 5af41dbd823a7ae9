#ifndef STOWAGE_PLANNER_FIT_FITTED_STEP_H_
#define STOWAGE_PLANNER_FIT_FITTED_STEP_H_

// A training step as levers made it fit: what to run, where every byte of it
// lies, and what that costs beyond the step as it was given.

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan.h"

namespace stowage {

/// A node that runs again, and why.
struct Remade {
  /// Of its first dropped result; in a body, "<value>@<first result of its node>".
  std::string name;
  Bytes freed = 0;  // bytes of its results that would be kept otherwise
  double flops =
      0;          // of its further runs, and of what runs again for them only
  int times = 0;  // how often it runs again
};

/// One pass of the pipeline (planner/fit/fit.h).
struct PassReport {
  std::string name;      // "recompute"
  bool applied = false;  // there was something for it to do
  bool changed = false;  // and it did
  Bytes arena = 0;       // after it
  double seconds = 0;
};

/// What a budget costs.
struct Price {
  int64_t pieces = 1;        // that the batch is taken in
  fit::HostUse host = {};    // what is kept on the host
  int recomputed_nodes = 0;  // views not counted
  double extra_flops = 0;    // of what runs again
  double extra_percent = 0;  // these, of the step's operations without
  double extra_cost = 0;     // of what runs again, by FitOptions::cost
  /// No recomputation that fits the budget costs less, whatever is dropped and
  /// when, if the nodes of the step keep their order and the same is on the
  /// host. Bodies are taken to be as low as they get for nothing
  /// (planner/fit/recompute/bodies.h). 0 without a budget.
  double least_extra_cost = 0;
};

/// One bargain: the smallest budget it fits, and what is extra beyond the step
/// of fewest pieces: pieces and copies included in extra_cost, pieces in
/// extra_flops.
struct Bargain {
  Bytes arena = 0;
  Price price;
};

struct FittedStep {
  Graph graph;
  Plan plan;  // for `graph`
  Price price;
  double flops = 0;  // of the step in so many pieces, before recomputation
  double cost = 0;   // likewise, by FitOptions::cost, copies included
  std::vector<Remade> remade = {};  // most bytes freed first
  /// No order of the nodes that are in no body takes a smaller arena; absent when
  /// none was looked for.
  std::optional<Bytes> order_bound = {};
  std::vector<PassReport> passes = {};  // in the order in which they ran

  double total_cost() const { return cost + price.extra_cost; }
};

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_FITTED_STEP_H_
