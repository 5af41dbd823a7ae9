#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "stowage/stowage.h"
using namespace stowage;

template <typename R>  // the value of a Result, or the program's end
auto Must(R result) {
  if (!result.ok()) std::exit((std::puts(result.error().message.c_str()), 1));
  if constexpr (!std::is_same_v<R, Status>) return *std::move(result);
}

int main() {
  GraphBuilder g("regression");  // adds to a graph; nothing is computed yet
  Value x = g.Input("x", DType::kF32, {32, 4});
  Value y = g.Input("y", DType::kF32, {32, 1});
  Value h = Tanh(Linear(x, "fc1", 16));
  g.Output("loss", MeanSquaredError(Linear(h, "fc2", 1), y));
  Graph model = Must(g.Finish());  // the first mistake, with file and line

  auto cpu = MakeCpuBackend({.threads = 2});
  Graph step = Must(BuildTrainStep(model, "loss", {.optimizer = AdamW{}}));
  Plan plan =
      Must(PlanMemory(step, {.budget = 1 << 20, .device = cpu->Needs()}));
  Session session = Must(Session::Create({{"train", step, plan}}, *cpu));
  session.Initialize(/*seed=*/1);

  Runner& train = session.front();
  std::vector<float> xs(32 * 4, 0.5f), ys(32, 1.0f);
  for (int64_t i = 1; i <= 100; ++i) {
    Must(train.Write("x", xs)), Must(train.Write("y", ys));
    Must(train.Write("lr", 1e-2f)), Must(train.Write("step", i));
    if (train.Step() != StepCode::kOk) return 1;
  }
  std::printf("loss %g\n", Must(train.ReadScalar("loss")));
}
