#ifndef STOWAGE_GPU_STAGING_H_
#define STOWAGE_GPU_STAGING_H_

// The way of the inputs to the device, while the step before is still running.
//
// There are two slots in pinned memory and two in the arena, each laid out as
// the inputs' part of the plan. The caller writes into the pinned slot of the
// next step, one copy takes all of it to the arena's, and the step's first
// kernel from there to the planned places. An input that is not written again
// keeps its content: it is taken over from the other slot. A slot that holds
// nothing new is not copied.
//
// A program that lost the arena to another, and its slots with it, has all of its
// inputs written again before its next step (runtime/session.h).
//
//   staging.Write(x, bytes);
//   staging.Upload(step % 2, done_before, copy_stream, compute_stream);

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/device.h"
#include "ir/graph.h"
#include "runtime/program.h"

namespace stowage::gpu {

/// Bytes of one slot for the inputs of `graph`, planned with `alignment`. The
/// largest value where the sum does not fit.
Bytes SlotBytes(const Graph& graph, Bytes alignment);

class InputStaging {
 public:
  /// `pinned`: two slots; `device_slots`: as many bytes in the arena. Error
  /// kInvalidArgument when the plan does not hold the inputs in one piece.
  static Result<std::unique_ptr<InputStaging>> Create(const Program& program,
                                                      const PinnedBlock& pinned,
                                                      std::byte* device_slots,
                                                      Device& device);
  ~InputStaging();

  // For EnqueueBeginStep: the first planned place, and how much to copy there.
  std::byte* planned() const { return planned_; }
  Bytes bytes() const { return bytes_; }
  Bytes slot_bytes() const { return slot_bytes_; }

  /// Puts `data` in pinned slot `slot`; waits until the last copy from there is
  /// done. Error: the device's.
  Status Write(ValueId input, std::span<const std::byte> data, uint64_t slot);
  void Read(ValueId input, std::span<std::byte> data) const;

  /// Brings slot `slot` up to date and, if that changed it, copies it on `copy`
  /// once `after` has passed; `compute` waits for the copy.
  Status Upload(uint64_t slot, Event after, Stream copy, Stream compute);
  /// Copies every input to its planned place.
  Status Place(Stream stream);

 private:
  struct Input {
    ValueId value;
    Bytes offset;  // in a slot
    Bytes bytes;
    uint64_t newest = 0;                // when it was written last
    std::array<uint64_t, 2> held = {};  // when what each slot holds was
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

#endif  // STOWAGE_GPU_STAGING_H_
