#ifndef STOWAGE_GPU_EMULATOR_CONTEXT_H_
#define STOWAGE_GPU_EMULATOR_CONTEXT_H_

// Declares the emulator functions by which device functions (gpu/simt.h) are implemented: the state
// of the running thread, waiting for other threads, shared memory, and errors. Only the emulator
// includes this header.

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
  uint64_t serial = 0;  // number of blocks run by this host thread
  std::byte* dynamic_shared = nullptr;
};
extern constinit thread_local Context context;

/// The location of a call in a kernel at which a thread waits.
struct Site {
  const char* word;  // the device function, such as "SyncThreads"
  const char* file;
  int line;
};

/// ReportIndex and ReportMisaligned report an error of the running kernel, and abandon the block.
/// `word` is the name of the device function.
[[noreturn]] void ReportIndex(const char* array, int64_t index, int64_t size);
[[noreturn]] void ReportMisaligned(const char* word, const void* address);

/// Waits until all threads of the block that have not returned wait at `site`. Reports an error if
/// they wait at another site.
void AwaitBlock(const Site& site);

/// Waits until all lanes of the warp wait at `site`. The last lane then calls `complete` once, with
/// the `arguments` of all lanes.
using CompleteFn = void (*)(void* const* arguments);
void AwaitWarp(CompleteFn complete, void* arguments, const Site& site);

/// Registers a shared array of `size` bytes when a block first uses it. Fills it with NaN, and
/// fills the guards, which are kGuardBytes before and after the array. Reports an error if the
/// block then has too much shared memory.
void OpenShared(const char* name, std::byte* bytes, size_t size);
inline constexpr size_t kGuardBytes = 64;

/// Reports an error unless the 16 bytes at `address` are aligned and in shared memory, and bulk
/// copies to them are visible to this thread.
void CheckShared16(const char* word, const void* address);

/// Records that the thread has stored 16 bytes at `address`, which need not be in shared memory.
void NoteStore(const void* address);

/// Implement CopyAsyncZero16, CopyAsyncCommit and CopyAsyncWait. CopyAsync writes zeros if `global`
/// is null.
void CopyAsync(void* shared, const void* global);
void CommitCopies();
void AwaitCopies(int groups_left);

// The functions below act on the running block. They serve other files of the emulator.

inline constexpr int kWarpgroupThreads = 128;

/// Records an error of the running thread, without abandoning the block.
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

/// Does the same as AwaitWarp for the 128 threads of the warpgroup.
void AwaitWarpgroup(CompleteFn complete, void* arguments, const Site& site);

/// Sleep suspends this thread until another thread calls Wake with its index.
void Sleep(const Site& site);
void Wake(int thread);
/// Returns the number of SyncThreads that the block has passed.
uint64_t SyncsPassed();

/// Returns the dynamic shared memory of the launch.
std::span<std::byte> DynamicBytes();
/// Returns true if copies complete only when they are awaited, and false if they complete
/// immediately (EmulatorOptions::seed).
bool DefersCopies();

/// Makes this thread's completed asynchronous copies and 16-byte stores to dynamic shared memory
/// visible to matmuls and bulk copies.
void FenceCopies();
/// Returns whether the writes to this byte of dynamic shared memory are visible to matmuls and bulk
/// copies.
bool IsFenced(size_t byte_of_dynamic);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_CONTEXT_H_
