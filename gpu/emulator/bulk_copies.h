#ifndef STOWAGE_GPU_EMULATOR_BULK_COPIES_H_
#define STOWAGE_GPU_EMULATOR_BULK_COPIES_H_

// What the words of gpu/bulk_copy.h call in an emulation, for bulk_copy_emulated.h, and
// what the rest of the emulator asks of them.
//
// A copy arrives as late as can be: when a thread waits for the phase that it belongs to,
// and until then the bytes that it writes are NaN. In the natural order of threads it
// arrives at once. In either case nobody sees it but who has waited for the phase, or is
// behind a SyncThreads that such a thread has come to.

#include <cstddef>
#include <cstdint>
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

/// The barriers that this thread has made are seen by copies from now on.
void FenceBarriers();

/// Whether each of the threads [first, first + count) sees what copies have written to
/// these 16 bytes of dynamic memory; so it is where none has.
bool HasArrived(size_t byte, int first, int count);

/// What barriers with threads that wait lack; empty without such.
std::string WhatBarriersLack();
/// What is wrong with a block that has ended now; empty if nothing.
std::string WhatCopiesLeave();

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_BULK_COPIES_H_
