#include "train/state_backup.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "autodiff/train_step.h"
#include "base/memory.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "runtime/values.h"

namespace stowage {

Result<FiniteGuard> FiniteGuard::Make(Runner& runner) {
  FiniteGuard guard(runner);
  const Graph& graph = runner.graph();
  Bytes bytes = 0;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : graph.Leaves(role)) {
      guard.values_.push_back(id);
      bytes += graph.value(id).type.bytes();
    }
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckMemory("keeping params and states to undo steps", bytes));
  guard.kept_.resize(static_cast<size_t>(bytes));
  STOWAGE_RETURN_IF_ERROR(guard.Keep());
  return guard;
}

Status FiniteGuard::Keep() {
  std::span<std::byte> to = kept_;
  for (const ValueId id : values_) {
    const ValueInfo& value = runner_->graph().value(id);
    const auto size = static_cast<size_t>(value.type.bytes());
    STOWAGE_RETURN_IF_ERROR(
        runner_->ReadBytes(value.name, value.type.dtype, to.first(size)));
    to = to.subspan(size);
  }
  return {};
}

Result<bool> FiniteGuard::IsFinite() const {
  for (const ValueId id : values_) {
    const ValueInfo& value = runner_->graph().value(id);
    bool finite = true;
    STOWAGE_RETURN_IF_ERROR(ReadInParts(
        *runner_, value, [&](Bytes, std::span<const std::byte> part) -> Status {
          finite = finite && !FindNonFinite(value.type.dtype, part);
          return {};
        }));
    if (!finite) return false;
  }
  return true;
}

Result<bool> FiniteGuard::Settle(bool finite) {
  if (finite) {
    STOWAGE_ASSIGN_OR_RETURN(finite, IsFinite());
  }
  if (finite) {
    STOWAGE_RETURN_IF_ERROR(Keep());
    return true;
  }
  std::span<const std::byte> kept = kept_;
  for (const ValueId id : values_) {
    const ValueInfo& value = runner_->graph().value(id);
    const auto size = static_cast<size_t>(value.type.bytes());
    STOWAGE_RETURN_IF_ERROR(
        runner_->WriteBytes(value.name, value.type.dtype, kept.first(size)));
    kept = kept.subspan(size);
  }
  return false;
}

namespace {

// A param and the state with its average.
struct Averaged {
  ValueId param = 0, average = 0;
};

std::vector<Averaged> AveragedParams(const Graph& graph) {
  std::vector<Averaged> all;
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const std::optional<ValueId> average =
        graph.Find(AverageName(graph.value(id).name));
    if (average && graph.value(*average).role == Role::kState) {
      all.push_back({id, *average});
    }
  }
  return all;
}

Result<Array> Read(const Runner& step, const ValueInfo& value) {
  Array array{value.type,
              std::string(static_cast<size_t>(value.type.bytes()), '\0')};
  STOWAGE_RETURN_IF_ERROR(
      step.ReadBytes(value.name, value.type.dtype, array.data()));
  return array;
}

}  // namespace

bool KeepsAverages(const Graph& graph) {
  return graph.Find(kAverageUpdates).has_value();
}

Result<AveragedWeights> AveragedWeights::Use(Runner& step) {
  AveragedWeights used(step);
  const Graph& graph = step.graph();
  if (!KeepsAverages(graph)) return used;
  std::array<int64_t, 1> updates = {};
  STOWAGE_RETURN_IF_ERROR(
      step.Read(kAverageUpdates, std::span<int64_t>(updates)));
  if (updates[0] == 0) return used;
  const std::vector<Averaged> averaged = AveragedParams(graph);
  Bytes bytes = 0;
  for (const Averaged& each : averaged) {
    bytes += graph.value(each.param).type.bytes();
  }
  STOWAGE_RETURN_IF_ERROR(
      CheckMemory("keeping params while their averages are used", bytes));
  for (const auto& [id, average_id] : averaged) {
    const ValueInfo& param = graph.value(id);
    STOWAGE_ASSIGN_OR_RETURN(Array average,
                             Read(step, graph.value(average_id)));
    if (average.type.dtype != param.type.dtype) {
      average = ArrayOf(param.type.dtype, param.type.shape, RealsOf(average));
    }
    Kept kept{id,
              std::vector<std::byte>(static_cast<size_t>(param.type.bytes()))};
    STOWAGE_RETURN_IF_ERROR(
        step.ReadBytes(param.name, param.type.dtype, kept.value));
    used.kept_.push_back(std::move(kept));
    STOWAGE_RETURN_IF_ERROR(
        step.WriteBytes(param.name, param.type.dtype, average.data()));
  }
  return used;
}

Status AveragedWeights::Restore() {
  for (const Kept& kept : std::exchange(kept_, {})) {
    const ValueInfo& param = step_.graph().value(kept.param);
    STOWAGE_RETURN_IF_ERROR(
        step_.WriteBytes(param.name, param.type.dtype, kept.value));
  }
  return {};
}

}  // namespace stowage
