#ifndef STOWAGE_GPU_EMULATOR_CONTEXT_H_
#define STOWAGE_GPU_EMULATOR_CONTEXT_H_

// What the words of gpu/simt.h call in an emulation: which thread runs, waiting
// for others, shared memory, and complaints. For simt_emulated.h alone.

#include <cstddef>
#include <cstdint>

namespace stowage::gpu::emulator {

/// The thread that runs. Plain memory, read by every ThreadId().
struct Context {
  int thread = 0;
  int block_size = 0;
  int block[2] = {};
  int grid_size = 0;    // along x
  uint64_t serial = 0;  // of the block, among all that this thread has run
  std::byte* dynamic_shared = nullptr;
};
extern constinit thread_local Context context;

/// Where in a kernel a thread waits.
struct Site {
  const char* word;  // "SyncThreads"
  const char* file;
  int line;
};

/// What is wrong with the kernel that runs. Does not return to it.
[[noreturn]] void ReportIndex(const char* array, int64_t index, int64_t size);
[[noreturn]] void ReportMisaligned(const char* word, const void* address);

/// Waits for all threads of the block that have not returned.
void AwaitBlock(const Site& site);

/// Waits for all lanes of the warp. The last one calls `complete` with what
/// every lane gave as `arguments`, for all of them.
using CompleteFn = void (*)(void* const* arguments);
void AwaitWarp(CompleteFn complete, void* arguments, const Site& site);

/// Notes a shared array, the first time that a block meets it: fills it with
/// NaN, puts guards around it. `bytes` follow a guard and are followed by one.
void OpenShared(const char* name, std::byte* bytes, size_t size);
inline constexpr size_t kGuardBytes = 64;

/// Reports unless 16 bytes at `address` are aligned and in shared memory, and this thread
/// sees what bulk copies have written there.
void CheckShared16(const char* word, const void* address);

/// That 16 bytes at `address` were stored, perhaps in shared memory.
void NoteStore(const void* address);

/// 16 bytes, zeros where `global` is null; CopyAsyncCommit and CopyAsyncWait.
void CopyAsync(void* shared, const void* global);
void CommitCopies();
void AwaitCopies(int groups_left);

}  // namespace stowage::gpu::emulator

#endif  // STOWAGE_GPU_EMULATOR_CONTEXT_H_
