#ifndef STOWAGE_TESTS_PLANNER_PLANNED_BODIES_H_
#define STOWAGE_TESTS_PLANNER_PLANNED_BODIES_H_

// Builds and plans small graphs with loops and branches, for tests with doctest. Plans are aligned
// to kSlot, the size of the tests' typical value.
//
//   const Graph graph = Finish(g);
//   CHECK(PlanOf(graph).arena_bytes() == 3 * kSlot);

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"

namespace stowage {

inline constexpr Bytes kSlot = 16;  // The size of four f32.

/// Returns the graph of `g`. Fails the running doctest case if there is an error.
inline Graph Finish(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

/// Returns a plan of `graph`. Fails the running doctest case if the validator rejects the plan.
inline Plan PlanOf(const Graph& graph) {
  Result<Plan> plan = PlanMemory(graph, {.alignment = kSlot});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const std::vector<std::string> wrong = ValidatePlan(graph, *plan);
  CHECK_MESSAGE(wrong.empty(), wrong.front());
  return *std::move(plan);
}

// The next functions print the event stream of a small graph as lines of text, for comparison with
// hand-written streams.
//
//   CHECK(StreamText(graph) == Text({"+x", "+y", "y = tanh x", "-y", "-x"}));

using Lines = std::vector<std::string>;

/// Adds an input with four f32 elements.
Value Input(GraphBuilder& g, const char* name);
/// Adds a scalar bool input.
Value Flag(GraphBuilder& g, const char* name);

/// Plans `graph` and returns its stream, one event per line. "+x" and "-x" are the start and end of
/// a lifetime, "y = tanh x" is a kernel launch, and "{" and "}" enclose bodies. "x^v" is a value x
/// of a body that is allocated in the memory of v, which is a value outside the body.
Lines StreamOf(const Graph& graph);

/// Returns StreamOf(graph) as text with one event per line.
std::string StreamText(const Graph& graph);
/// Returns `lines` as text.
std::string Text(const Lines& lines);

}  // namespace stowage

#endif  // STOWAGE_TESTS_PLANNER_PLANNED_BODIES_H_
