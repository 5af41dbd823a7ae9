// Trains gpt-nano in 35 % of the arena it takes: bazel run //examples:budget
#include <iostream>

#include "stowage/stowage.h"
using namespace stowage;
auto Must(auto result) {  // the value of a Result, or the program's end
  if (!result.ok()) std::exit((std::cerr << result.error().message << "\n", 1));
  if constexpr (requires { *result; }) return *std::move(result);
}
ModelFn Nano(ModelPurpose use) {
  return [=](int64_t n) { return BuildModel("gpt-nano", use, {.batch = n}); };
}
int main() {
  auto text = Must(TextData::Load("examples/data/pride_and_prejudice.txt", 64));
  TrainingSpec spec{.model = Nano(ModelPurpose::kTrain), .batch = 8};
  spec.budget = Must(Train(spec)).plan().arena_bytes() * 35 / 100;
  spec.optimizations =
      MemoryOptimizations{};  // not the batch in micro-batches: losses change by no bit
  spec.programs = {{"evaluate", Nano(ModelPurpose::kEvaluate), /*batch=*/8}};
  Training nano = Must(Train(spec));
  nano.Initialize(/*seed=*/1);
  std::vector<int32_t> x(8 * 64), y(8 * 64);
  for (int64_t i = 1; i <= 201; ++i) {
    const bool train = i <= 200;  // and then on text it has not seen
    Runner& run = train ? nano.step() : *nano.Find("evaluate");
    const auto part = train ? text.train() : text.held_out();
    SampleTextBatch(part, 8, 64, /*seed=*/1, /*step=*/i, x, y);
    Must(run.Write("tokens", x)), Must(run.Write("targets", y));
    if (train) Must(run.Write("lr", 1e-3f)), Must(run.Write("step", i));
    const StepCode code = run.Step();
    if (code != StepCode::kOk) Must(Status(run.Explain(code)));
    if (i % 40 != 1) continue;
    std::cout << run.name() << " " << i << ", loss "
              << Must(run.ReadScalar("loss")) << "\n";
  }
  const FittedStep& step = nano.plan().step;
  for (const PassReport& pass : step.passes)
    std::cout << (pass.changed ? "made to fit by " + pass.name + "\n" : "");
  std::cout << ToText(MakeReport(step.graph, step.plan)) << *spec.budget
            << " allowed, taken " << nano.session().arena_bytes() << "\n";
}
