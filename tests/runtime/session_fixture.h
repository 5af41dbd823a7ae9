#ifndef STOWAGE_TESTS_RUNTIME_SESSION_FIXTURE_H_
#define STOWAGE_TESTS_RUNTIME_SESSION_FIXTURE_H_

// Provides a doctest fixture that creates sessions on the CPU, and a tiny model for them.
//
//   TEST_CASE_FIXTURE(SessionFixture, "...") {
//     const Graph graph = Regression(2);
//     Session session = Open({{"p", graph, PlanOf(graph)}});

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"

namespace stowage {

/// Returns a graph of mean((x w - y)^2), where x has the shape (batch, 2) and w the shape (2, 1).
inline Graph Regression(int64_t batch) {
  GraphBuilder g("regression");
  Value x = g.Input("x", DType::kF32, {batch, 2});
  Value y = g.Input("y", DType::kF32, {batch, 1});
  Value w = g.Param("w", DType::kF32, {2, 1}, Init::Ones());
  g.Output("loss", MeanSquaredError(MatMul(x, w), y));
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

struct SessionFixture {
  std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});

  /// Plans `graph` for the CPU. Fails the running doctest case if there is an error.
  Plan PlanOf(const Graph& graph, std::optional<WeightLayout> weights = {}) {
    auto plan = PlanMemory(
        graph, {.weights = std::move(weights), .device = cpu->Needs()});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    return std::move(*plan);
  }
  /// Creates a session. Fails the running doctest case if there is an error.
  Session Open(std::vector<SessionProgram> programs,
               const SessionOptions& options = {}) {
    auto session = Session::Create(std::move(programs), *cpu, options);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return std::move(*session);
  }
  /// Returns the error message of creating a session. Fails the running doctest case if there is
  /// no error.
  std::string Refusal(std::vector<SessionProgram> programs,
                      const SessionOptions& options = {}) {
    auto session = Session::Create(std::move(programs), *cpu, options);
    REQUIRE_FALSE(session.ok());
    return session.error().message;
  }
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_RUNTIME_SESSION_FIXTURE_H_
