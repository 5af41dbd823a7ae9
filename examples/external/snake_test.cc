// The op of this workspace: what it computes, its derivative, its errors.
#include "snake.h"

#include <cmath>
#include <vector>

#include "base/result.h"
#include "stowage/stowage.h"

#if __has_include("ir/graph.h")
#error "Stowage's own paths are visible: include stowage/ir/graph.h"
#endif

int main() {
  own::Result result;
  const auto cpu = stowage::MakeCpuBackend({.threads = 2});

  stowage::GraphBuilder g("snake");
  const stowage::Value x = g.Input("x", stowage::DType::kF64, {5});
  const stowage::Value y = g.Name("y", own::Snake(x, /*a=*/1.5));
  g.Output("y", y);
  g.Output("loss", ReduceSum(Mul(y, y)));
  const stowage::Graph graph = own::Must(g.Finish());
  const auto checked = CheckGradients(graph, "loss", *cpu);
  result.Check(checked.ok(), checked.ok() ? "" : checked.error().message);

  const auto plan = own::Must(PlanMemory(graph, {.device = cpu->Needs()}));
  auto session =
      own::Must(stowage::Session::Create({{"run", graph, plan}}, *cpu));
  const std::vector<double> xs = {-2, -0.5, 0, 0.25, 3};
  std::vector<double> ys(xs.size());
  own::Must(session.front().Write("x", xs));
  result.Check(session.front().Step() == stowage::StepCode::kOk, "the step");
  own::Must(session.front().Read("y", &ys));
  for (size_t i = 0; i < xs.size(); ++i) {
    const double expected = xs[i] + std::pow(std::sin(1.5 * xs[i]), 2) / 1.5;
    result.Check(std::abs(ys[i] - expected) < 1e-14, "an element of snake");
  }

  stowage::GraphBuilder bad("bad");
  bad.Output("y", own::Snake(bad.Input("x", stowage::DType::kF32, {2}), -1));
  const auto refused = bad.Finish();
  result.Check(!refused.ok() && refused.error().message.find("snake_test.cc") !=
                                    std::string::npos,
               "an error that names the caller's file");
  return result.exit_code();
}
