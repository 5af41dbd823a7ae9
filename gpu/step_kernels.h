#ifndef STOWAGE_GPU_STEP_KERNELS_H_
#define STOWAGE_GPU_STEP_KERNELS_H_

// The kernels of the runtime: the first and the last of every step, those that choose the
// bodies of branches, and the scan for non-finite results of a debug run.
//
// A step's graph is captured once and launched for every step; all that varies from step to
// step is in memory. The step record counts steps. Inputs arrive in two slots in turn, while
// the previous step still reads the planned places: BeginStep copies this step's slot there.
// EndStep writes the step's fault and scalars to a ring in host memory, the step's number
// last, and increments the count.
//
//   reserve of a program   [StepRecord][slot 0][slot 1]
//   pinned memory          [slot 0][slot 1][ring: an entry a step, by turns]

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
  uint64_t step = 0;          // that runs, or will run next
  uint32_t fault = kNoFault;  // the first launch with an index out of range
  uint32_t non_finite = 0;    // 1: FindNonFinite of a checked run found one
};

/// The bytes before the two slots in a program's reserve, and the whole reserve.
inline constexpr Bytes kRecordBytes = 256;
constexpr Bytes ReserveBytes(Bytes slot_bytes) {
  return kRecordBytes + 2 * slot_bytes;
}

/// The report of a step to the host. The scalars follow it.
struct RingEntry {
  uint64_t step = 0;  // written last
  uint32_t fault = kNoFault;
};

/// Bytes from one entry of a ring to the next.
constexpr Bytes RingStride(size_t scalars) {
  return AlignUp(static_cast<Bytes>(sizeof(RingEntry) + 4 * scalars), 64);
}

/// Copies the first `bytes` of slot `record->step` % 2, of two of `slot_bytes` at
/// `slots`, to `to`, and clears the record's fault. All are multiples of 16.
void EnqueueBeginStep(StepRecord* record, const std::byte* slots,
                      Bytes slot_bytes, std::byte* to, Bytes bytes,
                      Queue& queue);

/// Writes step, fault and `scalars` to entry `record->step` % `entries` of the
/// ring, as the device sees it, and adds one to the record's step.
void EnqueueEndStep(StepRecord* record, std::byte* ring, uint32_t entries,
                    std::span<const float* const> scalars, Queue& queue);

/// Writes to *chosen, in host memory by the device's address, the body that the scalar at
/// `index` selects: i32, i64, or bool with true for body 1. If it is not in [0, bodies),
/// writes `bodies` and reports a fault of the launch.
void EnqueueChoice(DType dtype, const std::byte* index, size_t bodies,
                   uint32_t* chosen, Queue& queue);

/// Sets *found to 1 if any of the `n` elements, of f32, bf16 or f16, is NaN or
/// infinite.
void EnqueueFindNonFinite(DType dtype, const std::byte* x, int64_t n,
                          uint32_t* found, Queue& queue);

// Choices of branches inside a graph (gpu/device.h):
//
//   EnqueueGraphChoice(DType::kI32, index, 3, choice, queue);  // body 0, 1 or 2
//   EnqueueSoundChoice(choice, queue);  // body 0 in a step without a fault so far

/// Sets `choice` to the body that the scalar at `index` selects: i32, i64, or bool with true
/// for body 1. If it is not in [0, bodies), no body runs and the launch reports a fault.
void EnqueueGraphChoice(DType dtype, const std::byte* index, size_t bodies,
                        GraphChoice choice, Queue& queue);

/// Sets the choice of a branch with one body, which runs if no launch of the step has
/// reported a fault so far.
void EnqueueSoundChoice(GraphChoice choice, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_STEP_KERNELS_H_
