#include "planner/packing/validate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

// Buffers side by side, one above, and one that reuses the bytes of "a":
//
//   3 | cc
//   2 | cc dd
//   1 | aabdd
//   0 | aabdd
Problem Drawing() {
  return {.buffers = {{.id = "a", .lower = 0, .upper = 2, .size = 2},
                      {.id = "b", .lower = 2, .upper = 3, .size = 2},
                      {.id = "c", .lower = 0, .upper = 2, .size = 2},
                      {.id = "d", .lower = 3, .upper = 5, .size = 3}}};
}
const Solution kDrawn{.offsets = {0, 0, 2, 0}, .height = 4};

std::vector<ViolationKind> Kinds(const std::vector<Violation>& violations) {
  std::vector<ViolationKind> kinds;
  for (const Violation& v : violations) kinds.push_back(v.kind);
  return kinds;
}

TEST_CASE("A good packing has no violations") {
  CHECK(Validate(Drawing(), kDrawn).empty());
  CHECK(Validate(Problem{}, Solution{}).empty());
}

TEST_CASE("Each rule broken alone is reported alone, by its own kind") {
  struct Row {
    const char* what;
    void (*spoil)(Problem*, Solution*);
    ViolationKind kind;
    std::vector<size_t> buffers;
    const char* text;
  };
  const Row rows[] = {
      {"a missing offset",
       [](Problem*, Solution* s) { s->offsets.pop_back(); },
       ViolationKind::kBadCount,
       {},
       "the solution has 3 offsets for 4 buffers"},
      {"an offset below zero",
       [](Problem*, Solution* s) { s->offsets[1] = -1; },
       ViolationKind::kNegativeOffset,
       {1},
       "buffer \"b\" (bytes [-1, 1), times [2, 3)) has a negative offset"},
      {"an offset off its alignment",
       [](Problem* p, Solution*) { p->buffers[2].alignment = 4; },
       ViolationKind::kMisaligned,
       {2},
       "buffer \"c\" (bytes [2, 4), times [0, 2)) is not at a multiple of its "
       "alignment 4"},
      {"a fixed buffer elsewhere",
       [](Problem* p, Solution*) { p->buffers[1].offset = 1; },
       ViolationKind::kMovedFixed,
       {1},
       "buffer \"b\" (bytes [0, 2), times [2, 3)) was fixed at offset 1"},
      {"a shared byte",
       [](Problem* p, Solution*) {
         p->buffers[2].upper = 4;
         p->buffers[2].lower = 3;
       },
       ViolationKind::kOverlap,
       {2, 3},
       "buffers \"c\" (bytes [2, 4), times [3, 4)) and \"d\" (bytes [0, 3), "
       "times [3, 5)) share bytes [2, 3) during times [3, 4)"},
      {"a height too high",
       [](Problem*, Solution* s) { s->height = 5; },
       ViolationKind::kWrongHeight,
       {},
       "the height is given as 5 bytes, but the largest end is 4"},
      {"a height too low",
       [](Problem*, Solution* s) { s->height = 3; },
       ViolationKind::kWrongHeight,
       {},
       "the height is given as 3 bytes, but the largest end is 4"},
      {"a height above the capacity",
       [](Problem* p, Solution*) { p->capacity = 3; },
       ViolationKind::kOverCapacity,
       {},
       "the largest end is 4 bytes, above the capacity of 3"},
  };
  for (const Row& row : rows) {
    const std::string what = row.what;
    CAPTURE(what);
    Problem problem = Drawing();
    Solution solution = kDrawn;
    row.spoil(&problem, &solution);
    const std::vector<Violation> violations = Validate(problem, solution);
    REQUIRE(violations.size() == 1);
    CHECK(violations[0].kind == row.kind);
    CHECK(violations[0].buffers == row.buffers);
    CHECK(violations[0].text == row.text);
  }
}

TEST_CASE("An end past 64 bits is an overflow, not a wrap to a small number") {
  const Bytes most = std::numeric_limits<Bytes>::max();
  const Problem problem{.buffers = {{.id = "a", .upper = 1, .size = 2}}};
  CHECK(Kinds(Validate(problem, {.offsets = {most - 1}, .height = most})) ==
        std::vector{ViolationKind::kOverflow});
  CHECK(Validate(problem, {.offsets = {most - 2}, .height = most}).empty());
}

TEST_CASE("Buffers of size zero overlap nothing, but must be in place") {
  Problem problem{.buffers = {{.id = "a", .lower = 0, .upper = 2, .size = 4},
                              {.id = "z", .lower = 0, .upper = 2, .size = 0}}};
  CHECK(Validate(problem, {.offsets = {0, 2}, .height = 4}).empty());
  CHECK(Kinds(Validate(problem, {.offsets = {0, 5}, .height = 4})) ==
        std::vector{ViolationKind::kWrongHeight});
  CHECK(Validate(problem, {.offsets = {0, 5}, .height = 5}).empty());
  problem.buffers[1].alignment = 2;
  CHECK(Kinds(Validate(problem, {.offsets = {0, 1}, .height = 4})) ==
        std::vector{ViolationKind::kMisaligned});
}

TEST_CASE("A buffer that covers many others is reported against each") {
  Problem problem;
  Solution solution;
  for (int i = 0; i < 5; ++i) {
    problem.buffers.push_back({.lower = 0, .upper = 3, .size = 1});
    solution.offsets.push_back(i);
  }
  problem.buffers.push_back({.lower = 1, .upper = 2, .size = 5});
  solution.offsets.push_back(0);
  solution.height = 5;
  const std::vector<Violation> all = Validate(problem, solution);
  REQUIRE(all.size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(all[i].kind == ViolationKind::kOverlap);
    CHECK(all[i].buffers == std::vector<size_t>{i, 5});
  }
  CHECK(Validate(problem, solution, 2).size() == 2);
}

TEST_CASE("A buffer already found at fault does not hide the one it covers") {
  // "a" spans bytes 0 to 9; "b" and "c" both lie inside it, "c" above "b".
  const Problem problem{.buffers = {{.lower = 0, .upper = 9, .size = 10},
                                    {.lower = 1, .upper = 9, .size = 1},
                                    {.lower = 2, .upper = 9, .size = 1}}};
  const auto violations =
      Validate(problem, {.offsets = {0, 2, 5}, .height = 10});
  REQUIRE(violations.size() == 2);
  CHECK(violations[0].buffers == std::vector<size_t>{0, 1});
  CHECK(violations[1].buffers == std::vector<size_t>{0, 2});
}

TEST_CASE("Of a thousand random corruptions every harmful one is noticed") {
  std::mt19937_64 random(7);
  int harmful = 0;
  int harmless = 0;
  while (harmful + harmless < 1000) {
    Problem problem = RandomProblem(random, 30);
    if (problem.buffers.empty()) continue;
    const auto packing = Pack(problem);
    REQUIRE(packing.ok());
    Solution solution = packing->solution;
    REQUIRE(Validate(problem, solution).empty());

    const size_t i = Uniform(random, 0, problem.buffers.size() - 1);
    switch (Uniform(random, 0, 7)) {
      case 0:
        solution.offsets[i] += Uniform(random, 0, 1) ? 1 : -1;
        break;
      case 1:
        solution.offsets[i] = Uniform(random, -10, solution.height + 10);
        break;
      case 2:
        std::swap(
            solution.offsets[i],
            solution.offsets[Uniform(random, 0, solution.offsets.size() - 1)]);
        break;
      case 3:
        solution.height += Uniform(random, -2, 2);
        break;
      case 4:
        problem.buffers[i].upper += Uniform(random, 1, 5);
        break;
      case 5:
        problem.buffers[i].size += Uniform(random, 1, 5);
        break;
      case 6:
        problem.buffers[i].lower -= Uniform(random, 1, 5);
        break;
      case 7:
        problem.capacity = solution.height - Uniform(random, 0, 1);
        break;
    }
    const bool good = IsGoodPacking(problem, solution);
    CHECK(Validate(problem, solution).empty() == good);
    CHECK(Validate(problem, solution, 1).empty() == good);
    ++(good ? harmless : harmful);
  }
  // The corruptions are not all of one sort, so both answers were tested.
  CHECK(harmful > 300);
  CHECK(harmless > 100);
}

TEST_CASE("Every reported overlap is real") {
  std::mt19937_64 random(8);
  for (int round = 0; round < 2000; ++round) {
    Problem problem = RandomProblem(random, 20);
    Solution solution;
    for (Buffer& b : problem.buffers) {
      b.offset.reset();
      solution.offsets.push_back(b.alignment * Uniform(random, 0, 9));
      solution.height =
          std::max(solution.height, solution.offsets.back() + b.size);
    }
    const std::vector<Violation> violations = Validate(problem, solution, 1000);
    CHECK(violations.empty() == IsGoodPacking(problem, solution));
    for (const Violation& v : violations) {
      REQUIRE(v.kind == ViolationKind::kOverlap);
      Problem pair;
      Solution of_pair;
      for (const size_t i : v.buffers) {
        pair.buffers.push_back(problem.buffers[i]);
        of_pair.offsets.push_back(solution.offsets[i]);
        of_pair.height = std::max(
            of_pair.height, solution.offsets[i] + problem.buffers[i].size);
      }
      CHECK(!IsGoodPacking(pair, of_pair));
    }
  }
}

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
