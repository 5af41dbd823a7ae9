#include "tools/trial.h"

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "runtime/session.h"

namespace stowage::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLeast = 2, kMost = 20;
constexpr double kSeconds = 2;

// Writes a scalar that only some steps read.
Status WriteIfRead(Runner& step, std::string_view name, int64_t value) {
  const std::optional<ValueId> id = step.graph().Find(name);
  if (!id || step.graph().value(*id).role != Role::kInput) return {};
  return step.Write(name, value);
}

Status TakeOne(Runner& step, Task& task, int64_t number, int64_t seed) {
  STOWAGE_RETURN_IF_ERROR(task.WriteBatch(step, number));
  STOWAGE_RETURN_IF_ERROR(step.Write("lr", 0.0f));
  STOWAGE_RETURN_IF_ERROR(WriteIfRead(step, "step", number));
  STOWAGE_RETURN_IF_ERROR(WriteIfRead(step, "seed", seed));
  return TakeStep(step);
}

}  // namespace

Result<Trial> TrySteps(Training& training, Task& task, int64_t seed) {
  std::vector<Runner*> steps = {&training.step()};
  for (const PlannedShape& shape : training.plan().shapes) {
    steps.push_back(training.Find(shape.name));
  }
  STOWAGE_RETURN_IF_ERROR(TakeOne(*steps[task.ShapeOf(1)], task, 1, seed));
  Trial trial;
  double seconds = 0, tokens = 0;
  while (trial.steps < kLeast || (trial.steps < kMost && seconds < kSeconds)) {
    const int64_t number = ++trial.steps + 1;
    const size_t shape = task.ShapeOf(number);
    const Clock::time_point start = Clock::now();
    STOWAGE_RETURN_IF_ERROR(TakeOne(*steps[shape], task, number, seed));
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    tokens += static_cast<double>(task.tokens_per_step(shape));
  }
  trial.step_seconds = seconds / static_cast<double>(trial.steps);
  trial.tokens_per_second = tokens / seconds;
  return trial;
}

}  // namespace stowage::tools
