#ifndef STOWAGE_TESTS_SUPPORT_RUN_STEPS_H_
#define STOWAGE_TESTS_SUPPORT_RUN_STEPS_H_

// Runs a graph for several steps, with or without memory planning, and returns every value that a
// caller can see. Tests compare such runs bit by bit.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"

namespace stowage::testing {

struct RunOptions {
  int64_t steps = 2;
  uint64_t seed = 0;    // for params and inputs
  bool planned = true;  // if false, no two values share memory
  bool poison = false;
  /// Writes the inputs of a step, counted from 1. If empty, WriteRandomInputs writes them.
  std::function<void(Runner&, int64_t step)> write_inputs = {};
  Bytes alignment = kDefaultAlignment;
};

/// The bytes that a caller can see, keyed by name: every output after every step, counted from 0
/// ("loss@0"), and the final params and states.
using Visible = std::map<std::string, std::vector<std::byte>>;

/// Plans, validates and runs `graph` on `backend`. Prints the error and aborts if that fails.
Visible RunSteps(const Graph& graph, Backend& backend,
                 const RunOptions& options);

/// Initializes a session and runs its first program. Reads only `steps`, `seed` and `write_inputs`
/// of the options.
Visible RunSteps(Session& session, const RunOptions& options);

/// Returns the largest |a - b| / (1 + |b|) over all elements of two runs of one graph, or infinity
/// if an element is NaN. All visible values must be f32.
double LargestDifference(const Visible& a, const Visible& b);

/// Returns the names of the values that differ between two runs, for example "loss@0, w1", or ""
/// if the runs are equal.
std::string Differences(const Visible& a, const Visible& b);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RUN_STEPS_H_
