#include <doctest/doctest.h>

#include <random>
#include <set>

#include "planner/packing/part.h"
#include "planner/packing/problem.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

TEST_CASE("There is a column for each largest set of live buffers") {
  // a a . . .     {a, b} until a dies, then {b, c}; d is born after c died.
  // b b b b .
  // . . c . .
  // . . . . d
  const Columns columns =
      ComputeColumns({.buffers = {{.lower = 0, .upper = 2, .size = 1},
                                  {.lower = 0, .upper = 4, .size = 1},
                                  {.lower = 2, .upper = 3, .size = 1},
                                  {.lower = 4, .upper = 5, .size = 1},
                                  {.lower = 0, .upper = 5, .size = 0}}});
  CHECK(columns.count == 3);
  const int32_t expected[][2] = {{0, 1}, {0, 2}, {1, 2}, {2, 3}, {0, 0}};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(columns.ranges[i].begin == expected[i][0]);
    CHECK(columns.ranges[i].end == expected[i][1]);
  }
}

TEST_CASE("Nothing has no columns") { CHECK(ComputeColumns({}).count == 0); }

TEST_CASE("Buffers share a column exactly when they live at the same time") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 3000; ++round) {
    const Problem problem = RandomProblem(random, 16);
    const Columns columns = ComputeColumns(problem);
    std::set<int32_t> begins;
    for (size_t i = 0; i < problem.buffers.size(); ++i) {
      const Buffer& a = problem.buffers[i];
      const ColumnRange x = columns.ranges[i];
      if (a.size == 0) {
        CHECK(x.begin == x.end);
        continue;
      }
      CHECK(x.begin < x.end);
      CHECK(x.end <= columns.count);
      begins.insert(x.begin);
      for (size_t j = 0; j < i; ++j) {
        const Buffer& b = problem.buffers[j];
        const ColumnRange y = columns.ranges[j];
        const bool together =
            b.size > 0 && a.lower < b.upper && b.lower < a.upper;
        CHECK((x.begin < y.end && y.begin < x.end) == together);
      }
    }
    // No column is there in vain: in each something is born.
    CHECK(static_cast<int32_t>(begins.size()) == columns.count);
  }
}

}  // namespace
}  // namespace stowage::packing
