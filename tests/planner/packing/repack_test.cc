#include "planner/packing/repack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "planner/packing/packer.h"
#include "planner/packing/validate.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

Repacker PackedBy(const Problem& problem) {
  auto packing = Pack(problem);
  REQUIRE(packing.ok());
  return Repacker(problem, std::move(packing->solution));
}

// One to four of a buffer's properties changed at random.
Buffer Changed(std::mt19937_64& random, Buffer b, Bytes largest) {
  if (Uniform(random, 0, 1)) b.size = Uniform(random, 0, largest);
  if (Uniform(random, 0, 2) == 0) {
    b.lower += Uniform(random, -3, 3);
    b.upper = b.lower + Uniform(random, 1, 9);
  }
  if (Uniform(random, 0, 5) == 0) b.alignment = Uniform(random, 1, 16);
  b.offset.reset();
  if (Uniform(random, 0, 7) == 0) {
    b.offset = b.alignment * Uniform(random, 0, 2 * largest / b.alignment);
  }
  return b;
}

TEST_CASE("A change is mended with the rest in its place") {
  // a and c take turns below b.
  Repacker repacker =
      PackedBy({.buffers = {{.id = "a", .lower = 0, .upper = 2, .size = 10},
                            {.id = "b", .lower = 0, .upper = 5, .size = 1000},
                            {.id = "c", .lower = 2, .upper = 5, .size = 8}}});
  const Solution before = repacker.solution();
  CHECK(before.height == 1010);
  // c still fits beside b.
  auto kind =
      repacker.Change(2, {.id = "c", .lower = 2, .upper = 5, .size = 9});
  REQUIRE(kind.ok());
  CHECK(*kind == RepackKind::kMoved);
  CHECK(repacker.solution().offsets == before.offsets);
  CHECK(repacker.solution().height == 1010);
  CHECK(repacker.problem().buffers[2].size == 9);
  // With a gone from its time, nothing is lost either.
  kind = repacker.Change(0, {.id = "a", .lower = 7, .upper = 8, .size = 1009});
  REQUIRE(kind.ok());
  CHECK(repacker.solution().height == 1009);
  CHECK(repacker.lower_bound() == 1009);
}

TEST_CASE("What a fixed buffer lands on makes room") {
  Repacker repacker =
      PackedBy({.buffers = {{.lower = 0, .upper = 2, .size = 10},
                            {.lower = 0, .upper = 2, .size = 10},
                            {.lower = 5, .upper = 6, .size = 10}}});
  const auto kind = repacker.Change(
      2, {.lower = 0, .upper = 2, .size = 10, .alignment = 5, .offset = 5});
  REQUIRE(kind.ok());
  CHECK(repacker.solution().offsets[2] == 5);
  CHECK(Validate(repacker.problem(), repacker.solution()).empty());
}

TEST_CASE("A change that is none is refused, and nothing changes") {
  Repacker repacker =
      PackedBy({.buffers = {{.id = "a", .lower = 0, .upper = 2, .size = 10},
                            {.id = "b", .lower = 0, .upper = 5, .size = 20}}});
  const Solution before = repacker.solution();
  for (const Buffer& wrong :
       {Buffer{.id = "a", .lower = 2, .upper = 2, .size = 10},
        Buffer{.id = "b", .lower = 0, .upper = 2, .size = 10},
        Buffer{.id = "a", .lower = 0, .upper = 2, .size = -1},
        Buffer{.id = "a", .lower = 0, .upper = 2, .size = INT64_MAX}}) {
    const auto kind = repacker.Change(0, wrong);
    REQUIRE(!kind.ok());
    CHECK(kind.error().code == ErrorCode::kInvalidArgument);
    CHECK(repacker.problem().buffers[0].size == 10);
    CHECK(repacker.solution().offsets == before.offsets);
  }
}

TEST_CASE("After thousands of changes the packing is valid and the rule kept") {
  std::mt19937_64 random(5);
  int kinds[3] = {};
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    Problem problem = RandomProblem(random, round % 10 == 0 ? 300 : 30);
    if (problem.buffers.empty()) continue;
    const Bytes largest = round % 2 == 0 ? 5 : 1000;
    Repacker repacker = PackedBy(problem);
    double share = 0;  // above the bound, at most, of packings of everything
    const auto share_of = [&](Bytes height) {
      const auto bound = static_cast<double>(repacker.lower_bound());
      return bound == 0 ? 0 : static_cast<double>(height) / bound - 1;
    };
    share = share_of(repacker.solution().height);
    for (int change = 0; change < 60; ++change) {
      const auto index = static_cast<size_t>(
          Uniform(random, 0, static_cast<int64_t>(problem.buffers.size()) - 1));
      const auto kind = repacker.Change(
          index, Changed(random, repacker.problem().buffers[index], largest));
      if (!kind.ok()) continue;  // a fixed place that is taken
      ++kinds[static_cast<int>(*kind)];
      REQUIRE(IsGoodPacking(repacker.problem(), repacker.solution()));
      CHECK(repacker.lower_bound() == NaiveLowerBound(repacker.problem()));
      CHECK(repacker.solution().height <= repacker.HighestAllowed());
      const double now = share_of(repacker.solution().height);
      if (*kind == RepackKind::kAll) {
        const auto anew = Pack(repacker.problem());
        CHECK(now <= std::max(share + 1.0 / 256,
                              1.1 * share_of(anew->solution.height) + 0.1));
        share = std::max(share, now);
      }
      CHECK(now <= share + 1.0 / 256 + 1e-9);
    }
  }
  for (const int count : kinds) CHECK(count > 10);
}

}  // namespace
}  // namespace stowage::packing
