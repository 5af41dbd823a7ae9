#include "tests/cpu/check_graph.h"

#include <doctest/doctest.h>

#include <random>
#include <utility>
#include <vector>

#include "tests/cpu/run_graph.h"

namespace stowage {

Graph MakeGraph(const std::string& name, const Build& build) {
  GraphBuilder builder(name);
  build(builder);
  Result<Graph> graph = builder.Finish();
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return std::move(graph).value();
}

Tensors RandomLeaves(const Graph& graph, int64_t limit) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int64_t> sixty_fourths(-63, 63);
  std::uniform_int_distribution<int64_t> integer(0, limit - 1);
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    const DType dtype = value.type.dtype;
    std::vector<double>& x = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      if (!IsFloat(dtype)) {
        x.push_back(static_cast<double>(integer(random)));
      } else if (SizeOf(dtype) == 2) {
        x.push_back(static_cast<double>(sixty_fourths(random)) / 64);
      } else {
        x.push_back(static_cast<double>(real(random)));
      }
    }
  }
  return leaves;
}

void CheckGraph(const std::string& name, double tolerance, const Build& build,
                int64_t limit) {
  const Graph graph = MakeGraph(name, build);
  CheckAgainstInterpreter(graph, RandomLeaves(graph, limit), tolerance);
}

}  // namespace stowage
