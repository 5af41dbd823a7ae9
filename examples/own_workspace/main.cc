// Learns y = 2a - b, inside 64 KiB, in a workspace of its own.
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "stowage/stowage.h"

#if __has_include("ir/graph.h")
#error "Stowage's own paths are visible: include stowage/ir/graph.h"
#endif

template <typename R>  // the value of a Result, or the program's end
auto Must(R result) {
  if (!result.ok()) std::exit((std::puts(result.error().message.c_str()), 1));
  if constexpr (!std::is_same_v<R, stowage::Status>) return *std::move(result);
}

own::Result Train() {
  stowage::GraphBuilder g("plane");
  stowage::Value x = g.Input("x", stowage::DType::kF32, {64, 2});
  stowage::Value y = g.Input("y", stowage::DType::kF32, {64, 1});
  stowage::Value guess = stowage::Linear(x, "fc", 1);
  g.Output("loss", stowage::MeanSquaredError(guess, y));
  stowage::Graph model = Must(g.Finish());

  auto cpu = stowage::MakeCpuBackend({.threads = 1});
  stowage::Graph step = Must(stowage::BuildTrainStep(model, "loss"));
  stowage::Plan plan = Must(
      stowage::PlanMemory(step, {.budget = 64 << 10, .device = cpu->Needs()}));
  stowage::Session session =
      Must(stowage::Session::Create({{"train", step, plan}}, *cpu));
  session.Initialize(/*seed=*/1);

  std::vector<float> xs, ys;
  for (int i = 0; i < 64; ++i) {
    const float a = i % 8 / 8.0f, b = i / 8 / 8.0f;
    xs.insert(xs.end(), {a, b});
    ys.push_back(2 * a - b);
  }
  stowage::Runner& train = session.front();
  own::Result result;
  for (int64_t i = 1; i <= 500; ++i) {
    Must(train.Write("x", xs)), Must(train.Write("y", ys));
    Must(train.Write("lr", 2e-2f)), Must(train.Write("step", i));
    if (auto code = train.Step(); code != stowage::StepCode::kOk) {
      std::exit((std::puts(train.Explain(code).message.c_str()), 1));
    }
    result = {.steps = int(i), .loss = Must(train.ReadScalar("loss"))};
  }
  return result;
}

int main() {
  const own::Result result = Train();
  std::printf("loss %g after %d steps\n", result.loss, result.steps);
  return result.loss < 1e-3f ? 0 : 1;
}
