#include "planner/fit/order/order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/ops.h"
#include "nn/models.h"
#include "planner/fit/order/search.h"
#include "planner/lifetimes.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/order/graphs.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;

using Order = std::vector<int32_t>;

Bytes Scratch(const Graph&, const Node& node) {
  return node.op == OpKind::kConcat ? 300 : 0;
}
const LifetimeOptions kOptions = {.in_place = true, .workspace = Scratch};

// Visits every order in which no task comes before one it must come after.
void ForEachOrder(const OrderProblem& problem,
                  const std::function<void(const Order&)>& visit) {
  Order order;
  std::vector<bool> ran(problem.tasks.size(), false);
  const std::function<void()> extend = [&] {
    if (order.size() == ran.size()) return visit(order);
    for (int32_t task = 0; task < problem.num_tasks(); ++task) {
      const auto& after = problem.tasks[static_cast<size_t>(task)].after;
      const bool may_run = std::all_of(
          after.begin(), after.end(),
          [&](int32_t other) { return ran[static_cast<size_t>(other)]; });
      if (ran[static_cast<size_t>(task)] || !may_run) continue;
      ran[static_cast<size_t>(task)] = true;
      order.push_back(task);
      extend();
      order.pop_back();
      ran[static_cast<size_t>(task)] = false;
    }
  };
  extend();
}

// The largest sum of live packed bytes, by the planner's lifetimes.
Bytes PeakByLifetimes(const Graph& graph) {
  const Lifetimes lifetimes = ComputeLifetimes(graph, kOptions);
  Bytes peak = 0;
  for (Time time = 0; time <= graph.num_nodes(); ++time) {
    Bytes live = 0;
    for (const LiveBuffer& buffer : lifetimes.buffers) {
      const bool packed = buffer.region == Region::kActivations ||
                          buffer.region == Region::kWorkspace;
      if (packed && buffer.lower <= time && time < buffer.upper) {
        live += AlignUp(buffer.size, 256);
      }
    }
    peak = std::max(peak, live);
  }
  return peak;
}

Graph MustReorder(const Graph& graph, const Order& order) {
  auto reordered = Reorder(graph, order);
  REQUIRE_MESSAGE(reordered.ok(), reordered.error().message);
  return std::move(*reordered);
}

Bytes Smallest(const OrderProblem& problem) {
  Bytes smallest = std::numeric_limits<Bytes>::max();
  ForEachOrder(problem, [&](const Order& order) {
    smallest = std::min(smallest, PeakOf(problem, order));
  });
  return smallest;
}

TEST_CASE("the example of the header has the peaks it names") {
  OrderProblem problem;
  problem.contents = {{.size = 8, .maker = 0, .kept = false, .readers = {2}},
                      {.size = 8, .maker = 1, .kept = false, .readers = {3}},
                      {.size = 1, .maker = 2, .kept = false, .readers = {4}},
                      {.size = 1, .maker = 3, .kept = false, .readers = {4}}};
  problem.tasks = {{.makes = {0}},
                   {.makes = {1}},
                   {.after = {0}, .reads = {0}, .makes = {2}},
                   {.after = {1}, .reads = {1}, .makes = {3}},
                   {.after = {2, 3}, .reads = {2, 3}}};
  CHECK(PeakOf(problem, Order{0, 1, 2, 3, 4}) == 17);
  CHECK(PeakOf(problem, Order{0, 2, 1, 3, 4}) == 10);
  const MemoryOrder found = FindMemoryOrder(problem);
  CHECK(found.peak == 10);
  CHECK(found.bound == 10);
}

TEST_CASE("in every order, the peak is that of the planner's lifetimes") {
  int orders = 0;
  for (uint64_t seed = 0; seed < Instances(120u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = RandomOrderGraph(seed, 3 + static_cast<int>(seed % 4));
    const OrderProblem problem = MakeOrderProblem(graph, 256, kOptions);
    ForEachOrder(problem, [&](const Order& order) {
      REQUIRE(PeakOf(problem, order) ==
              PeakByLifetimes(MustReorder(graph, order)));
      ++orders;
    });
  }
  CHECK(orders > Instances(1000));
}

TEST_CASE("what is no order of the problem is none of the graph") {
  int refused = 0;
  for (uint64_t seed = 0; seed < Instances(60u); ++seed) {
    const Graph graph = RandomOrderGraph(seed, 5);
    const OrderProblem problem = MakeOrderProblem(graph, 256, kOptions);
    Order order(problem.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    std::map<Order, bool> valid;
    ForEachOrder(problem, [&](const Order& o) { valid[o] = true; });
    if (order.size() > 6) continue;
    do {
      REQUIRE(Reorder(graph, order).ok() == valid.contains(order));
      refused += !valid.contains(order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  CHECK(refused > Instances(1000));
}

TEST_CASE("the peak is the smallest of all orders, and the bound says so") {
  int improved = 0;
  for (uint64_t seed = 0; seed < Instances(400u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = RandomOrderGraph(seed, 4 + static_cast<int>(seed % 6));
    const OrderProblem problem = MakeOrderProblem(graph, 256, kOptions);
    const Bytes smallest = Smallest(problem);
    const MemoryOrder found = FindMemoryOrder(problem);
    CHECK(PeakOf(problem, found.order) == found.peak);
    CHECK(found.peak == smallest);
    CHECK(found.bound == smallest);
    Order given(problem.tasks.size());
    std::iota(given.begin(), given.end(), 0);
    improved += found.peak < PeakOf(problem, given);
  }
  CHECK(improved > Instances(100));
}

TEST_CASE("the search is complete at every limit") {
  for (uint64_t seed = 0; seed < Instances(200u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = RandomOrderGraph(seed, 7);
    const OrderProblem problem = MakeOrderProblem(graph, 256, kOptions);
    const Bytes smallest = Smallest(problem);
    Order ranks(problem.tasks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    OrderSearch search(problem);
    for (const OrderTaste taste : {OrderTaste::kRank, OrderTaste::kMin}) {
      for (const Bytes limit : {Bytes{0}, smallest - 1, smallest}) {
        const auto outcome = search.Try(limit, ranks, taste, 1'000'000);
        if (limit < smallest) {
          REQUIRE(outcome == OrderSearch::Outcome::kInfeasible);
          CHECK(search.next() > limit);
          CHECK(search.next() <= smallest);
        } else {
          REQUIRE(outcome == OrderSearch::Outcome::kFound);
          CHECK(PeakOf(problem, search.order()) <= smallest);
        }
      }
    }
  }
}

TEST_CASE("a cut is the fewest bytes at a task over all orders") {
  for (uint64_t seed = 0; seed < Instances(150u); ++seed) {
    INFO("seed ", seed);
    const Graph graph = RandomOrderGraph(seed, 4 + static_cast<int>(seed % 4));
    const OrderProblem problem = MakeOrderProblem(graph, 256, kOptions);
    std::vector<Bytes> fewest(problem.tasks.size(),
                              std::numeric_limits<Bytes>::max());
    ForEachOrder(problem, [&](const Order& order) {
      const std::vector<Bytes> live = LiveOver(problem, order);
      for (size_t i = 0; i < order.size(); ++i) {
        Bytes& least = fewest[static_cast<size_t>(order[i])];
        least = std::min(least, live[i]);
      }
    });
    for (int32_t task = 0; task < problem.num_tasks(); ++task) {
      INFO("task ", task);
      CHECK(CutAt(problem, task).bytes == fewest[static_cast<size_t>(task)]);
    }
  }
}

TEST_CASE("moves keep an order an order and do not make it higher") {
  for (uint64_t seed = 0; seed < Instances(100u); ++seed) {
    const Graph graph = RandomOrderGraph(seed, 12);
    const OrderProblem problem = MakeOrderProblem(graph, 256, kOptions);
    Order given(problem.tasks.size());
    std::iota(given.begin(), given.end(), 0);
    const Order moved = ImproveByMoves(problem, given, 0, 20'000);
    CHECK(PeakOf(problem, moved) <= PeakOf(problem, given));
    CHECK(MustReorder(graph, moved).num_nodes() == graph.num_nodes());
  }
}

TEST_CASE("a branch is finished before the next one begins") {
  // Two branches, written level by level, each wide in the middle.
  GraphBuilder g("two");
  const Value x = g.Input("x", DType::kF32, {64});
  std::vector<Value> wide;
  for (int i = 0; i < 2; ++i) {
    wide.push_back(Concat(std::vector{x, x, x, x}, 0));  // 4 slots
  }
  std::vector<Value> narrow;
  for (const Value w : wide) narrow.push_back(Copy(Slice(w, 0, 0, 64)));
  g.Output("sum", Add(narrow[0], narrow[1]));
  const Graph graph = std::move(*g.Finish());

  const auto given = PlanMemory(graph);
  const auto ordered = PlanInMemoryOrder(graph);
  REQUIRE(given.ok());
  REQUIRE(ordered.ok());
  // Input, and 4 + 4 + 1 slots; in the other order 4 + 1 + 1.
  CHECK(given->arena_bytes() == 256 + 9 * 256);
  CHECK(ordered->plan.arena_bytes() == 256 + 6 * 256);
  CHECK(ordered->bound == ordered->plan.arena_bytes());
  CHECK(ordered->optimal());
  CHECK(ordered->plan.order == "memory");
  CHECK(ValidatePlan(ordered->graph, ordered->plan).empty());
  CHECK(CheckPlanIsFor(ordered->plan, ordered->graph).ok());

  CHECK(PlanInMemoryOrder(graph, {.budget = 7 * 256}).ok());
  const auto refused = PlanInMemoryOrder(graph, {.budget = 7 * 256 - 1});
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(PlanInMemoryOrder(graph, {.alignment = 3}).error().code ==
        ErrorCode::kInvalidArgument);
}

Graph ModelStep(const char* name) {
  auto forward = BuildModel(name, ModelPurpose::kTrain);
  REQUIRE(forward.ok());
  auto step = BuildTrainStep(*forward, "loss");
  REQUIRE(step.ok());
  return std::move(*step);
}

// With little effort, so that the tests stay short: it must hold all the same.
TEST_CASE("no step takes a larger arena in the order for memory") {
  std::vector<Graph> graphs = OrderGraphs();
  CHECK(graphs.size() == 20);
  for (const char* name : {"mlp", "gpt-nano", "gpt2-124m"}) {
    graphs.push_back(ModelStep(name));
  }
  int smaller = 0;
  for (const Graph& graph : graphs) {
    INFO(graph.name());
    const auto given = PlanMemory(graph, {.device = {.workspace = Scratch}});
    const auto ordered =
        PlanInMemoryOrder(graph, {.device = {.workspace = Scratch}}, 1'000'000);
    REQUIRE(given.ok());
    REQUIRE(ordered.ok());
    const Bytes arena = ordered->plan.arena_bytes();
    CHECK(arena <= given->arena_bytes());
    CHECK(arena >= ordered->bound);
    CHECK(ordered->plan.lower_bound >= ordered->bound);
    CHECK(ValidatePlan(ordered->graph, ordered->plan).empty());
    CHECK(ordered->graph.num_nodes() == graph.num_nodes());
    smaller += arena < given->arena_bytes();
    const auto again =
        PlanInMemoryOrder(graph, {.device = {.workspace = Scratch}}, 1'000'000);
    CHECK(Equal(again->graph, ordered->graph));
  }
  CHECK(smaller >= 20);
}

TEST_CASE("a graph without nodes has an order") {
  GraphBuilder g("none");
  g.Output("x", g.Input("x", DType::kF32, {64}));
  const auto ordered = PlanInMemoryOrder(*g.Finish());
  REQUIRE(ordered.ok());
  CHECK(ordered->plan.arena_bytes() == 256);
  CHECK(ordered->optimal());
}

}  // namespace
}  // namespace stowage::fit
