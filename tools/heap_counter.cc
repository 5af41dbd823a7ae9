#include "tools/heap_counter.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "base/sanitizers.h"

#if STOWAGE_SANITIZER_HAS_MALLOC || !defined(__GLIBC__)
#define STOWAGE_COUNTS_HEAP 0
#else
#define STOWAGE_COUNTS_HEAP 1
#endif

#if STOWAGE_COUNTS_HEAP

namespace {

std::atomic<int64_t> allocations{0};
// A ring of return addresses; allocation i is at i modulo its size.
std::array<std::atomic<const void*>, stowage::tools::kRememberedHeapCallers>
    callers{};

void Count(const void* caller) {
  const int64_t index = allocations.fetch_add(1, std::memory_order_relaxed);
  callers[static_cast<size_t>(index) % callers.size()].store(
      caller, std::memory_order_relaxed);
}

}  // namespace

// glibc's functions, which it exports under these names for this purpose; its free() frees their
// memory.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  Count(__builtin_return_address(0));
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  Count(__builtin_return_address(0));
  return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  Count(__builtin_return_address(0));
  return __libc_realloc(block, size);
}

void* memalign(size_t alignment, size_t size) {
  Count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  Count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  Count(__builtin_return_address(0));
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 ||
      alignment == 0) {
    return EINVAL;
  }
  void* const allocated = __libc_memalign(alignment, size);
  if (allocated == nullptr) return ENOMEM;
  *block = allocated;
  return 0;
}

}  // extern "C"

#endif  // STOWAGE_COUNTS_HEAP

namespace stowage::tools {

std::optional<int64_t> HeapAllocations() {
#if STOWAGE_COUNTS_HEAP
  return allocations.load(std::memory_order_relaxed);
#else
  return std::nullopt;
#endif
}

std::map<std::string, int64_t> HeapCallers(int64_t count) {
  std::map<std::string, int64_t> made;
#if STOWAGE_COUNTS_HEAP
  const int64_t end = allocations.load(std::memory_order_relaxed);
  const int64_t known = std::min({count, end, kRememberedHeapCallers});
  // Read the ring before the map allocates, which overwrites the oldest entries.
  std::array<const void*, kRememberedHeapCallers> last;
  for (int64_t i = 0; i < known; ++i) {
    last[static_cast<size_t>(i)] =
        callers[static_cast<size_t>(end - 1 - i) % callers.size()].load(
            std::memory_order_relaxed);
  }
  if (count > known) made[""] = count - known;
  for (int64_t i = 0; i < known; ++i) {
    Dl_info info = {};
    const bool found = dladdr(last[static_cast<size_t>(i)], &info) != 0 &&
                       info.dli_fname != nullptr;
    ++made[found ? info.dli_fname : ""];
  }
#else
  if (count > 0) made[""] = count;
#endif
  return made;
}

}  // namespace stowage::tools
