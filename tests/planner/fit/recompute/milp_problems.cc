// Prints the steps of recompute_milp_steps.h, a JSON object and its digest a
// line, for tests/goldens/make_recompute_goldens.py.

#include <cstdio>
#include <string>

#include "tests/planner/fit/recompute/milp_steps.h"

int main() {
  for (const stowage::Graph& step : stowage::testing::MilpSteps()) {
    const std::string problem = stowage::testing::MilpProblem(step);
    std::printf("%s\t%s\n", stowage::testing::MilpDigest(problem).c_str(),
                problem.c_str());
  }
}
