#include "tools/heap_counter.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>

namespace stowage::tools {
namespace {

// What the compiler cannot see through, and so cannot leave out.
void* volatile kept;

template <typename Allocate>
int64_t CountOf(Allocate allocate) {
  const int64_t before = *HeapAllocations();
  allocate();
  return *HeapAllocations() - before;
}

TEST_CASE("every way to the heap is counted") {
  if (!HeapAllocations()) return;  // under a sanitizer
  CHECK(CountOf([] {}) == 0);
  CHECK(CountOf([] {
          kept = std::malloc(10);
          std::free(kept);
        }) == 1);
  CHECK(CountOf([] {
          kept = std::calloc(3, 10);
          kept = std::realloc(kept, 1000);
          std::free(kept);
        }) == 2);
  CHECK(CountOf([] {
          kept = std::aligned_alloc(64, 128);
          std::free(kept);
        }) == 1);
  CHECK(CountOf([] {
          void* block = nullptr;
          CHECK(posix_memalign(&block, 256, 1000) == 0);
          CHECK(reinterpret_cast<uintptr_t>(block) % 256 == 0);
          kept = block;
          std::free(kept);
        }) >= 1);
  CHECK(CountOf([] {
          kept = ::operator new(5);
          ::operator delete(kept);
        }) == 1);
  CHECK(CountOf([] {
          struct alignas(128) Wide {
            char bytes[128];
          };
          auto wide = std::make_unique<Wide>();
          kept = wide.get();
        }) == 1);
}

TEST_CASE("posix_memalign still refuses a bad alignment") {
  if (!HeapAllocations()) return;  // a sanitizer ends the program instead
  void* block = nullptr;
  CHECK(posix_memalign(&block, 3, 10) == EINVAL);
  CHECK(block == nullptr);
}

}  // namespace
}  // namespace stowage::tools
