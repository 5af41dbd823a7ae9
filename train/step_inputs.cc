#include "train/step_inputs.h"

#include <array>
#include <optional>

namespace stowage {

namespace {

constexpr std::array<std::string_view, 3> kNames = {"lr", "step", "seed"};

bool Reads(const Graph& graph, std::string_view name) {
  const std::optional<ValueId> id = graph.Find(name);
  return id && StepInputs::Includes(graph.value(*id));
}

}  // namespace

StepInputs::StepInputs(const Graph& graph)
    : reads_lr_(Reads(graph, "lr")),
      reads_step_(Reads(graph, "step")),
      reads_seed_(Reads(graph, "seed")) {}

bool StepInputs::Includes(const ValueInfo& input) {
  if (input.role != Role::kInput || input.type.shape.rank() != 0) return false;
  for (const std::string_view name : kNames) {
    if (input.name == name) return true;
  }
  return false;
}

Status StepInputs::Write(Runner& runner, const Values& values) const {
  if (reads_lr_) {
    STOWAGE_RETURN_IF_ERROR(runner.Write("lr", static_cast<float>(values.lr)));
  }
  if (reads_step_) STOWAGE_RETURN_IF_ERROR(runner.Write("step", values.step));
  if (!reads_seed_) return {};
  return runner.Write("seed", values.seed);
}

}  // namespace stowage
