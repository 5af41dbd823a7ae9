#ifndef STOWAGE_TRAIN_AVERAGED_WEIGHTS_H_
#define STOWAGE_TRAIN_AVERAGED_WEIGHTS_H_

// Params with the values of their averages, which a step keeps with TrainOptions::ema: to
// evaluate with them, and to save them under the params' names. Whatever reads the params
// meanwhile reads the averages, so that programs, weight files and exports need to know
// nothing of them.
//
//   Result<AveragedWeights> averaged = AveragedWeights::Use(training.step());
//   ... evaluate, SaveWeights(training.step(), "averages.safetensors") ...
//   Status restored = averaged->Restore();
//
// The params' own values are kept in the host's memory meanwhile. No step may be taken and
// no checkpoint be saved before they are restored.

#include <cstddef>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/session.h"

namespace stowage {

/// Whether a step of `graph` keeps averages.
bool KeepsAverages(const Graph& graph);

class AveragedWeights {
 public:
  /// Gives each param of `step` that has an average its value, rounded to the param's
  /// type. Changes nothing where the step keeps no averages, or has made none yet: they are
  /// then the params. `step` must outlive this. Errors: kDevice where there is no memory
  /// for the params' own values; those of Runner::ReadBytes and WriteBytes.
  static Result<AveragedWeights> Use(Runner& step);

  AveragedWeights(AveragedWeights&& other) noexcept
      : step_(other.step_), kept_(std::exchange(other.kept_, {})) {}
  AveragedWeights& operator=(AveragedWeights&&) = delete;
  /// Restores what was not restored.
  ~AveragedWeights() { static_cast<void>(Restore()); }

  /// Gives the params their own values again; does nothing a second time. Errors: those of
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

#endif  // STOWAGE_TRAIN_AVERAGED_WEIGHTS_H_
