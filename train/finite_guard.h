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

}  // namespace stowage

#endif  // STOWAGE_TRAIN_FINITE_GUARD_H_
