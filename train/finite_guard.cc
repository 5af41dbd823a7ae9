#include "train/finite_guard.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/memory.h"
#include "base/strings.h"
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

// Takes a number and a space, or the end, from the front of `text`.
template <typename T>
bool Take(std::string_view* text, T* value) {
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, *value);
  if (parsed.ec != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(parsed.ptr - text->data()));
  if (text->starts_with(' ')) text->remove_prefix(1);
  return true;
}

}  // namespace

bool EvaluationHistory::Add(int64_t step, double loss) {
  last_step = step;
  const bool is_best =
      std::isfinite(loss) && (best_step == 0 || loss < best_loss);
  if (!is_best) {
    ++since_best;
    return false;
  }
  best_step = step;
  best_loss = loss;
  since_best = 0;
  return true;
}

std::string ToText(const EvaluationHistory& history) {
  return StrCat(history.last_step, " ", history.best_step, " ",
                history.best_loss, " ", history.since_best);
}

Result<EvaluationHistory> ParseEvaluationHistory(std::string_view text) {
  EvaluationHistory history;
  std::string_view rest = text;
  const bool is_one =
      Take(&rest, &history.last_step) && Take(&rest, &history.best_step) &&
      Take(&rest, &history.best_loss) && Take(&rest, &history.since_best) &&
      rest.empty() && history.best_step >= 0 && history.since_best >= 0 &&
      history.last_step >= history.best_step &&
      std::isfinite(history.best_loss);
  if (is_one) return history;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[evaluations] ", Quoted(text),
                      " is no history of evaluations; expected the last step, "
                      "the best one, its loss and the evaluations since")};
}

}  // namespace stowage
