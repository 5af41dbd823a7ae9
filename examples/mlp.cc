// Trains a digit classifier in 1 MiB, all included: bazel run //examples:mlp
#include <cstdio>
#include <vector>

#include "stowage/stowage.h"

using namespace stowage;

// A model is a graph: functions add to it, nothing is computed yet.
Graph Model(int64_t batch) {
  GraphBuilder g("digits");
  Value x = g.Input("x", DType::kF32, {batch, 64});
  Value y = g.Input("y", DType::kI32, {batch});
  Value h = Relu(Linear(x, "fc1", 128, {.init = Init::Normal(0.18)}));
  Value logits = Linear(h, "fc2", 10, {.init = Init::Normal(0.12)});
  g.Output("loss", CrossEntropy(logits, y));
  g.Output("right", ReduceMean(Cast(Equal(ArgMax(logits), y), DType::kF32)));
  return g.Finish().OrDie();
}

int main() {
  auto [train, test] = DigitsData::Load("examples/data/digits.csv", 1).OrDie();
  auto cpu = MakeCpuBackend();
  // Forward, backward and update on one timeline, every byte placed for good;
  // then a second program over the same weights, for the held-out images.
  Graph graph = BuildTrainStep(Model(64), "loss").OrDie();
  PlanOptions options{.budget = 1 << 20, .device = cpu->Needs()};
  PlannedGraph step = PlanProgram(graph, options).OrDie();
  options.weights = WeightLayout::FromForward(step.graph, step.plan);
  PlannedGraph eval = PlanProgram(Model(test.size()), options).OrDie();
  Session session = Session::Create({{"train", step.graph, step.plan},
                                     {"eval", eval.graph, eval.plan}},
                                    *cpu)
                        .OrDie();
  session.Initialize(/*seed=*/1);

  Runner& trainer = *session.Find("train");
  std::vector<float> x(64 * 64);
  std::vector<int32_t> y(64);
  for (int64_t i = 1; i <= 500; ++i) {
    SampleDigits(train, 64, /*seed=*/1, i, x, y);
    trainer.Write("x", x).OrDie();
    trainer.Write("y", y).OrDie();
    trainer.Write("lr", 2e-3f).OrDie();
    trainer.Write("step", i).OrDie();
    if (trainer.Step() != StepCode::kOk) return 1;
  }
  Runner& tester = *session.Find("eval");
  tester.Write("x", test.x).OrDie();
  tester.Write("y", test.y).OrDie();
  if (tester.Step() != StepCode::kOk) return 1;
  std::printf("%s\nright on %.1f %% of %d images it has not seen\n",
              ToText(MakeReport(step.graph, step.plan)).c_str(),
              100 * tester.ReadScalar("right").OrDie(), int(test.size()));
}
