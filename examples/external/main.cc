// Trains a model of its own, with an op of its own, in half of what it takes.
#include <cstdio>

#include "base/result.h"
#include "stowage/stowage.h"
#include "waves.h"

int main() {
  constexpr int64_t kBatch = 256;
  // No optimizations named: all of them.
  stowage::TrainingSpec spec = {.model = own::Waves, .batch = kBatch};
  spec.budget = own::Must(Train(spec)).plan().arena_bytes() / 2;
  stowage::Training training = own::Must(Train(spec));
  training.Initialize(/*seed=*/1);

  const own::Points points = own::MakePoints(kBatch);
  stowage::Runner& step = training.step();
  float loss = 0;
  for (int64_t i = 1; i <= 300; ++i) {
    own::Must(step.Write("t", points.t)), own::Must(step.Write("y", points.y));
    own::Must(step.Write("lr", 1e-3f)), own::Must(step.Write("step", i));
    if (const auto code = step.Step(); code != stowage::StepCode::kOk) {
      own::Must(stowage::Status(step.Explain(code)));
    }
    loss = own::Must(step.ReadScalar("loss"));
    if (i % 100 == 1) std::printf("step %d, loss %g\n", int(i), loss);
  }
  own::Result result;
  result.Check(loss < 0.01f, "it has not learnt the wave");
  result.Check(training.session().arena_bytes() <= *spec.budget, "the budget");
  std::printf("loss %g in %lld bytes of %lld\n", loss,
              static_cast<long long>(training.session().arena_bytes()),
              static_cast<long long>(*spec.budget));
  return result.exit_code();
}
