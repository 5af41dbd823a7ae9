#include "tests/gpu/branch_cost.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"

namespace stowage::testing {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A kernel an iteration, chosen or not.
Result<Graph> Iterations(int64_t iterations, bool branches) {
  GraphBuilder g("iterations");
  const Value x = g.Input("x", DType::kF32, {256});
  const Value which = g.Input("which", DType::kI32, {});
  const LoopResults run = Loop(
      g, iterations, {.carried = {x}, .whole = {which}}, [&](LoopBody& body) {
        const Value now = body.carried(0);
        if (!branches) return body.Next(0, Neg(now));
        body.Next(
            0, Cond(body.builder(), body.whole(0), {now},
                    {[](CondBody& b) { return std::vector{Neg(b.operand(0))}; },
                     [](CondBody& b) {
                       return std::vector{Abs(b.operand(0))};
                     }})[0]);
      });
  g.Output("y", run.carried[0]);
  return g.Finish();
}

// The medians of a whole step, and of its Start.
Result<BranchCost> MeasureSteps(const BranchCostCase& of, bool branches,
                                Backend& backend) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph,
                           Iterations(of.iterations, branches));
  STOWAGE_ASSIGN_OR_RETURN(const Plan plan,
                           PlanMemory(graph, {.device = backend.Needs()}));
  STOWAGE_ASSIGN_OR_RETURN(
      Session session, Session::Create({{"iterations", graph, plan}}, backend));
  Runner& p = session.front();
  STOWAGE_RETURN_IF_ERROR(p.Write("x", std::vector<float>(256, 1)));
  STOWAGE_RETURN_IF_ERROR(p.Write("which", int32_t{0}));
  std::vector<double> whole, held;
  for (int64_t i = 0; i < of.warm_up + of.steps; ++i) {
    const Clock::time_point start = Clock::now();
    const uint64_t step = p.Start();
    held.push_back(SecondsSince(start));
    const StepCode code = p.Wait(step);
    if (code != StepCode::kOk) return p.Explain(code);
    whole.push_back(SecondsSince(start));
  }
  const auto median = [&](std::vector<double>& seconds) {
    seconds.erase(seconds.begin(), seconds.begin() + of.warm_up);
    const auto middle = seconds.begin() + std::ssize(seconds) / 2;
    std::ranges::nth_element(seconds, middle);
    return *middle;
  };
  return BranchCost{median(whole), median(held)};
}

}  // namespace

Result<BranchCost> MeasureBranches(const BranchCostCase& of, Backend& backend) {
  STOWAGE_ASSIGN_OR_RETURN(const BranchCost with,
                           MeasureSteps(of, true, backend));
  STOWAGE_ASSIGN_OR_RETURN(const BranchCost without,
                           MeasureSteps(of, false, backend));
  const auto iterations = static_cast<double>(of.iterations);
  return BranchCost{(with.seconds - without.seconds) / iterations,
                    (with.held - without.held) / iterations};
}

}  // namespace stowage::testing
