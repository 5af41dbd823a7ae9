#ifndef STOWAGE_TRAIN_STEP_INPUTS_H_
#define STOWAGE_TRAIN_STEP_INPUTS_H_

// The inputs that a training step has besides its batch: the learning rate "lr", the
// number "step", by which some optimizers correct their moments, and the "seed" of random
// ops. A graph reads some of them.
//
//   const StepInputs inputs(training.step().graph());
//   Status written = inputs.Write(training.step(), {.step = 7, .lr = 3e-4, .seed = 1});

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"
#include "runtime/session.h"

namespace stowage {

class StepInputs {
 public:
  struct Values {
    int64_t step = 1;  // counts from 1
    double lr = 0;
    int64_t seed = 1;
  };

  /// None.
  StepInputs() = default;
  /// Those that `graph` reads.
  explicit StepInputs(const Graph& graph);

  /// Whether `input` is one of the three, a scalar, rather than a part of the batch.
  static bool Includes(const ValueInfo& input);

  /// Writes them to `runner`, a program of that graph. Errors: those of Runner::Write.
  Status Write(Runner& runner, const Values& values) const;

 private:
  bool reads_lr_ = false, reads_step_ = false, reads_seed_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_INPUTS_H_
