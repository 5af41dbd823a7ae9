#ifndef STOWAGE_GPU_GPU_EXECUTABLE_H_
#define STOWAGE_GPU_GPU_EXECUTABLE_H_

// A program on a device: one graph that was captured once and is launched for
// every step. Where the host takes branches there are several (gpu/step_graphs.h), and to
// start a step takes until its last branch is chosen.
//
//   copy stream      [inputs of step 2]          [inputs of step 3]
//   compute stream   [graph: step 1      ] [graph: step 2      ] ...
//   the caller       writes 2, starts 2, reads the loss of 1, writes 3, ...
//
// The graph is: BeginStep, every launch of the program, copies to and from the
// host's memory and exchanges between ranks beside the others (gpu/side_stream.h),
// EndStep (gpu/step_record.h). It holds addresses only; learning rate, step number and
// batch are inputs. So nothing is ever captured again.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/attention_autotuner.h"
#include "gpu/device.h"
#include "runtime/backend.h"
#include "runtime/program.h"

namespace stowage::gpu {

/// What the programs on one device share.
struct DeviceState {
  std::unique_ptr<Device> device;
  Stream compute, copy;
  Stream exchange;  // where there are several ranks
  /// Runs op by op, and looks for faults and non-finite results after each.
  bool check = false;
  AttentionAutotuner attention = {};
  /// The program whose record and input slots the arena holds.
  const Executable* current = nullptr;
  /// What the device said when it failed first; it is not used again.
  std::string fault;
  /// Whether graphs hold branches, once it was tried (gpu/branch_trial.h) and as long as
  /// every program's could be made: else why the host takes them, from then on.
  std::optional<Status> branches = {};
  Bytes pinned_bytes = 0;

  /// Notes what failed, if it did.
  bool Ok(const Status& status);
};

/// Binds `program`: loads its kernels, chooses its matrix products' algorithms,
/// captures its graph. `state` must outlive it. Errors: a plan that is not
/// aligned to kSlotAlignment, or whatever the device cannot do.
Result<std::unique_ptr<Executable>> BindProgram(const Program& program,
                                                DeviceState& state);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_EXECUTABLE_H_
