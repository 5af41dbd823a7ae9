#ifndef STOWAGE_GPU_EMULATOR_CONTEXT_H_
#define STOWAGE_GPU_EMULATOR_CONTEXT_H_

// The emulator's side of the device functions: the running thread, waiting for others, shared
// memory, and errors. For the emulator and simt_emulated.h.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/strings.h"

namespace stowage::gpu::emulator {

/// The running thread. Plain memory, read by every ThreadId().
struct Context {
  int thread = 0;
  int block_size = 0;
  int block[2] = {};
  int grid_size = 0;    // along x
  uint64_t serial = 0;  // of the block, among all that this thread has run
  std::byte* dynamic_shared = nullptr;
};
extern constinit thread_local Context context;

/// The place in a kernel where a thread waits.
struct Site {
  const char* word;  // "SyncThreads"
  const char* file;
  int line;
};

/// Reports an error of the running kernel, and leaves it.
[[noreturn]] void ReportIndex(const char* array, int64_t index, int64_t size);
[[noreturn]] void ReportMisaligned(const char* word, const void* address);

/// Waits for all threads of the block that have not returned.
void AwaitBlock(const Site& site);

/// Waits for all lanes of the warp. The last one calls `complete` with the `arguments` of
/// every lane, for all of them.
using CompleteFn = void (*)(void* const* arguments);
void AwaitWarp(CompleteFn complete, void* arguments, const Site& site);

/// Registers a shared array when a block first uses it: fills it with NaN and puts guards
/// around it. `bytes` are between two guards.
void OpenShared(const char* name, std::byte* bytes, size_t size);
inline constexpr size_t kGuardBytes = 64;

/// Reports an error unless 16 bytes at `address` are aligned and in shared memory, and this
/// thread sees what bulk copies have written there.
void CheckShared16(const char* word, const void* address);

/// Records that 16 bytes at `address`, perhaps in shared memory, were stored.
void NoteStore(const void* address);

/// CopyAsyncZero16 (zeros if `global` is null), CopyAsyncCommit and CopyAsyncWait.
void CopyAsync(void* shared, const void* global);
void CommitCopies();
void AwaitCopies(int groups_left);

// The interface of the running block for the parts of the emulator.

inline constexpr int kWarpgroupThreads = 128;

/// Records an error of the running thread.
void Complain(const std::string& what);
/// Abandons the block. Nothing on the stacks of its threads is destroyed, so they must own no
/// memory.
[[noreturn]] void Leave();
/// Complain(StrCat(parts...)), then Leave().
template <typename... Parts>
[[noreturn]] void Report(const Parts&... parts) {
  Complain(StrCat(parts...));
  Leave();
}

/// AwaitWarp for the 128 threads of the warpgroup.
void AwaitWarpgroup(CompleteFn complete, void* arguments, const Site& site);

/// Suspends this thread until another wakes it.
void Sleep(const Site& site);
void Wake(int thread);
/// The number of SyncThreads that the block has passed.
uint64_t SyncsPassed();

/// The dynamic shared memory of the launch.
std::span<std::byte> DynamicBytes();
/// Whether copies arrive when they are awaited, and not at once.
bool DefersCopies();

/// Makes this thread's copies and stores to dynamic memory, 16 bytes each, visible to matmuls
/// and bulk copies; IsFenced tells whether they are.
void FenceCopies();
bool IsFenced(size_t byte_of_dynamic);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_CONTEXT_H_
