// Trains a digit classifier in 1 MiB, all included: bazel run //examples:mlp
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "stowage/stowage.h"

using namespace stowage;

template <typename R>
auto Must(R result) {
  if (!result.ok()) std::exit((std::puts(result.error().message.c_str()), 1));
  if constexpr (!std::is_same_v<R, Status>) return *std::move(result);
}

// A model is a graph: functions add to it, nothing is computed yet.
Graph Model(int64_t batch) {
  GraphBuilder g("digits");
  Value x = g.Input("x", DType::kF32, {batch, 64});
  Value y = g.Input("y", DType::kI32, {batch});
  Value h = Relu(Linear(x, "fc1", 128, {.init = Init::Normal(0.18)}));
  Value logits = Linear(h, "fc2", 10, {.init = Init::Normal(0.12)});
  g.Output("loss", CrossEntropy(logits, y));
  g.Output("right", ReduceMean(Cast(Equal(ArgMax(logits), y), DType::kF32)));
  return Must(g.Finish());
}

int main() {
  auto [train, test] = Must(DigitsData::Load("examples/data/digits.csv", 1));
  auto cpu = MakeCpuBackend();
  // Forward, backward and update on one timeline, every byte placed for good;
  // then a second program over the same weights, for the held-out images.
  Graph graph = Must(BuildTrainStep(Model(64), "loss"));
  PlanOptions options{.budget = 1 << 20, .device = cpu->Needs()};
  PlannedGraph step = Must(PlanProgram(graph, options));
  options.weights = WeightLayout::FromForward(step.graph, step.plan);
  PlannedGraph eval = Must(PlanProgram(Model(test.size()), options));
  Session session = Must(Session::Create(
      {{"train", step.graph, step.plan}, {"eval", eval.graph, eval.plan}},
      *cpu));
  session.Initialize(/*seed=*/1);

  Runner& trainer = *session.Find("train");
  std::vector<float> x(64 * 64);
  std::vector<int32_t> y(64);
  for (int64_t i = 1; i <= 500; ++i) {
    SampleDigits(train, 64, /*seed=*/1, i, x, y);
    Must(trainer.Write("x", x)), Must(trainer.Write("y", y));
    Must(trainer.Write("lr", 2e-3f)), Must(trainer.Write("step", i));
    if (trainer.Step() != StepCode::kOk) return 1;
  }
  Runner& tester = *session.Find("eval");
  Must(tester.Write("x", test.x)), Must(tester.Write("y", test.y));
  if (tester.Step() != StepCode::kOk) return 1;
  std::printf("%s\nright on %.1f %% of %d images it has not seen\n",
              ToText(MakeReport(step.graph, step.plan)).c_str(),
              100 * Must(tester.ReadScalar("right")), int(test.size()));
}
