#ifndef STOWAGE_TRAIN_STATE_BACKUP_H_
#define STOWAGE_TRAIN_STATE_BACKUP_H_

// Backups of params and states in host memory: to undo a step that made NaN or infinity, and
// to evaluate and save with averaged weights.
//
//   Result<FiniteGuard> guard = FiniteGuard::Make(runner);
//   ... one step ...
//   Result<bool> good = guard->Settle(std::isfinite(loss));  // false: the step is undone
//
//   Result<AveragedWeights> averaged = AveragedWeights::Use(training.step());
//   ... evaluate, SaveWeights(training.step(), "averages.safetensors") ...
//   Status restored = averaged->Restore();

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

/// Undoes steps that made NaN or infinity. Keeps a copy of all params and states, and renews
/// it after each good step.
class FiniteGuard {
 public:
  /// Copies the params and states of `runner`, which must outlive this. Error kDevice if
  /// there is no memory for the copy.
  static Result<FiniteGuard> Make(Runner& runner);

  /// After a step: if its loss was `finite` and all params and states are, copies them. If
  /// not, restores the copy and returns false. Errors: those of Runner::ReadBytes and
  /// WriteBytes.
  Result<bool> Settle(bool finite);

  /// Whether all params and states of this rank are finite. Ranks must agree on the result
  /// before they settle. Errors: those of Runner::ReadPart.
  Result<bool> IsFinite() const;

 private:
  explicit FiniteGuard(Runner& runner) : runner_(&runner) {}
  Status Keep();

  Runner* runner_;
  std::vector<ValueId> values_;
  std::vector<std::byte> kept_;
};

/// Whether a step of `graph` keeps averages (TrainOptions::ema).
bool KeepsAverages(const Graph& graph);

/// Replaces params by their averages while it lives: programs, weight files and exports then
/// use the averages. No step may be taken and no checkpoint saved before Restore.
class AveragedWeights {
 public:
  /// Sets each param of `step` that has an average to it, rounded to the param's type. Does
  /// nothing if the step keeps no averages, or has computed none yet. `step` must outlive
  /// this. Errors: kDevice if there is no memory for the params' values; those of
  /// Runner::ReadBytes and WriteBytes.
  static Result<AveragedWeights> Use(Runner& step);

  AveragedWeights(AveragedWeights&& other) noexcept
      : step_(other.step_), kept_(std::exchange(other.kept_, {})) {}
  AveragedWeights& operator=(AveragedWeights&&) = delete;
  /// Calls Restore.
  ~AveragedWeights() { static_cast<void>(Restore()); }

  /// Restores the params; does nothing a second time. Errors: those of Runner::WriteBytes.
  Status Restore();

 private:
  struct Kept {
    ValueId param = 0;
    std::vector<std::byte> value;
  };
  explicit AveragedWeights(Runner& step) : step_(step) {}

  Runner& step_;
  std::vector<Kept> kept_;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STATE_BACKUP_H_
