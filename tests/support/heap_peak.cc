#include "tests/support/heap_peak.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "base/sanitizers.h"

#if STOWAGE_SANITIZER_HAS_MALLOC || !defined(__GLIBC__)
#define STOWAGE_WATCHES_HEAP 0
#else
#define STOWAGE_WATCHES_HEAP 1
#endif

namespace {

std::atomic<int64_t> in_use{0};
std::atomic<int64_t> most{0};

}  // namespace

#if STOWAGE_WATCHES_HEAP

namespace {

void* Took(void* block) {
  const auto size = static_cast<int64_t>(malloc_usable_size(block));
  const int64_t now = in_use.fetch_add(size) + size;
  int64_t before = most.load();
  while (before < now && !most.compare_exchange_weak(before, now)) {
  }
  return block;
}

void Gave(void* block) {
  in_use.fetch_sub(static_cast<int64_t>(malloc_usable_size(block)));
}

}  // namespace

// glibc's own, which it exports under these names for this purpose.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* block);

void* malloc(size_t size) { return Took(__libc_malloc(size)); }

void* calloc(size_t count, size_t size) {
  return Took(__libc_calloc(count, size));
}

// While it moves, the block is there twice.
void* realloc(void* block, size_t size) {
  const auto before = static_cast<int64_t>(malloc_usable_size(block));
  void* const moved = __libc_realloc(block, size);
  if (moved == nullptr && size > 0) return nullptr;
  Took(moved);
  in_use.fetch_sub(before);
  return moved;
}

void* memalign(size_t alignment, size_t size) {
  return Took(__libc_memalign(alignment, size));
}

void* aligned_alloc(size_t alignment, size_t size) {
  return Took(__libc_memalign(alignment, size));
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  void* const allocated = __libc_memalign(alignment, size);
  if (allocated == nullptr) return ENOMEM;
  *block = Took(allocated);
  return 0;
}

void free(void* block) {
  Gave(block);
  __libc_free(block);
}

}  // extern "C"

#endif  // STOWAGE_WATCHES_HEAP

namespace stowage::testing {

HeapPeak::HeapPeak() : before_(in_use.load()) { most.store(before_); }

std::optional<int64_t> HeapPeak::bytes() const {
  if (!STOWAGE_WATCHES_HEAP) return std::nullopt;
  return most.load() - before_;
}

}  // namespace stowage::testing
