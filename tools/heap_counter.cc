#include "tools/heap_counter.h"

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

void Count() { allocations.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

// glibc's own, which it exports under these names for this purpose. What is
// allocated by them is freed by the free() that stays in place.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  Count();
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  Count();
  return __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  Count();
  return __libc_realloc(block, size);
}

void* memalign(size_t alignment, size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  Count();
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

}  // namespace stowage::tools
