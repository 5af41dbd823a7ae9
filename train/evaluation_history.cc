#include "train/evaluation_history.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/strings.h"

namespace stowage {
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
