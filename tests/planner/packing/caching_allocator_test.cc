#include "planner/packing/caching_allocator.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {
namespace {

constexpr Bytes kKiB = 1024;
constexpr Bytes kMiB = 1024 * kKiB;

// Expected figures follow from the rules in the header, by hand.
TEST_CASE("Segments are reserved, split, merged and reused by the rules") {
  struct Row {
    const char* what;
    std::vector<Buffer> buffers;
    Bytes reserved;
  };
  const Row rows[] = {
      {"nothing asks for nothing", {}, 0},
      {"nor do buffers of size zero", {{.upper = 1, .size = 0}}, 0},
      {"one byte takes a small segment", {{.upper = 1, .size = 1}}, 2 * kMiB},
      {"two requests of 1 MiB share it",
       {{.upper = 1, .size = kMiB}, {.upper = 1, .size = kMiB}},
       2 * kMiB},
      {"requests are rounded: 4096 of one byte fill it",
       std::vector<Buffer>(4096, {.upper = 1, .size = 1}), 2 * kMiB},
      {"and one more takes another",
       std::vector<Buffer>(4097, {.upper = 1, .size = 512}), 4 * kMiB},
      {"a request above 1 MiB takes a large segment",
       {{.upper = 1, .size = kMiB + 1}},
       20 * kMiB},
      {"just below 10 MiB too",
       {{.upper = 1, .size = 10 * kMiB - 512}},
       20 * kMiB},
      {"from 10 MiB on it is its own",
       {{.upper = 1, .size = 10 * kMiB}},
       10 * kMiB},
      {"in steps of 2 MiB", {{.upper = 1, .size = 10 * kMiB + 1}}, 12 * kMiB},
      {"small and large do not share",
       {{.upper = 1, .size = 2 * kMiB}, {.upper = 1, .size = kMiB}},
       22 * kMiB},
      {"a large segment is split",
       {{.upper = 1, .size = 9 * kMiB},
        {.upper = 1, .size = 9 * kMiB},
        {.upper = 1, .size = 2 * kMiB}},
       20 * kMiB},
      {"until what remains is too small",
       {{.upper = 1, .size = 9 * kMiB},
        {.upper = 1, .size = 9 * kMiB},
        {.upper = 1, .size = 2 * kMiB + 512}},
       40 * kMiB},
      {"a large remainder above 1 MiB is split off",
       {{.lower = 0, .upper = 1, .size = 10 * kMiB},
        {.lower = 1, .upper = 3, .size = 9 * kMiB - 512},
        {.lower = 2, .upper = 3, .size = kMiB + 512}},
       10 * kMiB},
      {"a small remainder of 512 bytes is split off",
       {{.upper = 1, .size = kMiB - 512},
        {.upper = 1, .size = kMiB},
        {.upper = 1, .size = 1}},
       2 * kMiB},
      {"the smallest block that holds the request is taken",
       {{.lower = 0, .upper = 1, .size = 12 * kMiB},
        {.lower = 0, .upper = 1, .size = 10 * kMiB},
        {.lower = 1, .upper = 2, .size = 10 * kMiB},
        {.lower = 1, .upper = 2, .size = 12 * kMiB}},
       22 * kMiB},
      {"freed neighbours merge",
       {{.lower = 0, .upper = 3, .size = 512 * kKiB},
        {.lower = 0, .upper = 1, .size = 512 * kKiB},
        {.lower = 0, .upper = 2, .size = 512 * kKiB},
        {.lower = 0, .upper = 1, .size = 512 * kKiB},
        {.lower = 2, .upper = 4, .size = kMiB},
        {.lower = 3, .upper = 4, .size = 512 * kKiB},
        {.lower = 3, .upper = 4, .size = 512 * kKiB}},
       2 * kMiB},
      {"others do not",
       {{.lower = 0, .upper = 1, .size = 512 * kKiB},
        {.lower = 0, .upper = 2, .size = 512 * kKiB},
        {.lower = 0, .upper = 1, .size = 512 * kKiB},
        {.lower = 0, .upper = 2, .size = 512 * kKiB},
        {.lower = 1, .upper = 3, .size = kMiB}},
       4 * kMiB},
      {"segments do not merge",
       {{.lower = 0, .upper = 1, .size = 10 * kMiB},
        {.lower = 0, .upper = 1, .size = 10 * kMiB},
        {.lower = 1, .upper = 2, .size = 20 * kMiB}},
       40 * kMiB},
      {"frees come before allocations at the same time",
       {{.lower = 1, .upper = 2, .size = 10 * kMiB},
        {.lower = 0, .upper = 1, .size = 10 * kMiB}},
       10 * kMiB},
      {"what lives from first to last comes first",
       {{.lower = 0, .upper = 1, .size = 4 * kMiB},
        {.lower = 0, .upper = 2, .size = 9 * kMiB},
        {.lower = 1, .upper = 2, .size = 11 * kMiB}},
       20 * kMiB},
      {"what does not, in the order of the problem",
       {{.lower = 0, .upper = 1, .size = 4 * kMiB},
        {.lower = 0, .upper = 2, .size = 9 * kMiB},
        {.lower = 1, .upper = 3, .size = 11 * kMiB}},
       32 * kMiB},
      {"unless it is fixed",
       {{.lower = 0, .upper = 1, .size = 4 * kMiB},
        {.lower = 0, .upper = 2, .size = 9 * kMiB, .offset = 0},
        {.lower = 1, .upper = 3, .size = 11 * kMiB}},
       20 * kMiB},
  };
  for (const Row& row : rows) {
    const std::string what = row.what;
    CAPTURE(what);
    CHECK(SimulateCachingAllocator({.buffers = row.buffers}) == row.reserved);
  }
}

TEST_CASE("Sizes past all memory give the largest number") {
  const Bytes most = std::numeric_limits<Bytes>::max();
  CHECK(SimulateCachingAllocator({.buffers = {{.upper = 1, .size = most}}}) ==
        most);
  CHECK(SimulateCachingAllocator(
            {.buffers = {{.lower = 0, .upper = 1, .size = most / 2},
                         {.lower = 1, .upper = 2, .size = most / 2}}}) == most);
}

}  // namespace
}  // namespace stowage::packing
