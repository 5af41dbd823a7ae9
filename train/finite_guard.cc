#include "train/finite_guard.h"

#include <utility>

#include "base/memory.h"
#include "base/strings.h"
#include "runtime/finite.h"

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
      CheckMemory("keeping params and states to undo steps", 2 * bytes));
  guard.kept_.resize(static_cast<size_t>(bytes));
  guard.fresh_.resize(static_cast<size_t>(bytes));
  STOWAGE_RETURN_IF_ERROR(guard.Read(guard.kept_));
  return guard;
}

Status FiniteGuard::Read(std::span<std::byte> to) const {
  for (const ValueId id : values_) {
    const ValueInfo& value = runner_->graph().value(id);
    const auto size = static_cast<size_t>(value.type.bytes());
    STOWAGE_RETURN_IF_ERROR(
        runner_->ReadBytes(value.name, value.type.dtype, to.first(size)));
    to = to.subspan(size);
  }
  return {};
}

Result<bool> FiniteGuard::Settle(bool finite) {
  if (finite) STOWAGE_RETURN_IF_ERROR(Read(fresh_));
  std::span<const std::byte> fresh = fresh_, kept = kept_;
  for (const ValueId id : values_) {
    const TensorType& type = runner_->graph().value(id).type;
    const auto size = static_cast<size_t>(type.bytes());
    finite = finite && !FindNonFinite(type.dtype, fresh.first(size));
    fresh = fresh.subspan(size);
  }
  if (finite) {
    std::swap(kept_, fresh_);
    return true;
  }
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
