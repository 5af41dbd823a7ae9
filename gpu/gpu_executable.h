#ifndef STOWAGE_GPU_GPU_EXECUTABLE_H_
#define STOWAGE_GPU_GPU_EXECUTABLE_H_

// Runs a program on a device as one graph, which is captured once and launched for every step. If
// the host takes branches, there are several graphs (gpu/step_graphs.h), and starting a step blocks
// until the body of its last branch is known.
//
//   copy stream      [inputs of step 2]          [inputs of step 3]
//   compute stream   [graph: step 1      ] [graph: step 2      ] ...
//   the caller       writes 2, starts 2, reads the loss of 1, writes 3, ...
//
// The graph consists of BeginStep, the launches of the program, and EndStep (gpu/step_kernels.h).
// Copies to and from host memory and collectives run concurrently with other launches
// (gpu/step_graphs.h). The graph contains addresses only. Values that change from step to step,
// such as the learning rate, the step number and the batch, are inputs, so the graph is never
// captured a second time. InputStaging copies the inputs of a step to the device while the previous
// step runs.

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

/// State shared by the programs on one device.
struct DeviceState {
  std::unique_ptr<Device> device;
  Stream compute, copy;
  Stream exchange;  // only with several ranks
  /// If true, steps run op by op, with a check for faults and non-finite results after each.
  bool check = false;
  AttentionAutotuner attention = {};
  /// The program whose step record and input slots are valid in the arena, or null.
  const Executable* current = nullptr;
  /// The first failure of the device. The device is not used after it.
  std::string fault;
  /// Whether graphs contain branches: ok, or the reason why the host takes branches. Not set before
  /// the first program with branches is bound.
  std::optional<Status> branches = {};
  Bytes pinned_bytes = 0;

  /// Returns whether `status` is ok. If it is the first error, stores its message in `fault`.
  bool Ok(const Status& status);
};

/// Binds `program`: loads its kernels, chooses the algorithms of its matmuls and attention, and
/// captures its graph. `state` must outlive the result. Returns kInvalidArgument if the plan's
/// alignment is not a multiple of kSlotAlignment. Propagates errors of the device, of the attention
/// autotuner, of InputStaging::Create and of StepGraphs::Capture.
Result<std::unique_ptr<Executable>> BindProgram(const Program& program,
                                                DeviceState& state);

/// Returns the size in bytes of one slot, which holds all inputs of `graph` in a plan with this
/// alignment. Returns the maximum of Bytes if the sum overflows.
Bytes SlotBytes(const Graph& graph, Bytes alignment);

/// Copies inputs to the device while the previous step is still running.
///
///   staging.Write(x, bytes, step % 2);
///   staging.Upload(step % 2, done_before, copy_stream, compute_stream);
///
/// There are two slots in pinned memory and two in the arena. A slot holds all inputs, in the
/// layout that they have in the plan. Steps use the slots alternately. The caller writes inputs to
/// the pinned slot of the next step. Upload copies this slot to the slot in the arena, and the
/// first kernel of the step copies that slot to the planned addresses. An input that is not written
/// keeps its content, which Upload copies from the other pinned slot. If no input was written since
/// the slot was last uploaded, it is not copied to the arena.
///
/// If another program has used the arena, the caller must write all inputs before the next step
/// of this program (runtime/session.h).
class InputStaging {
 public:
  /// Creates a staging area. `pinned` begins with two slots, and `device_slots` points to the two
  /// slots in the arena. Returns kInvalidArgument if the plan does not place the inputs
  /// contiguously. Propagates errors of Device::CreateEvent.
  static Result<std::unique_ptr<InputStaging>> Create(const Program& program,
                                                      const PinnedBlock& pinned,
                                                      std::byte* device_slots,
                                                      Device& device);
  ~InputStaging();

  // The arguments of EnqueueBeginStep: the lowest planned address of an input, and the number of
  // bytes to copy there.
  std::byte* planned() const { return planned_; }
  Bytes bytes() const { return bytes_; }
  Bytes slot_bytes() const { return slot_bytes_; }

  /// Waits for the last copy from pinned slot `slot`, and writes `data`, the whole content of
  /// `input`, to the slot. Propagates errors of the device.
  Status Write(ValueId input, std::span<const std::byte> data, uint64_t slot);
  void Read(ValueId input, std::span<std::byte> data) const;

  /// If an input was written since the last upload of slot `slot`, completes the pinned slot with
  /// the newest content of every input, copies the slot to the arena on stream `copy`, after event
  /// `after`, and makes stream `compute` wait for the copy.
  Status Upload(uint64_t slot, Event after, Stream copy, Stream compute);
  /// Copies every input to its planned address, on `stream`.
  Status Place(Stream stream);

 private:
  struct Input {
    ValueId value;
    Bytes offset;  // in a slot
    Bytes bytes;
    uint64_t newest = 0;                // the number of the last write
    std::array<uint64_t, 2> held = {};  // the number of the write in each slot
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
  Bytes bytes_ = 0;  // from the start of the first input to the end of the last
  Bytes slot_bytes_ = 0;
  std::vector<Input> inputs_;
  uint64_t writes_ = 0;
  std::array<uint64_t, 2> uploaded_ = {};  // `writes_` at each slot's last copy
  std::array<Event, 2> copied_ = {};
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_GPU_EXECUTABLE_H_
