#ifndef STOWAGE_GPU_STEP_KERNELS_H_
#define STOWAGE_GPU_STEP_KERNELS_H_

// Enqueues the kernels of the runtime: the first and the last kernel of every step, the kernels
// that choose the bodies of branches, and the scan for non-finite results of a debug run.
//
// The graph of a step is captured once and launched for every step. Values that vary from step to
// step are read from memory. The step record counts steps. Inputs arrive in two alternating slots
// while the previous step still reads the planned addresses. BeginStep copies the slot of this step
// to the planned addresses. EndStep writes the fault, the scalars and finally the number of the
// step to a ring in host memory, and increments the count.
//
//   reserve of a program   [StepRecord][slot 0][slot 1]
//   pinned memory          [slot 0][slot 1][ring: one entry per step, reused in turn]

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "gpu/device.h"
#include "gpu/queue.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// The state of a program on the device between its steps.
struct StepRecord {
  uint64_t step = 0;          // the step that runs, or that will run next
  uint32_t fault = kNoFault;  // the first launch with an index out of range
  uint32_t non_finite = 0;    // 1 if a checked run found a non-finite result
};

/// The bytes before the two slots in the reserve of a program.
inline constexpr Bytes kRecordBytes = 256;
/// Returns the bytes of the reserve.
constexpr Bytes ReserveBytes(Bytes slot_bytes) {
  return kRecordBytes + 2 * slot_bytes;
}

/// The report of a step to the host. The scalars follow it.
struct RingEntry {
  uint64_t step = 0;  // written last
  uint32_t fault = kNoFault;
};

/// Returns the bytes from one entry of a ring to the next.
constexpr Bytes RingStride(size_t scalars) {
  return AlignUp(static_cast<Bytes>(sizeof(RingEntry) + 4 * scalars), 64);
}

/// Enqueues a copy of the first `bytes` of the current slot to `to`, and clears the fault of the
/// record. `slots` are two slots of `slot_bytes`, of which `record->step % 2` is the current one.
/// All sizes and addresses must be multiples of 16.
void EnqueueBeginStep(StepRecord* record, const std::byte* slots,
                      Bytes slot_bytes, std::byte* to, Bytes bytes,
                      Queue& queue);

/// Enqueues the write of step, fault and `scalars` to entry `record->step % entries` of the ring,
/// and adds one to the step of the record. `ring` is a device address of host memory.
void EnqueueEndStep(StepRecord* record, std::byte* ring, uint32_t entries,
                    std::span<const float* const> scalars, Queue& queue);

/// Enqueues a kernel that writes the body selected by the scalar at `index` to `*chosen`, a device
/// address of host memory. The scalar is i32, i64 or bool, where true selects body 1. If it is not
/// in [0, bodies), the kernel writes `bodies` and reports a fault of the launch.
void EnqueueChoice(DType dtype, const std::byte* index, size_t bodies,
                   uint32_t* chosen, Queue& queue);

/// Enqueues a kernel that sets `*found` to 1 if any of the `n` elements is NaN or infinite. The
/// type must be f32, bf16 or f16.
void EnqueueFindNonFinite(DType dtype, const std::byte* x, int64_t n,
                          uint32_t* found, Queue& queue);

// Choices of branches inside a graph (gpu/device.h):
//
//   EnqueueGraphChoice(DType::kI32, index, 3, choice, queue);  // body 0, 1 or 2
//   EnqueueSoundChoice(choice, queue);  // body 0 in a step without a fault so far

/// Enqueues a kernel that sets `choice` to the body selected by the scalar at `index`. The scalar
/// is i32, i64 or bool, where true selects body 1. If it is not in [0, bodies), no body runs and
/// the launch reports a fault.
void EnqueueGraphChoice(DType dtype, const std::byte* index, size_t bodies,
                        GraphChoice choice, Queue& queue);

/// Enqueues a kernel that sets the choice of a branch with one body. The body runs if no launch of
/// the step has reported a fault so far.
void EnqueueSoundChoice(GraphChoice choice, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_STEP_KERNELS_H_
