// Prints the effect of the execution order on the arena, for training steps of the built-in
// models and generated ones: the arena in the given order, in the order of --order memory, and
// a lower bound over all orders.
//
//   bazel run -c opt //bench:order_table
//
// Bytes are those that depend on the order: without weights, optimizer state and inputs, and
// without workspace, which depends on the machine. Seconds are CPU time, including both plans.

#include <cstdio>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/graph.h"
#include "nn/models.h"
#include "planner/fit/order/order.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/order/graphs.h"

namespace {

using stowage::Bytes;
using stowage::Graph;

Graph ModelStep(const char* name) {
  auto forward = stowage::BuildModel(name, stowage::ModelPurpose::kTrain);
  STOWAGE_CHECK(forward.ok());
  auto step = stowage::BuildTrainStep(*forward, "loss");
  STOWAGE_CHECK(step.ok());
  return std::move(*step);
}

// What is saved, in percent.
double PrintRow(const Graph& graph) {
  const auto given = stowage::PlanMemory(graph);
  const std::clock_t start = std::clock();
  const auto ordered = stowage::fit::PlanInMemoryOrder(graph);
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  STOWAGE_CHECK(given.ok() && ordered.ok());
  STOWAGE_CHECK(stowage::ValidatePlan(ordered->graph, ordered->plan).empty());
  const Bytes before = given->regions.span();
  const Bytes after = ordered->plan.regions.span();
  const Bytes bound = ordered->bound - (ordered->plan.arena_bytes() - after);
  const double saved =
      100.0 * static_cast<double>(before - after) / static_cast<double>(before);
  std::printf(
      "%-18s %6d %13lld %13lld %8.2f %13lld %8.3f %8.3f %s\n",
      graph.name().c_str(), graph.num_nodes(), static_cast<long long>(before),
      static_cast<long long>(after), saved, static_cast<long long>(bound),
      100.0 * static_cast<double>(after - bound) / static_cast<double>(bound),
      seconds, ordered->optimal() ? "optimal" : "");
  std::fflush(stdout);
  return saved;
}

}  // namespace

int main() {
  std::printf("%-18s %6s %13s %13s %8s %13s %8s %8s\n", "step", "nodes",
              "given", "memory", "saved %", "bound", "above %", "seconds");
  std::vector<Graph> graphs;
  for (const char* name : {"mlp", "gpt-nano", "gpt2-124m"}) {
    graphs.push_back(ModelStep(name));
  }
  for (Graph& graph : stowage::fit::OrderGraphs()) {
    graphs.push_back(std::move(graph));
  }
  double sum = 0;
  for (const Graph& graph : graphs) sum += PrintRow(graph);
  std::printf("average saving: %.2f %%\n",
              sum / static_cast<double>(graphs.size()));
  return 0;
}
