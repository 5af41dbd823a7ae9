#ifndef STOWAGE_GPU_EMULATOR_BULK_COPIES_H_
#define STOWAGE_GPU_EMULATOR_BULK_COPIES_H_

// The emulator's barriers and bulk copies, which warpgroup_emulated.h and the emulator call,
// and its encoding of tensor maps.
//
// A copy arrives as late as possible: when a thread waits for its phase; until then its bytes
// are NaN. In the natural order of threads it arrives at once. Either way only a thread that
// has waited for the phase, or that is behind a SyncThreads of such a thread, sees it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "gpu/emulator/context.h"
#include "gpu/tensor_map.h"

namespace stowage::gpu::emulator {

void InitBarrier(uint64_t* barrier);
void ExpectBytes(uint64_t* barrier, int bytes);
void CopyBox(void* shared, const TensorMap& map, std::span<const int, 4> start,
             uint64_t* barrier);
void AwaitBytes(uint64_t* barrier, int parity, const Site& site);

/// Makes the barriers of this thread visible to copies.
void FenceBarriers();

/// Whether each of the threads [first, first + count) sees the bytes that copies have written
/// to these 16 bytes of dynamic memory; true if no copy has.
bool HasArrived(size_t byte, int first, int count);

/// The missing bytes of barriers with waiting threads; empty if there are none.
std::string WhatBarriersLack();
/// The errors of a block that has ended; empty if there are none.
std::string WhatCopiesLeave();

// The tensor map encoding of the emulator and of the PTX interpreter, in place of the
// driver's, which is not public.
//
//   const std::optional<TensorMap> map = EncodeTensorMap(spec);
//   const std::optional<TensorMapSpec> same = DecodeTensorMap(*map);

/// None if the driver would refuse `spec` (gpu/tensor_map.h).
std::optional<TensorMap> EncodeTensorMap(const TensorMapSpec& spec);

/// None if EncodeTensorMap has not made `map`.
std::optional<TensorMapSpec> DecodeTensorMap(const TensorMap& map);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_BULK_COPIES_H_
