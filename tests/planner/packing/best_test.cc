// The best packer against brute force on small worlds, against the greedy one
// on random problems, and on hard problems whose optimum is known.

#include "planner/packing/best.h"

#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "planner/packing/canonical_search.h"
#include "planner/packing/greedy.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "tests/planner/packing/packing_oracle.h"
#include "tests/planner/packing/planted.h"

namespace stowage::packing {
namespace {

using Outcome = CanonicalSearch::Outcome;

constexpr int64_t kEffort = 20'000'000;

// A random problem small enough for brute force: few buffers, sizes up to 4.
Problem SmallProblem(std::mt19937_64& random, bool aligned, bool fixes) {
  const int count = static_cast<int>(Uniform(random, 1, 7));
  const Time end = Uniform(random, 1, 6);
  const Bytes alignments[] = {1, 2, 3, 4};
  Problem problem;
  for (int i = 0; i < count; ++i) {
    Buffer b;
    b.lower = Uniform(random, 0, end - 1);
    b.upper = Uniform(random, b.lower + 1, end);
    b.size = Uniform(random, 0, 4);
    if (aligned) b.alignment = alignments[Uniform(random, 0, 3)];
    if (fixes && Uniform(random, 0, 3) == 0) {
      b.offset = b.alignment * Uniform(random, 0, 6 / b.alignment);
      Problem tried = problem;
      tried.buffers.push_back(b);
      if (!CheckProblem(tried).ok()) b.offset.reset();
    }
    problem.buffers.push_back(b);
  }
  return problem;
}

TEST_CASE("The search agrees with brute force at every height") {
  std::mt19937_64 random(1);
  int above_bound = 0;
  for (int round = 0; round < 6000; ++round) {
    const Problem problem =
        SmallProblem(random, round % 2 == 1, round % 3 == 1);
    const Bytes optimum = OptimalHeight(problem);
    const Bytes bound = NaiveLowerBound(problem);
    if (optimum > bound) ++above_bound;
    RestartingSearch search(problem);
    for (Bytes height = bound; height <= optimum + 1; ++height) {
      const Outcome outcome = search.Try(height, kEffort);
      CAPTURE(round);
      CAPTURE(height);
      REQUIRE(outcome ==
              (height < optimum ? Outcome::kInfeasible : Outcome::kFound));
      if (outcome == Outcome::kFound) {
        REQUIRE(IsGoodPacking(problem, search.solution()));
        REQUIRE(search.solution().height <= height);
      }
    }
  }
  CHECK(above_bound > 100);
}

TEST_CASE("An optimum above the live bytes is reported as the bound") {
  std::mt19937_64 random(9);
  int above_live = 0;
  for (int round = 0; round < 3000; ++round) {
    const Problem problem =
        SmallProblem(random, round % 2 == 1, round % 3 == 1);
    const auto packing = Pack(problem, {.packer = Packer::kBest});
    REQUIRE(packing.ok());
    REQUIRE(packing->lower_bound == OptimalHeight(problem));
    REQUIRE(packing->solution.height == packing->lower_bound);
    REQUIRE(packing->optimal);
    above_live += packing->lower_bound > NaiveLowerBound(problem);
  }
  CHECK(above_live > 50);
}

TEST_CASE("The best packer is optimal, and says so, on small problems") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 3000; ++round) {
    Problem problem = SmallProblem(random, round % 2 == 1, round % 3 == 1);
    const Bytes optimum = OptimalHeight(problem);
    const Bytes bound = NaiveLowerBound(problem);
    const BestPacking best = PackBest(problem, bound, {});
    REQUIRE(best.solution.height == optimum);
    REQUIRE(best.proven == optimum);
    REQUIRE(IsGoodPacking(problem, best.solution));

    if (optimum == bound) continue;
    problem.capacity = optimum - 1;
    const BestPacking refused = PackBest(problem, bound, {});
    REQUIRE(refused.solution.height >= optimum);
    REQUIRE(refused.proven >= optimum);
    REQUIRE(refused.misfit.irreducible);
    Problem clash;
    for (const size_t i : refused.misfit.buffers) {
      clash.buffers.push_back(problem.buffers[i]);
    }
    REQUIRE(OptimalHeight(clash) >= optimum);
    for (size_t k = 0; k < clash.buffers.size(); ++k) {
      Problem rest = clash;
      rest.buffers.erase(rest.buffers.begin() + static_cast<int>(k));
      REQUIRE(OptimalHeight(rest) < optimum);
    }
  }
}

TEST_CASE("The best packer is never higher than the greedy one") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 1500; ++round) {
    const Problem problem = RandomProblem(random, round % 50 == 0 ? 120 : 24);
    const Bytes bound = NaiveLowerBound(problem);
    const BestPacking best = PackBest(problem, bound, {.effort = 300'000});
    REQUIRE(IsGoodPacking(problem, best.solution));
    REQUIRE(Validate(problem, best.solution).empty());
    REQUIRE(best.proven >= bound);
    REQUIRE(best.solution.height >= best.proven);
    REQUIRE(best.solution.height <=
            PackGreedily(problem, bound).solution.height);
  }
}

TEST_CASE("Perfect packings cut into rectangles are put together again") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Problem problem =
        PlantedProblem({.buffers = 80, .width = 120, .height = 1 << 16}, seed);
    const Bytes bound = NaiveLowerBound(problem);
    REQUIRE(bound == 1 << 16);
    const BestPacking best = PackBest(problem, bound, {});
    CAPTURE(seed);
    CHECK(best.solution.height == 1 << 16);
    CHECK(Validate(problem, best.solution).empty());
  }
}

TEST_CASE("Equal problems give equal packings") {
  const Problem problem =
      PlantedProblem({.buffers = 150, .width = 100, .height = 1 << 20}, 5);
  const BestPacking one = PackBest(problem, 1 << 20, {.effort = kEffort});
  const BestPacking two = PackBest(problem, 1 << 20, {.effort = kEffort});
  CHECK(one.solution.offsets == two.solution.offsets);
  CHECK(one.method == two.method);
}

// Half of 2^63 bytes, so that twice any stride does not fit 64 bits.
TEST_CASE("What is nearly too large to count is packed") {
  const Problem problem{
      .buffers = {{.lower = 0,
                   .upper = 9,
                   .size = 4022222222222222024,
                   .alignment = 64},
                  {.lower = 6, .upper = 8, .size = 2, .alignment = 1}}};
  const Bytes bound = NaiveLowerBound(problem);
  CHECK(bound == 4022222222222222026);
  const BestPacking best = PackBest(problem, bound, {.effort = kEffort});
  CHECK(Validate(problem, best.solution).empty());
  CHECK(best.solution.height == 4022222222222222026);
}

TEST_CASE("A deadline in the past leaves the first packing found") {
  const Deadline past = Clock::now() - std::chrono::seconds(1);
  for (const int buffers : {150, 20'000}) {
    CAPTURE(buffers);
    const Problem problem = PlantedProblem(
        {.buffers = buffers, .width = 1000, .height = 1 << 20}, 5);
    const GreedyPacking greedy =
        PackGreedily(problem, 1 << 20, kGreedyWork, past);
    REQUIRE(greedy.solution.height > 1 << 20);
    const BestPacking best = PackBest(problem, 1 << 20, {.deadline = past});
    CHECK(best.method == "stack");
    CHECK(best.solution.offsets == greedy.solution.offsets);
    CHECK(Validate(problem, best.solution).empty());
  }
}

// At no time do more than 4 bytes live, but over two columns with alignment 2
// the odd sizes cannot share a unit.
TEST_CASE("The reason why nothing fits names the buffers that clash") {
  const Problem problem{
      .buffers =
          {{.id = "a", .lower = 0, .upper = 2, .size = 1, .alignment = 2},
           {.id = "b", .lower = 0, .upper = 2, .size = 1, .alignment = 2},
           {.id = "c", .lower = 1, .upper = 3, .size = 1, .alignment = 2},
           {.id = "d", .lower = 5, .upper = 6, .size = 4}},
      .capacity = 4};
  const auto packing = Pack(problem, {.packer = Packer::kBest});
  REQUIRE(!packing.ok());
  CHECK(packing.error().code == ErrorCode::kBudgetTooSmall);
  const std::string& message = packing.error().message;
  CHECK(message.find("no packing fits the capacity of 4 B") !=
        std::string::npos);
  CHECK(message.find("3 buffers that cannot fit together: \"a\", \"b\", \"c\"; "
                     "without any one of them the others would") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage::packing
