#ifndef STOWAGE_TESTS_SUPPORT_RUN_STEPS_H_
#define STOWAGE_TESTS_SUPPORT_RUN_STEPS_H_

// Runs a graph for some steps in a given kind of arena, and returns every value that is visible
// to a caller, for bitwise comparison.

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
  uint64_t seed = 0;    // of params and inputs
  bool planned = true;  // false: every value in memory of its own
  bool poison = false;
  /// Writes the inputs of a step, counted from 1; empty: WriteRandomInputs.
  std::function<void(Runner&, int64_t step)> write_inputs = {};
  Bytes alignment = kDefaultAlignment;
};

/// What is visible after a run: every output after every step ("loss@0"), every
/// param and state at the end, as bytes.
using Visible = std::map<std::string, std::vector<std::byte>>;

/// Plans, validates and runs `graph` on `backend`; failures abort with the
/// message.
Visible RunSteps(const Graph& graph, Backend& backend,
                 const RunOptions& options);

/// Initializes and runs the first program of a session, which is planned already. Uses only
/// steps, seed and write_inputs of the options.
Visible RunSteps(Session& session, const RunOptions& options);

/// The largest of |a - b| / (1 + |b|) of two runs of one graph, all of whose visible values are
/// f32; infinity where one is NaN.
double LargestDifference(const Visible& a, const Visible& b);

/// The names under which two runs differ, "" when none: "loss@0, w1".
std::string Differences(const Visible& a, const Visible& b);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RUN_STEPS_H_
