#ifndef STOWAGE_TRAIN_STATE_BACKUP_H_
#define STOWAGE_TRAIN_STATE_BACKUP_H_

// Copies params and states to host memory. FiniteGuard uses the copy to undo a step that computed
// NaN or infinity, and AveragedWeights to restore the params after the averaged weights have been
// evaluated or saved.
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

/// Undoes steps that computed NaN or infinity. Keeps a copy of all params and states in host
/// memory, and updates the copy after each good step.
class FiniteGuard {
 public:
  /// Copies the params and states of `runner`, which must outlive the result. Returns kDevice if
  /// there is not enough memory for the copy.
  static Result<FiniteGuard> Make(Runner& runner);

  /// Must be called after each step. `finite` states whether the loss of the step is finite. If it
  /// is true and all params and states are finite, updates the copy and returns true. Otherwise
  /// restores params and states from the copy and returns false. Propagates errors of
  /// Runner::ReadBytes and WriteBytes.
  Result<bool> Settle(bool finite);

  /// Returns whether all params and states of this rank are finite. With several ranks, Settle must
  /// be called with the same argument on all ranks, which is true only if this result is true on
  /// all ranks. Propagates errors of Runner::ReadPart.
  Result<bool> IsFinite() const;

 private:
  explicit FiniteGuard(Runner& runner) : runner_(&runner) {}
  Status Keep();

  Runner* runner_;
  std::vector<ValueId> values_;
  std::vector<std::byte> kept_;
};

/// Returns whether a step of `graph` keeps averages (TrainOptions::ema).
bool KeepsAverages(const Graph& graph);

/// Replaces params by their averages until Restore is called, so that programs, weight files and
/// exports use the averages. Before Restore, no training step may run and no checkpoint may be
/// saved.
class AveragedWeights {
 public:
  /// Sets each param of `step` that has an average to its average, rounded to the param's type.
  /// Does nothing if the step keeps no averages, or if no step has updated the averages yet. `step`
  /// must outlive the result. Returns kDevice if there is not enough host memory for a copy of the
  /// params. Propagates errors of Runner::ReadBytes and WriteBytes.
  static Result<AveragedWeights> Use(Runner& step);

  AveragedWeights(AveragedWeights&& other) noexcept
      : step_(other.step_), kept_(std::exchange(other.kept_, {})) {}
  AveragedWeights& operator=(AveragedWeights&&) = delete;
  /// Calls Restore, and ignores errors.
  ~AveragedWeights() { static_cast<void>(Restore()); }

  /// Restores the original values of the params. A second call does nothing. Propagates errors of
  /// Runner::WriteBytes.
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
