// Compares the planner with the optima of Checkmate's integer program (Jain et
// al., MLSys 2020), which tests/goldens/make_recompute_goldens.py solved for
// the steps of recompute_milp_steps.h.
//
// Both count bytes alike: results are not written in place, views hold what they
// look into, a node's operands, results and scratch lie side by side. Two things
// differ. The program counts live bytes, and the planner has to pack them too.
// And the program runs a node at most once in a stage, between two nodes of the
// step that run for the first time; the planner's schedules have no such limit,
// and so could cost less, though here none does.

#include <doctest/doctest.h>

#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/fit/fit.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/recompute/milp_steps.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;

struct Optimum {
  std::string digest;
  int nodes = 0;
  Bytes budget = 0;
  double extra_flops = 0;  // of the best schedule
  double least_flops = 0;  // proven
};

double Number(std::string_view text) {
  double number = -1;
  const auto end = std::from_chars(text.begin(), text.end(), number).ptr;
  REQUIRE(end == text.end());
  return number;
}

// By the step's name.
std::map<std::string, std::vector<Optimum>> ReadGoldens() {
  std::ifstream file("tests/goldens/recompute_milp.csv");
  REQUIRE(file.is_open());
  std::map<std::string, std::vector<Optimum>> goldens;
  std::string line;
  std::getline(file, line);
  REQUIRE(line == "step,digest,nodes,values,budget,extra_flops,least_flops");
  while (std::getline(file, line)) {
    std::vector<std::string> cells(1);
    for (const char c : line) {
      if (c == ',') {
        cells.emplace_back();
      } else {
        cells.back() += c;
      }
    }
    REQUIRE(cells.size() == 7);
    goldens[cells[0]].push_back({cells[1], static_cast<int>(Number(cells[2])),
                                 static_cast<Bytes>(Number(cells[4])),
                                 Number(cells[5]), Number(cells[6])});
  }
  return goldens;
}

TEST_CASE("extra operations are within 2 % of Checkmate's optimum") {
  const auto goldens = ReadGoldens();
  const PlanOptions apart{.in_place = false,
                          .device = {.workspace = testing::MilpScratch}};
  const PlanOptions in_place{.device = {.workspace = testing::MilpScratch}};
  int steps = 0;
  std::vector<Graph> all = testing::MilpSteps();
  all.erase(all.begin() + Instances(std::ssize(all)), all.end());
  for (const Graph& step : all) {
    INFO(step.name());
    const auto golden = goldens.find(step.name());
    REQUIRE(golden != goldens.end());
    REQUIRE(golden->second.size() == 5);
    const std::string digest = testing::MilpDigest(testing::MilpProblem(step));
    REQUIRE_MESSAGE(golden->second[0].digest == digest,
                    "the step has changed; run make_recompute_goldens.py");
    steps += golden->second[0].nodes >= 10 && golden->second[0].nodes <= 40;

    const Plan given = *PlanMemory(step, apart);
    const Bytes reserved = given.arena_bytes() - given.regions.span();
    const MemoryOptimizations optimizations{.offload = OffloadChoice::kNone};
    StepFitter fitter(OfGraph(step),
                      {.plan = apart, .optimizations = optimizations});
    StepFitter writer(OfGraph(step),
                      {.plan = in_place, .optimizations = optimizations});
    for (const Optimum& optimum : golden->second) {
      INFO("budget ", optimum.budget);
      const auto made = fitter.Fit(reserved + optimum.budget);
      REQUIRE_MESSAGE(made.ok(), made.error().message);
      CHECK(made->plan.regions.span() <= optimum.budget);
      CHECK(ValidatePlan(made->graph, made->plan).empty());
      CHECK(made->price.extra_flops <= 1.02 * optimum.extra_flops);
      // Nothing here runs twice in a stage.
      CHECK(made->price.extra_flops >= optimum.least_flops * (1 - 1e-9));
      CHECK(made->price.least_extra_cost <=
            optimum.extra_flops * (1 + 1e-9) + 1);

      // With results in place there is only more room.
      const auto written = writer.Fit(reserved + optimum.budget);
      REQUIRE_MESSAGE(written.ok(), written.error().message);
      CHECK(written->price.extra_flops <= made->price.extra_flops);
    }
  }
  CHECK(steps >= Instances(30));
}

}  // namespace
}  // namespace stowage::fit
