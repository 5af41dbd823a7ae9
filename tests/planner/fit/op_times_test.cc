#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/models.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/plan_memory.h"

namespace stowage::fit {
namespace {

// relu(a b), rows x 8 times 8 x 2.
Graph Product(int64_t rows) {
  GraphBuilder g("product");
  const Value a = g.Input("a", DType::kF32, {rows, 8});
  const Value b = g.Param("b", DType::kF32, {8, 2});
  g.Output("y", Relu(MatMul(a, b)));
  return g.Finish().value();
}

constexpr char kProductRow[] =
    "128 224 matmul(f32(4, 8), f32(8, 2)) -> f32(4, 2) "
    "{transpose_a=0, transpose_b=0}\n";  // 2 * 4 * 8 * 2; 4 * (32 + 16 + 8)
constexpr char kReluRow[] = "8 64 relu(f32(4, 2)) -> f32(4, 2)\n";

TEST_CASE("a table of times reads as it was written") {
  OpTimes times;
  CHECK(times.empty());
  times.Add(Product(4), 512, std::vector<double>{1.5e-6, 2e-7});
  const std::string text = StrCat("stowage-op-times 2\n512 1500 ", kProductRow,
                                  "512 200 ", kReluRow);
  CHECK(times.ToText() == text);
  const auto parsed = OpTimes::Parse(text);
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(parsed->ToText() == text);
  CHECK(parsed->Nanoseconds(Product(4), 512) == std::vector<double>{1500, 200});
  CHECK(parsed->StepSeconds(Product(4), 512) == doctest::Approx(1.7e-6));
  CHECK(parsed->CountEstimated(Product(4)) == 0);
  // Comments, and no newline at the end.
  CHECK(
      OpTimes::Parse(StrCat("stowage-op-times 2\n# by hand\n\n0 7 ", kReluRow))
          .ok());
}

TEST_CASE("of many measurements the median counts") {
  OpTimes times;
  for (const double seconds : {9e-6, 1e-6, 2e-6, 1e-6, 3e-6}) {
    times.Add(Product(4), 512, std::vector<double>{seconds, 0});
  }
  // A nanosecond at least: nothing is for free.
  CHECK(times.Nanoseconds(Product(4), 512) == std::vector<double>{2000, 1});
}

TEST_CASE("of the arenas the nearest counts, for each op by itself") {
  OpTimes times;
  times.Add(Product(4), 1 << 20, std::vector<double>{8e-6, 2e-6});
  times.Add(Product(4), 4 << 20, std::vector<double>{9e-6, 4e-6});
  times.Add(Product(8), 1 << 18, std::vector<double>{5e-6, 1e-6});
  const auto nanoseconds = [&](int64_t rows, Bytes arena) {
    return times.Nanoseconds(Product(rows), arena);
  };
  CHECK(nanoseconds(4, 0) == std::vector<double>{8000, 2000});
  // Nearest by ratio: 2 MiB lies between the two.
  CHECK(nanoseconds(4, (2 << 20) - 4096) == std::vector<double>{8000, 2000});
  CHECK(nanoseconds(4, (2 << 20) + 4096) == std::vector<double>{9000, 4000});
  CHECK(nanoseconds(8, 4 << 20) == std::vector<double>{5000, 1000});
  // What is estimated, is from the same arena.
  CHECK(nanoseconds(2, 1 << 20)[0] == 4000);
  CHECK(nanoseconds(2, 4 << 20)[0] == 4500);
  CHECK(times.StepSeconds(Product(4), 4 << 20) == doctest::Approx(13e-6));
  CHECK(times.CostFunction(1 << 20)(Product(4)) == nanoseconds(4, 1 << 20));
  CHECK(times.CostFunction({})(Product(4)) == nanoseconds(4, 4 << 20));

  const auto again = OpTimes::Parse(times.ToText());
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  CHECK(again->ToText() == times.ToText());
  CHECK(again->Nanoseconds(Product(4), 1 << 20) == nanoseconds(4, 1 << 20));
}

TEST_CASE("strides tell operands apart, views take no time") {
  GraphBuilder g("turned");
  const Value x = g.Input("x", DType::kF32, {4, 4});
  const Value t = Transpose(x);
  g.Output("y", Relu(Exp(x)));
  g.Output("z", Relu(t));
  const Graph graph = g.Finish().value();
  std::vector<double> seconds;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    seconds.push_back(1e-6 * (n + 1));
  }
  OpTimes times;
  times.Add(graph, 512, seconds);
  const std::string text = times.ToText();
  CHECK(text.find(" relu(f32(4, 4)) -> f32(4, 4)\n") != std::string::npos);
  CHECK(text.find(" relu(f32(4, 4)[1, 4]) -> f32(4, 4)\n") !=
        std::string::npos);
  CHECK(text.find("transpose") == std::string::npos);
  const NodeId view = graph.value(*graph.Find("z")).producer;
  CHECK(times.Nanoseconds(graph, 512)[static_cast<size_t>(view)] > 0);
  CHECK(times.Nanoseconds(graph, 512)[static_cast<size_t>(
            graph.value(graph.node(view).inputs[0]).producer)] == 0);
}

TEST_CASE("what was not timed is estimated from the nearest row") {
  const auto times =
      OpTimes::Parse(StrCat("stowage-op-times 2\n0 1500 ", kProductRow,
                            "0 9000000 1280000 2240000 matmul(f32(40000, 8), "
                            "f32(8, 2)) -> f32(40000, "
                            "2) {transpose_a=0, transpose_b=0}\n"
                            "0 649 0 64 copy(f32(4, 2)) -> f32(4, 2)\n"
                            "0 1 0 8 fill() -> f32()\n"));
  REQUIRE_MESSAGE(times.ok(), times.error().message);
  // Products by operations, from the nearer of the two. There is no relu: the
  // copy is nearest. 6 rows of 2 there and back are 96 bytes.
  const std::vector<double> estimated = times->Nanoseconds(Product(6), 512);
  CHECK(estimated[0] == 2250);
  CHECK(estimated[1] == doctest::Approx(649.0 * 97 / 65));
  CHECK(times->CountEstimated(Product(6)) == 2);
  CHECK(times->CountEstimated(Product(4)) == 1);

  // Near in sizes, not in bytes: rows of ten are slow.
  const auto sums = OpTimes::Parse(
      "stowage-op-times 2\n"
      "0 9000 80 960 relu(f32(8, 10)) -> f32(8, 10)\n"
      "0 700 16 128 relu(f32(8, 2)) -> f32(8, 2)\n");
  REQUIRE_MESSAGE(sums.ok(), sums.error().message);
  CHECK(sums->Nanoseconds(Product(64), 512)[1] == doctest::Approx(700 * 8));

  // With strides of their own ops may be slow: only other strides are left out.
  const auto relus = OpTimes::Parse(
      "stowage-op-times 2\n"
      "0 900 12 96 relu(f32(6, 2)[1, 6]) -> f32(6, 2)\n"
      "0 800 8 64 relu(f32(4, 2)[1, 4]) -> f32(4, 2)\n"
      "0 160 16 128 relu(f32(16)) -> f32(16)\n");
  REQUIRE_MESSAGE(relus.ok(), relus.error().message);
  CHECK(relus->Nanoseconds(Product(40), 512)[1] == doctest::Approx(800));
  // No faster than the fastest there is.
  CHECK(relus->Nanoseconds(Product(1), 512)[1] == 160);
}

TEST_CASE("the contents of a constant are no part of a row") {
  const auto with = [](float value) {
    GraphBuilder g("constant");
    const std::vector<float> data = {value, value};
    const Value c =
        Constant(g, DType::kF32, {2}, std::as_bytes(std::span(data)));
    g.Output("y", Relu(c));
    return g.Finish().value();
  };
  OpTimes times;
  times.Add(
      with(1), 512,
      std::vector<double>(static_cast<size_t>(with(1).num_nodes()), 1e-6));
  CHECK(times.CountEstimated(with(2)) == 0);
}

TEST_CASE("what is no table of times is refused by its line") {
  const auto error = [](const std::string& text) {
    return OpTimes::Parse(text).error().message;
  };
  const std::string heading = "stowage-op-times 2\n";
  CHECK(error("times\n").starts_with(
      "[op-times] line 1: \"times\" is no heading of op times"));
  CHECK(error("").starts_with("[op-times] there are no rows"));
  CHECK(error(heading).starts_with("[op-times] there are no rows"));
  for (const char* row :
       {"0 fast 1 2 relu(f32(1)) -> f32(1)", "0 5 1 relu(f32(1)) -> f32(1)",
        "0 0 1 2 relu(f32(1)) -> f32(1)", "0 -5 1 2 relu(f32(1)) -> f32(1)",
        "0 inf 1 2 relu(f32(1)) -> f32(1)", "-1 5 1 2 relu(f32(1)) -> f32(1)",
        "1e20 5 1 2 relu(f32(1)) -> f32(1)", "0 5", "0 5 1 2"}) {
    INFO(std::string(row));
    CHECK(error(StrCat(heading, row))
              .starts_with("[op-times] line 2: expected bytes of the arena"));
  }
  for (const char* row : {"0 1e308 1 2 relu(f32(1))", "0 2e15 1 2 relu(f32(1))",
                          "0 1e-9 1 2 relu(f32(1))"}) {
    INFO(std::string(row));
    CHECK(error(StrCat(heading, row))
              .ends_with(" nanoseconds; expected 1 to 1e+15"));
  }
  for (const char* row :
       {"0 5 1e308 2 relu(f32(1))", "0 5 1 1e308 relu(f32(1))",
        "0 5 0.5 2 relu(f32(1))", "0 5 1 1e-300 relu(f32(1))"}) {
    INFO(std::string(row));
    CHECK(error(StrCat(heading, row))
              .ends_with("expected a whole number, at most "
                         "4611686018427387904"));
  }
  CHECK(error(heading + "0 5 1 2 relu") ==
        "[op-times] line 2: \"relu\" is no op with its operands");
  CHECK(error(heading + "7 5 8 64 relu()\n# again\n7 6 8 64 relu()\n") ==
        "[op-times] line 4: \"relu()\" stands here a second time");
}

TEST_CASE("a row that lacks a size of its form is another form") {
  GraphBuilder g("g");
  g.Output("y", Relu(g.Input("x", DType::kF32, {3, 4})));
  const Graph graph = *g.Finish();
  const OpTimes times = *OpTimes::Parse(
      "stowage-op-times 2\n0 7 12 96 relu(f32(, )) -> f32(, )\n");
  CHECK(times.Nanoseconds(graph, 0) == std::vector<double>{7});
}

TEST_CASE("times decide what runs again, and predict what it takes") {
  const Graph forward =
      *BuildModel("gpt-nano", ModelPurpose::kTrain, {.batch = 2, .seq = 32});
  const Graph step = *BuildTrainStep(forward, "loss");
  // A machine that only ever waits for memory.
  const auto slow_memory = [](const Graph& graph) {
    std::vector<double> seconds;
    for (const Node& node : graph.nodes()) {
      double bytes = 0;
      for (const ValueId id : node.inputs) {
        bytes += static_cast<double>(graph.value(id).type.bytes());
      }
      seconds.push_back(1e-10 * bytes);
    }
    return seconds;
  };
  const Bytes given = PlanMemory(step)->arena_bytes();
  OpTimes times;
  times.Add(step, given, slow_memory(step));
  const MemoryOptimizations optimizations{.offload = OffloadChoice::kNone};
  StepFitter by_flops(OfGraph(step), {.optimizations = optimizations});
  StepFitter by_time(OfGraph(step), {.optimizations = optimizations,
                                     .cost = times.CostFunction(given)});
  const Bytes smallest = by_flops.SmallestBudget().value();
  bool differ = false;
  for (int part = 1; part < 8; ++part) {
    const Bytes budget = smallest + (given - smallest) * part / 8;
    const auto flops = by_flops.Fit(budget);
    const auto time = by_time.Fit(budget);
    REQUIRE(flops.ok());
    REQUIRE_MESSAGE(time.ok(), time.error().message);
    CHECK(times.CountEstimated(time->graph) == 0);
    const double more =
        times.StepSeconds(time->graph, given) - times.StepSeconds(step, given);
    CHECK(1e-9 * time->price.extra_cost == doctest::Approx(more));
    CHECK(time->price.least_extra_cost <= time->price.extra_cost * (1 + 1e-9));
    differ |= times.StepSeconds(time->graph, given) <
              0.999 * times.StepSeconds(flops->graph, given);
  }
  CHECK(differ);
}

}  // namespace
}  // namespace stowage::fit
