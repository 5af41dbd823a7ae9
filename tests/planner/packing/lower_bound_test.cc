#include <doctest/doctest.h>

#include <random>

#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

TEST_CASE("The lower bound of nothing is zero") {
  const LowerBound bound = ComputeLowerBound(Problem{});
  CHECK(bound.bytes == 0);
  CHECK(bound.live == 0);
  CHECK(!bound.fixed);
}

TEST_CASE("The bound is the fullest moment, and the earliest such") {
  const Problem problem{
      .buffers = {{.id = "a", .lower = 0, .upper = 4, .size = 5},
                  {.id = "b", .lower = 2, .upper = 6, .size = 7},
                  {.id = "c", .lower = 4, .upper = 8, .size = 5}}};
  const LowerBound bound = ComputeLowerBound(problem);
  CHECK(bound.bytes == 12);  // a and b in [2, 4), b and c in [4, 6)
  CHECK(bound.time == 2);
  CHECK(LiveAt(problem, 2) == std::vector<size_t>{1, 0});
  CHECK(LiveAt(problem, 4) == std::vector<size_t>{1, 2});
}

TEST_CASE("Lifetimes are half-open: a death makes room for a birth") {
  const Problem touching{.buffers = {{.lower = -3, .upper = 0, .size = 10},
                                     {.lower = 0, .upper = 3, .size = 10}}};
  CHECK(ComputeLowerBound(touching).bytes == 10);
  const Problem crossing{.buffers = {{.lower = -3, .upper = 1, .size = 10},
                                     {.lower = 0, .upper = 3, .size = 10}}};
  CHECK(ComputeLowerBound(crossing).bytes == 20);
  CHECK(ComputeLowerBound(crossing).time == 0);
}

TEST_CASE("A fixed buffer raises the bound to its end") {
  Problem problem{
      .buffers = {{.lower = 0, .upper = 1, .size = 10},
                  {.lower = 5, .upper = 6, .size = 4, .offset = 6}}};
  CHECK(ComputeLowerBound(problem).bytes == 10);
  CHECK(!ComputeLowerBound(problem).fixed);
  problem.buffers[1].offset = 7;
  const LowerBound bound = ComputeLowerBound(problem);
  CHECK(bound.bytes == 11);
  CHECK(bound.live == 10);
  CHECK(bound.fixed == 1);
}

TEST_CASE("The live set is ordered by size, then index, and half-open") {
  const Problem problem{.buffers = {{.lower = 0, .upper = 2, .size = 1},
                                    {.lower = 0, .upper = 2, .size = 3},
                                    {.lower = 1, .upper = 2, .size = 3},
                                    {.lower = 2, .upper = 3, .size = 9}}};
  CHECK(LiveAt(problem, 0) == std::vector<size_t>{1, 0});
  CHECK(LiveAt(problem, 1) == std::vector<size_t>{1, 2, 0});
  CHECK(LiveAt(problem, 2) == std::vector<size_t>{3});
  CHECK(LiveAt(problem, 3).empty());
}

TEST_CASE("The bound and its live set agree with a scan of every birth") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 5000; ++round) {
    const Problem problem = RandomProblem(random, 20);
    const LowerBound bound = ComputeLowerBound(problem);
    CHECK(bound.bytes == NaiveLowerBound(problem));
    Bytes live = 0;
    for (const size_t i : LiveAt(problem, bound.time)) {
      live += problem.buffers[i].size;
    }
    CHECK(live == bound.live);
  }
}

}  // namespace
}  // namespace stowage::packing
