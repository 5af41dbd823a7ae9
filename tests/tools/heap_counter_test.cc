#include "tools/heap_counter.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

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

TEST_CASE("whoever allocated is told by its file") {
  if (!HeapAllocations()) return;  // under a sanitizer
  const int64_t before = *HeapAllocations();
  for (int i = 0; i < 3; ++i) {
    kept = std::malloc(10);
    std::free(kept);
  }
  kept = ::operator new(5);
  ::operator delete(kept);
  const auto callers = HeapCallers(*HeapAllocations() - before);
  int64_t by_program = 0, by_library = 0;
  for (const auto& [file, made] : callers) {
    (file.find("libstdc++") == std::string::npos ? by_program : by_library) +=
        made;
    CHECK(!file.empty());
  }
  CHECK(by_program == 3);
  CHECK(by_library == 1);
}

TEST_CASE("allocations past what is remembered have no name") {
  if (!HeapAllocations()) return;  // under a sanitizer
  const int64_t before = *HeapAllocations();
  for (int64_t i = 0; i < kRememberedHeapCallers + 5; ++i) {
    kept = std::malloc(10);
    std::free(kept);
  }
  const auto callers = HeapCallers(*HeapAllocations() - before);
  REQUIRE(callers.size() == 2);
  CHECK(callers.at("") == 5);
  CHECK(callers.rbegin()->second == kRememberedHeapCallers);
}

TEST_CASE("posix_memalign still refuses a bad alignment") {
  if (!HeapAllocations()) return;  // a sanitizer ends the program instead
  void* block = nullptr;
  CHECK(posix_memalign(&block, 3, 10) == EINVAL);
  CHECK(block == nullptr);
}

}  // namespace
}  // namespace stowage::tools
