#ifndef STOWAGE_GPU_EMULATOR_BULK_COPY_EMULATED_H_
#define STOWAGE_GPU_EMULATOR_BULK_COPY_EMULATED_H_

// The words of gpu/bulk_copy.h as calls of the emulator.
// IWYU pragma: private, include "gpu/bulk_copy.h"

#include "gpu/emulator/bulk_copies.h"

namespace stowage::gpu {

inline void InitBarrier(CopyBarrier* barrier) {
  emulator::InitBarrier(&barrier->bits);
}
inline void ExpectBytes(CopyBarrier* barrier, int bytes) {
  emulator::ExpectBytes(&barrier->bits, bytes);
}
inline void CopyBox(void* shared, const TensorMap& map, BoxStart start,
                    CopyBarrier* barrier) {
  emulator::CopyBox(shared, map, start.at, &barrier->bits);
}
inline void AwaitBytes(CopyBarrier* barrier, int parity,
                       const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  emulator::AwaitBytes(&barrier->bits, parity, {"AwaitBytes", file, line});
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_EMULATOR_BULK_COPY_EMULATED_H_
