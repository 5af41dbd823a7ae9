#ifndef STOWAGE_GPU_GPU_EXECUTABLE_H_
#define STOWAGE_GPU_GPU_EXECUTABLE_H_

// A program on a device: one graph, captured once and launched for every step. If the host
// takes branches there are several graphs (gpu/step_graphs.h), and starting a step blocks
// until its last branch is chosen.
//
//   copy stream      [inputs of step 2]          [inputs of step 3]
//   compute stream   [graph: step 1      ] [graph: step 2      ] ...
//   the caller       writes 2, starts 2, reads the loss of 1, writes 3, ...
//
// The graph is BeginStep, the launches of the program, with copies to and from host memory
// and exchanges between ranks running concurrently (gpu/step_graphs.h), and EndStep
// (gpu/step_kernels.h). It contains addresses only; learning rate, step number and batch are
// inputs, so nothing is captured again. InputStaging copies the inputs of a step to the
// device while the previous step runs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/attention_autotuner.h"
#include "gpu/device.h"
#include "ir/graph.h"
#include "runtime/backend.h"
#include "runtime/program.h"

namespace stowage::gpu {

/// The state that the programs on one device share.
struct DeviceState {
  std::unique_ptr<Device> device;
  Stream compute, copy;
  Stream exchange;  // for several ranks
  /// Runs op by op, and checks for faults and non-finite results after each.
  bool check = false;
  AttentionAutotuner attention = {};
  /// The program whose record and input slots are in the arena.
  const Executable* current = nullptr;
  /// The first failure of the device, which is not used after it.
  std::string fault;
  /// Whether graphs contain branches, after the first trial (TryGraphBranches): ok, or the
  /// reason why the host takes them from then on.
  std::optional<Status> branches = {};
  Bytes pinned_bytes = 0;

  /// Keeps `status` if it is an error; returns whether it is not.
  bool Ok(const Status& status);
};

/// Binds `program`: loads its kernels, chooses the algorithms of its matmuls, captures its
/// graph. `state` must outlive it. Errors: a plan that is not aligned to kSlotAlignment; the
/// device's.
Result<std::unique_ptr<Executable>> BindProgram(const Program& program,
                                                DeviceState& state);

/// Bytes of one slot for the inputs of `graph`, planned with `alignment`; the largest value
/// if the sum overflows.
Bytes SlotBytes(const Graph& graph, Bytes alignment);

/// Copies inputs to the device while the previous step is still running.
///
///   staging.Write(x, bytes, step % 2);
///   staging.Upload(step % 2, done_before, copy_stream, compute_stream);
///
/// There are two slots in pinned memory and two in the arena, each with the layout of the
/// inputs' part of the plan. The caller writes to the pinned slot of the next step; one copy
/// transfers it to the slot in the arena, and the step's first kernel copies it to the
/// planned places. An input that is not written again keeps its content, which is copied from
/// the other slot. A slot without changes is not copied.
///
/// When another program has used the arena, all inputs are written again before this
/// program's next step (runtime/session.h).
class InputStaging {
 public:
  /// `pinned`: two slots; `device_slots`: as many bytes in the arena. Error
  /// kInvalidArgument if the plan does not place the inputs contiguously.
  static Result<std::unique_ptr<InputStaging>> Create(const Program& program,
                                                      const PinnedBlock& pinned,
                                                      std::byte* device_slots,
                                                      Device& device);
  ~InputStaging();

  // For EnqueueBeginStep: the first planned place, and the bytes to copy there.
  std::byte* planned() const { return planned_; }
  Bytes bytes() const { return bytes_; }
  Bytes slot_bytes() const { return slot_bytes_; }

  /// Writes `data` to pinned slot `slot`, after waiting for the last copy from there. Error:
  /// the device's.
  Status Write(ValueId input, std::span<const std::byte> data, uint64_t slot);
  void Read(ValueId input, std::span<std::byte> data) const;

  /// Updates slot `slot` and, if that changed it, copies it on stream `copy` after the event
  /// `after`; `compute` waits for the copy.
  Status Upload(uint64_t slot, Event after, Stream copy, Stream compute);
  /// Copies every input to its planned place.
  Status Place(Stream stream);

 private:
  struct Input {
    ValueId value;
    Bytes offset;  // in a slot
    Bytes bytes;
    uint64_t newest = 0;                // the number of its last write
    std::array<uint64_t, 2> held = {};  // of the write that each slot holds
    const std::byte* Newest(const InputStaging& staging) const {
      return staging.pinned_.host + offset +
             (held[0] == newest ? 0 : staging.slot_bytes_);
    }
  };

  explicit InputStaging(Device& device) : device_(device) {}
  Input& Find(ValueId input);

  Device& device_;
  PinnedBlock pinned_;
  std::byte* device_slots_ = nullptr;
  std::byte* planned_ = nullptr;
  Bytes bytes_ = 0;  // from the first input to the end of the last
  Bytes slot_bytes_ = 0;
  std::vector<Input> inputs_;
  uint64_t writes_ = 0;
  std::array<uint64_t, 2> uploaded_ = {};  // `writes_` at each slot's last copy
  std::array<Event, 2> copied_ = {};
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_EXECUTABLE_H_
