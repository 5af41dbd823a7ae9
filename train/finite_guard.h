#ifndef STOWAGE_TRAIN_FINITE_GUARD_H_
#define STOWAGE_TRAIN_FINITE_GUARD_H_

// Undoes steps that made NaN or infinity, so that a run goes on as if they had not
// been taken. It keeps a copy of all params and states in the host's memory, as
// large as they are, and makes it anew after each step that was good: a copy of all
// of them a step.
//
//   Result<FiniteGuard> guard = FiniteGuard::Make(runner);
//   ... one step ...
//   Result<bool> good = guard->Settle(std::isfinite(loss));  // false: undone

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

class FiniteGuard {
 public:
  /// Keeps what the params and states of `runner` are now. `runner` must outlive
  /// this. Error kDevice where there is no memory for a copy of them.
  static Result<FiniteGuard> Make(Runner& runner);

  /// After a step: if its loss was `finite` and all params and states are, keeps
  /// these. If not, puts back those that were kept, and is false. Errors: those of
  /// Runner::ReadBytes and WriteBytes.
  Result<bool> Settle(bool finite);

  /// Whether all params and states are, of this rank alone where there are several:
  /// these must agree before one settles. Errors: those of Runner::ReadPart.
  Result<bool> IsFinite() const;

 private:
  explicit FiniteGuard(Runner& runner) : runner_(&runner) {}
  Status Keep();

  Runner* runner_;
  std::vector<ValueId> values_;
  std::vector<std::byte> kept_;
};

// What a run's evaluations have come to: the lowest validation loss so far and how many
// evaluations have not improved on it, by which early stopping decides. Checkpoints note
// it, so that a resumed run stops where the whole one would have stopped.
//
//   EvaluationHistory history;
//   if (history.Add(step, loss)) SaveBest();
//   if (history.since_best == patience) break;

struct EvaluationHistory {
  int64_t last_step = 0;  // the last that was evaluated; 0: none
  int64_t best_step = 0;  // of the lowest loss; 0: none
  double best_loss = 0;
  int64_t since_best = 0;  // evaluations behind that one

  /// Takes note of the loss of `step`, which is later than last_step. Returns whether it
  /// is the lowest; one that is equal or not finite is not.
  bool Add(int64_t step, double loss);

  friend bool operator==(const EvaluationHistory&,
                         const EvaluationHistory&) = default;
};

/// One line of text, from which ParseEvaluationHistory makes the same again.
std::string ToText(const EvaluationHistory& history);
/// Error kInvalidArgument: a text that is none of these.
Result<EvaluationHistory> ParseEvaluationHistory(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_FINITE_GUARD_H_
