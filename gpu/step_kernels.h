#ifndef STOWAGE_GPU_STEP_KERNELS_H_
#define STOWAGE_GPU_STEP_KERNELS_H_

// Enqueues the kernels of the runtime: the first and the last kernel of every step, the kernels
// that choose the bodies of branches, and the kernel that finds non-finite results
// (GpuOptions::check).
//
// The graph of a step is captured once and launched for every step. Values that change from step to
// step are read from memory. The step record counts the steps. The inputs of a step are copied to
// one of two slots while the previous step still reads its inputs at their planned addresses. The
// first kernel (EnqueueBeginStep) copies the slot of the step to the planned addresses. The last
// kernel (EnqueueEndStep) writes the scalars, the fault and finally the number of the step to a
// ring buffer in host memory, and increments the count.
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
  uint32_t fault = kNoFault;  // smallest index of a launch with a fault
  uint32_t non_finite = 0;    // 1 if a checked run found a non-finite result
};

/// The size of the step record in the reserve of a program, in bytes. The two slots follow it.
inline constexpr Bytes kRecordBytes = 256;
/// Returns the size of the reserve in bytes.
constexpr Bytes ReserveBytes(Bytes slot_bytes) {
  return kRecordBytes + 2 * slot_bytes;
}

/// The report of a step to the host. The values of the scalars follow it in the ring.
struct RingEntry {
  uint64_t step = 0;  // written last
  uint32_t fault = kNoFault;
};

/// Returns the distance in bytes between two entries of a ring, for this number of scalars.
constexpr Bytes RingStride(size_t scalars) {
  return AlignUp(static_cast<Bytes>(sizeof(RingEntry) + 4 * scalars), 64);
}

/// Enqueues a kernel that copies the first `bytes` of the current slot to `to`, and clears the
/// fault of the record. `slots` points to two slots of `slot_bytes` bytes each. The index of the
/// current slot is `record->step % 2`. All sizes and addresses must be multiples of 16.
void EnqueueBeginStep(StepRecord* record, const std::byte* slots,
                      Bytes slot_bytes, std::byte* to, Bytes bytes,
                      Queue& queue);

/// Enqueues kernels that write the step, the fault and the values of `scalars`, which are addresses
/// on the device, to entry `record->step % entries` of the ring, and add one to the step of the
/// record. `ring` is the device address of host memory.
void EnqueueEndStep(StepRecord* record, std::byte* ring, uint32_t entries,
                    std::span<const float* const> scalars, Queue& queue);

/// Enqueues a kernel that reads the scalar at `index`, and writes the index of the body that it
/// selects to `*chosen`. `chosen` is the device address of host memory. The scalar must be i32, i64
/// or bool, where true selects body 1. If it is not in [0, bodies), the kernel writes `bodies` and
/// reports a fault of the launch.
void EnqueueChoice(DType dtype, const std::byte* index, size_t bodies,
                   uint32_t* chosen, Queue& queue);

/// Enqueues a kernel that sets `*found` to 1 if any of the `n` elements is NaN or infinite. The
/// type must be f32, bf16 or f16.
void EnqueueFindNonFinite(DType dtype, const std::byte* x, int64_t n,
                          uint32_t* found, Queue& queue);

// The functions below choose the bodies of branches inside a graph (gpu/device.h):
//
//   EnqueueGraphChoice(DType::kI32, index, 3, choice, queue);  // body 0, 1 or 2
//   EnqueueSoundChoice(choice, queue);  // body 0 in a step without a fault so far

/// Enqueues a kernel that reads the scalar at `index`, and sets `choice` to the body that it
/// selects. The scalar must be i32, i64 or bool, where true selects body 1. If it is not in [0,
/// bodies), no body runs, and the kernel reports a fault of the launch.
void EnqueueGraphChoice(DType dtype, const std::byte* index, size_t bodies,
                        GraphChoice choice, Queue& queue);

/// Enqueues a kernel that sets the choice of a branch with one body, such that the body runs if no
/// launch of the step has reported a fault so far.
void EnqueueSoundChoice(GraphChoice choice, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_STEP_KERNELS_H_
