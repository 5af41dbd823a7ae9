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
  Graph model = g.Finish().OrDie();  // the first mistake, with file and line

  auto cpu = MakeCpuBackend({.threads = 2});
  Graph step = BuildTrainStep(model, "loss", {.optimizer = AdamW{}}).OrDie();
  Plan plan =
      PlanMemory(step, {.budget = 1 << 20, .device = cpu->Needs()}).OrDie();
  Session session = Session::Create({{"train", step, plan}}, *cpu).OrDie();
  session.Initialize(/*seed=*/1);

  Runner& train = session.front();
  std::vector<float> xs(32 * 4, 0.5f), ys(32, 1.0f);
  for (int64_t i = 1; i <= 100; ++i) {
    train.Write("x", xs).OrDie();
    train.Write("y", ys).OrDie();
    train.Write("lr", 1e-2).OrDie();
    train.Write("step", i).OrDie();
    if (train.Step() != StepCode::kOk) return 1;
  }
  std::printf("loss %g\n", train.ReadScalar("loss").OrDie());
}
