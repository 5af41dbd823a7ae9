#include "train/finite_guard.h"

#include "base/memory.h"
#include "base/strings.h"
#include "runtime/finite.h"
#include "runtime/parts.h"

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

}  // namespace stowage
