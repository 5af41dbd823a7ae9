#ifndef STOWAGE_GPU_EMULATOR_BLOCK_H_
#define STOWAGE_GPU_EMULATOR_BLOCK_H_

// What the parts of the emulator ask of the block that runs.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/strings.h"
#include "gpu/emulator/context.h"

namespace stowage::gpu::emulator {

inline constexpr int kWarpgroupThreads = 128;

/// What the thread that runs has done wrong.
void Complain(const std::string& what);
/// Gives up the block. Nothing on the stacks of its threads is destroyed, so they must
/// hold no memory.
[[noreturn]] void Leave();
/// Both, with the parts as StrCat takes them.
template <typename... Parts>
[[noreturn]] void Report(const Parts&... parts) {
  Complain(StrCat(parts...));
  Leave();
}

/// As AwaitWarp, for the 128 threads of the warpgroup.
void AwaitWarpgroup(CompleteFn complete, void* arguments, const Site& site);

/// Until somebody wakes this thread.
void Sleep(const Site& site);
void Wake(int thread);
/// How often the block has met in SyncThreads.
uint64_t SyncsPassed();

/// The bytes that the launch asked for.
std::span<std::byte> DynamicBytes();
/// Whether copies arrive when they are waited for, and not at once.
bool DefersCopies();

/// What threads have copied or stored to dynamic memory, 16 bytes each, is not seen by
/// products and bulk copies until the thread that did it says so.
void FenceCopies();
bool IsFenced(size_t byte_of_dynamic);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_BLOCK_H_
