#ifndef STOWAGE_TESTS_PLANNER_PLANNED_BODIES_H_
#define STOWAGE_TESTS_PLANNER_PLANNED_BODIES_H_

// Small graphs with bodies, finished and planned, in slots of four f32 (doctest checks).
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

inline constexpr Bytes kSlot = 16;  // of a value of four f32

inline Graph Finish(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

/// A plan that the validator accepts.
inline Plan PlanOf(const Graph& graph) {
  Result<Plan> plan = PlanMemory(graph, {.alignment = kSlot});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const std::vector<std::string> wrong = ValidatePlan(graph, *plan);
  CHECK_MESSAGE(wrong.empty(), wrong.front());
  return *std::move(plan);
}

// The event streams of small graphs of loops and branches as lines of text, compared with
// streams worked out by hand.
//
//   CHECK(StreamText(graph) == Text({"+x", "+y", "y = tanh x", "-y", "-x"}));

using Lines = std::vector<std::string>;

/// Inputs: four f32, and a condition.
Value Input(GraphBuilder& g, const char* name);
Value Flag(GraphBuilder& g, const char* name);

/// The stream, a word or two an event: "+x" and "-x" for births and deaths, results and operands
/// of launches, "{" and "}" around bodies; "x^place" where a value of a body is allocated in a
/// place outside of it.
Lines StreamOf(const Graph& graph);

/// One event a line, so that a difference shows.
std::string StreamText(const Graph& graph);
std::string Text(const Lines& lines);

}  // namespace stowage

#endif  // STOWAGE_TESTS_PLANNER_PLANNED_BODIES_H_
