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

/// The bytes that the launch asked for.
std::span<std::byte> DynamicBytes();

/// Copies that have arrived in dynamic memory, 16 bytes each, are not seen by products
/// until the thread that made them says so.
void FenceCopies();
bool IsFenced(size_t byte_of_dynamic);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_BLOCK_H_
