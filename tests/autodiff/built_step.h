#ifndef STOWAGE_TESTS_AUTODIFF_BUILT_STEP_H_
#define STOWAGE_TESTS_AUTODIFF_BUILT_STEP_H_

// Builds graphs and training steps, and fails the running doctest case if they are invalid.
//
//   const Graph step = Step(Build("net", [](GraphBuilder& g) { ... }), {});

#include <doctest/doctest.h>

#include <functional>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/verify.h"

namespace stowage {

inline Graph Build(const char* name,
                   const std::function<void(GraphBuilder&)>& describe) {
  GraphBuilder g(name);
  describe(g);
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

/// Returns the training step for the output "loss" of `forward`.
inline Graph Step(const Graph& forward, const TrainOptions& options) {
  const Result<Graph> step = BuildTrainStep(forward, "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(Verify(*step).ok());
  return *step;
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_AUTODIFF_BUILT_STEP_H_
