#include <cstdio>
#include <vector>

#include "stowage/stowage.h"
using namespace stowage;

int main() {
  GraphBuilder g("regression");  // adds to a graph; nothing is computed yet
  Value x = g.Input("x", DType::kF32, {32, 4});
  Value y = g.Input("y", DType::kF32, {32, 1});
  Value h = Tanh(Linear(x, "fc1", 16));
  g.Output("loss", MeanSquaredError(Linear(h, "fc2", 1), y));
  Result<Graph> model = g.Finish();  // the first mistake, with file and line
  if (!model.ok()) return std::puts(model.error().message.c_str()), 1;

  auto cpu = MakeCpuBackend({.threads = 2});
  Graph step = *BuildTrainStep(*model, "loss", {.optimizer = AdamW{}});
  Result<Plan> plan = PlanMemory(
      step, {.budget = 1 << 20, .workspace = cpu->WorkspaceFunction()});
  if (!plan.ok()) return std::puts(plan.error().message.c_str()), 1;

  Session session = *Session::Create({{"train", step, *plan}}, *cpu);
  session.Initialize(/*seed=*/1);
  Runner& train = session.front();
  std::vector<float> xs(32 * 4, 0.5f), ys(32, 1.0f);
  for (int64_t i = 1; i <= 100; ++i) {
    if (!train.Write("x", xs).ok() || !train.Write("y", ys).ok() ||
        !train.Write("lr", 1e-2f).ok() || !train.Write("step", i).ok() ||
        train.Step() != StepCode::kOk) {
      return 1;
    }
  }
  std::printf("loss %g\n", *train.ReadScalar("loss"));
}
