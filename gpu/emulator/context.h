#ifndef STOWAGE_GPU_EMULATOR_CONTEXT_H_
#define STOWAGE_GPU_EMULATOR_CONTEXT_H_

// Declares the emulator functions that implement device functions: the running thread, waiting for
// other threads, shared memory, and errors. Only the emulator and simt_emulated.h include this.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/strings.h"

namespace stowage::gpu::emulator {

/// The state of the running thread. It is plain memory, because every ThreadId() reads it.
struct Context {
  int thread = 0;
  int block_size = 0;
  int block[2] = {};
  int grid_size = 0;    // along x
  uint64_t serial = 0;  // index of the block, among all of this host thread
  std::byte* dynamic_shared = nullptr;
};
extern constinit thread_local Context context;

/// A call in a kernel at which a thread waits.
struct Site {
  const char* word;  // the device function, such as "SyncThreads"
  const char* file;
  int line;
};

/// Reports an error of the running kernel, and abandons the block.
[[noreturn]] void ReportIndex(const char* array, int64_t index, int64_t size);
[[noreturn]] void ReportMisaligned(const char* word, const void* address);

/// Waits until all threads of the block that have not returned wait here.
void AwaitBlock(const Site& site);

/// Waits for all lanes of the warp. The last lane calls `complete` for all of them, with the
/// `arguments` of every lane.
using CompleteFn = void (*)(void* const* arguments);
void AwaitWarp(CompleteFn complete, void* arguments, const Site& site);

/// Registers a shared array when a block first uses it, fills it with NaN, and fills the guards
/// before and after `bytes`.
void OpenShared(const char* name, std::byte* bytes, size_t size);
inline constexpr size_t kGuardBytes = 64;

/// Reports an error unless the 16 bytes at `address` are aligned and in shared memory, and bulk
/// copies to them are visible to this thread.
void CheckShared16(const char* word, const void* address);

/// Records a store of 16 bytes at `address`, which may or may not be in shared memory.
void NoteStore(const void* address);

/// Implements CopyAsyncZero16 (zeros if `global` is null), CopyAsyncCommit and CopyAsyncWait.
void CopyAsync(void* shared, const void* global);
void CommitCopies();
void AwaitCopies(int groups_left);

// Functions that act on the running block, for other files of the emulator.

inline constexpr int kWarpgroupThreads = 128;

/// Records an error of the running thread.
void Complain(const std::string& what);
/// Abandons the block. Destructors of objects on the stacks of its threads do not run, so these
/// objects must not own memory.
[[noreturn]] void Leave();
/// Calls Complain with the concatenated parts, then Leave.
template <typename... Parts>
[[noreturn]] void Report(const Parts&... parts) {
  Complain(StrCat(parts...));
  Leave();
}

/// Waits for the 128 threads of the warpgroup, like AwaitWarp.
void AwaitWarpgroup(CompleteFn complete, void* arguments, const Site& site);

/// Suspends this thread until another thread calls Wake.
void Sleep(const Site& site);
void Wake(int thread);
/// Returns the number of SyncThreads that the block has passed.
uint64_t SyncsPassed();

/// Returns the dynamic shared memory of the launch.
std::span<std::byte> DynamicBytes();
/// Returns true if copies arrive when they are awaited, and false if they arrive immediately.
bool DefersCopies();

/// Makes this thread's asynchronous copies and 16-byte stores to dynamic shared memory visible to
/// matmuls and bulk copies.
void FenceCopies();
/// Returns whether writes to this byte of dynamic shared memory are visible to them.
bool IsFenced(size_t byte_of_dynamic);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_CONTEXT_H_
