// Every packer on every small world and on many random ones, against judges
// that share no code with them.

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "planner/packing/best.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "tests/planner/packing/packing_oracle.h"
#include "tests/support/instances.h"

namespace stowage::packing {
namespace {

using testing::Instances;

// Calls `visit` with each multiset of `count` buffers out of `kinds`.
template <typename Visit>
void ForEachWorld(const std::vector<Buffer>& kinds, int count, Visit visit) {
  Problem problem;
  const auto extend = [&](const auto& self, size_t first) -> void {
    if (static_cast<int>(problem.buffers.size()) == count) {
      visit(problem);
      return;
    }
    for (size_t k = first; k < kinds.size(); ++k) {
      problem.buffers.push_back(kinds[k]);
      self(self, k);
      problem.buffers.pop_back();
    }
  };
  extend(extend, 0);
}

std::vector<Buffer> Kinds(Time times, const std::vector<Bytes>& sizes,
                          const std::vector<Bytes>& alignments) {
  std::vector<Buffer> kinds;
  for (Time lower = 0; lower < times; ++lower) {
    for (Time upper = lower + 1; upper <= times; ++upper) {
      for (const Bytes size : sizes) {
        for (const Bytes alignment : alignments) {
          kinds.push_back({.lower = lower,
                           .upper = upper,
                           .size = size,
                           .alignment = alignment});
        }
      }
    }
  }
  return kinds;
}

// Packs every world, checks every packing, and counts those above the optimum.
struct Tally {
  int worlds = 0;
  int above_optimum = 0;
};

Tally PackAllWorlds(const std::vector<Buffer>& kinds, int most) {
  Tally tally;
  for (int count = 0; count <= most; ++count) {
    ForEachWorld(kinds, count, [&](const Problem& problem) {
      const Bytes bound = ComputeLowerBound(problem).bytes;
      const auto greedy = Pack(problem);
      const auto linear = Pack(problem, {.packer = Packer::kLinear});
      REQUIRE(greedy.ok());
      REQUIRE(linear.ok());
      REQUIRE(IsGoodPacking(problem, greedy->solution));
      REQUIRE(IsGoodPacking(problem, linear->solution));
      REQUIRE(Validate(problem, greedy->solution).empty());
      REQUIRE(Validate(problem, linear->solution).empty());
      REQUIRE(bound == NaiveLowerBound(problem));
      REQUIRE(linear->solution.height >= greedy->solution.height);
      const Bytes optimum = OptimalHeight(problem);
      REQUIRE(optimum >= bound);
      REQUIRE(greedy->solution.height >= optimum);
      REQUIRE(greedy->optimal == (greedy->solution.height == bound));
      ++tally.worlds;
      if (greedy->solution.height > optimum) ++tally.above_optimum;
    });
  }
  return tally;
}

TEST_CASE("Every world of up to five buffers without alignment is optimal") {
  const Tally tally = PackAllWorlds(Kinds(3, {1, 2, 3}, {1}), 5);
  CHECK(tally.worlds == 33649);  // multisets of at most 5 out of 18 kinds
  CHECK(tally.above_optimum == 0);
}

TEST_CASE("Every world of up to four buffers over four times is optimal") {
  const Tally tally = PackAllWorlds(Kinds(4, {1, 2}, {1}), 4);
  CHECK(tally.worlds == 10626);  // of at most 4 out of 20 kinds
  CHECK(tally.above_optimum == 0);
}

// Sizes that are no multiple of their alignment leave holes; which buffer to
// put above a hole is then a choice that the orders do not weigh.
TEST_CASE("Worlds of up to four buffers with holes are mostly optimal") {
  const Tally tally = PackAllWorlds(Kinds(2, {0, 1, 2, 3}, {1, 2}), 4);
  CHECK(tally.worlds == 20475);  // of at most 4 out of 24 kinds
  CHECK(tally.above_optimum < tally.worlds / 10);
}

// STOWAGE_FUZZ_PROBLEMS asks for another number of problems, STOWAGE_FUZZ_SEED
// for others.
int64_t FromEnvironment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoll(text);
}

TEST_CASE("Every packer packs 20,000 random problems without a fault") {
  const int64_t problems =
      FromEnvironment("STOWAGE_FUZZ_PROBLEMS", Instances(20'000));
  std::mt19937_64 random(
      static_cast<uint64_t>(FromEnvironment("STOWAGE_FUZZ_SEED", 2)));
  for (int64_t round = 0; round < problems; ++round) {
    CAPTURE(round);
    const Problem problem = RandomProblem(random, round % 100 == 0 ? 200 : 24);
    const Bytes bound = NaiveLowerBound(problem);
    std::map<Packer, Packing> packings;
    for (const Packer packer : {Packer::kLinear, Packer::kGreedy}) {
      const auto packing = Pack(problem, {.packer = packer});
      REQUIRE(packing.ok());
      REQUIRE(packing->lower_bound == bound);
      packings[packer] = *packing;
    }
    // As Pack does it, with less effort.
    BestPacking best = PackBest(problem, bound, {.effort = 20'000});
    packings[Packer::kBest] = {.solution = std::move(best.solution),
                               .lower_bound = best.proven,
                               .optimal = false,
                               .packer = {}};
    REQUIRE(best.proven >= bound);
    for (const auto& [packer, packing] : packings) {
      REQUIRE(IsGoodPacking(problem, packing.solution));
      REQUIRE(Validate(problem, packing.solution).empty());
      REQUIRE(packing.solution.height >= best.proven);
      if (packer == Packer::kBest) continue;
      REQUIRE(packing.optimal == (packing.solution.height == bound));
    }
    const auto height = [&](Packer packer) {
      return packings[packer].solution.height;
    };
    REQUIRE(height(Packer::kGreedy) <= height(Packer::kLinear));
    REQUIRE(height(Packer::kBest) <= height(Packer::kGreedy));
  }
}

}  // namespace
}  // namespace stowage::packing
