// The model of this workspace keeps Stowage's laws: a plan changes no bit, nor does
// a budget, but for the batch in micro-batches, where sums are rounded otherwise.
#include "waves.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "stowage/stowage.h"

namespace {

using namespace stowage;

constexpr int64_t kBatch = 256;
constexpr int kSteps = 40;

// The losses of some steps, then the contents of all params.
std::vector<float> Run(Runner& step) {
  const own::Points points = own::MakePoints(kBatch);
  std::vector<float> seen;
  for (int64_t i = 1; i <= kSteps; ++i) {
    own::Must(step.Write("t", points.t)), own::Must(step.Write("y", points.y));
    own::Must(step.Write("lr", 1e-3f)), own::Must(step.Write("step", i));
    if (const StepCode code = step.Step(); code != StepCode::kOk) {
      own::Must(Status(step.Explain(code)));
    }
    seen.push_back(own::Must(step.ReadScalar("loss")));
  }
  for (const ValueId id : step.graph().Leaves(Role::kParam)) {
    const auto& param = step.graph().value(id);
    std::vector<float> content(
        static_cast<size_t>(param.type.shape.num_elements()));
    own::Must(step.Read(param.name, &content));
    seen.insert(seen.end(), content.begin(), content.end());
  }
  return seen;
}

std::vector<float> Run(Backend& cpu, PlanOptions options, bool poison) {
  const Graph step =
      own::Must(BuildTrainStep(own::Must(own::Waves(kBatch)), "loss"));
  options.device = cpu.Needs();
  Session session = own::Must(
      Session::Create({{"train", step, own::Must(PlanMemory(step, options))}},
                      cpu, {.poison = poison}));
  session.Initialize(/*seed=*/1);
  return Run(session.front());
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)),
                            std::as_bytes(std::span(b)));
}

}  // namespace

int main() {
  own::Result result;
  const auto cpu = MakeCpuBackend({.threads = 2});

  // Every value in memory of its own.
  const std::vector<float> unplanned =
      Run(*cpu, {.packer = Packer::kLinear, .in_place = false}, false);
  result.Check(unplanned[kSteps - 1] < unplanned[0] / 2, "it does not learn");
  result.Check(SameBits(Run(*cpu, {}, false), unplanned), "planned");
  result.Check(SameBits(Run(*cpu, {}, true), unplanned), "dead bytes are read");

  TrainingSpec spec = {.model = own::Waves, .batch = kBatch};
  const Bytes arena = own::Must(Train(spec, *cpu)).plan().arena_bytes();

  // All optimizations but micro-batches.
  spec.optimizations = MemoryOptimizations{};
  spec.budget = arena * 6 / 10;
  Training tight = own::Must(Train(spec, *cpu));
  tight.Initialize(1);
  result.Check(tight.session().arena_bytes() <= *spec.budget, "the budget");
  result.Check(SameBits(Run(tight.step()), unplanned), "a budget changes bits");

  // In micro-batches alone.
  spec.optimizations = NoOptimizations();
  spec.optimizations->micro_batches = {1, 2, 4, 8};
  spec.budget = arena * 85 / 100;
  Training micro_batches = own::Must(Train(spec, *cpu));
  micro_batches.Initialize(1);
  result.Check(micro_batches.plan().step.price.micro_batches > 1,
               "there are no micro-batches");
  result.Check(micro_batches.session().arena_bytes() <= *spec.budget,
               "the budget");
  const std::vector<float> losses = Run(micro_batches.step());
  for (size_t i = 0; i < kSteps; ++i) {
    result.Check(std::abs(losses[i] - unplanned[i]) < 1e-4f * unplanned[i],
                 "losses in micro-batches");
  }
  return result.exit_code();
}
