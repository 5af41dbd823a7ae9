#ifndef STOWAGE_TRAIN_EVALUATION_HISTORY_H_
#define STOWAGE_TRAIN_EVALUATION_HISTORY_H_

// What a run's evaluations have come to: the lowest validation loss so far and how many
// evaluations have not improved on it, by which early stopping decides. Checkpoints note
// it, so that a resumed run stops where the whole one would have stopped.
//
//   EvaluationHistory history;
//   if (history.Add(step, loss)) SaveBest();
//   if (history.since_best == patience) break;

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

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

#endif  // STOWAGE_TRAIN_EVALUATION_HISTORY_H_
