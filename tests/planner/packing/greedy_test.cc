#include "planner/packing/greedy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

GreedyPacking PackToBound(const Problem& problem) {
  return PackGreedily(problem, ComputeLowerBound(problem).bytes);
}

TEST_CASE("A drawing with one best packing comes out as drawn") {
  //   5 |   dddd        "w" lives longest, so it lies at the bottom. At time 2
  //   4 | bbdddd        all 6 bytes are full: "c" and "d" take them, and "a"
  //   3 | bbdddd        and "b" share what is theirs before.
  //   2 | aaccc
  //   1 | aaccc
  //   0 | wwwwwww
  const Problem problem{
      .buffers = {{.id = "w", .lower = 0, .upper = 7, .size = 1},
                  {.id = "a", .lower = 0, .upper = 2, .size = 2},
                  {.id = "b", .lower = 0, .upper = 2, .size = 2},
                  {.id = "c", .lower = 2, .upper = 5, .size = 2},
                  {.id = "d", .lower = 2, .upper = 6, .size = 3}}};
  const GreedyPacking packing = PackToBound(problem);
  CHECK(packing.order == "pressure");
  CHECK(packing.solution.height == 6);
  // What lives before time 2 is packed apart from what lives after it.
  CHECK(packing.solution.offsets == std::vector<Bytes>{0, 1, 3, 1, 3});
}

TEST_CASE("Nothing packs into nothing, and zero bytes anywhere") {
  CHECK(PackToBound({}).solution.height == 0);
  const GreedyPacking packing =
      PackToBound({.buffers = {{.lower = 0, .upper = 1, .alignment = 64},
                               {.lower = 0, .upper = 1}}});
  CHECK(packing.solution.offsets == std::vector<Bytes>{0, 0});
  CHECK(packing.solution.height == 0);
}

TEST_CASE("A fixed buffer of size zero still counts for the height") {
  const GreedyPacking packing = PackToBound(
      {.buffers = {{.lower = 0, .upper = 1, .size = 0, .offset = 12},
                   {.lower = 0, .upper = 1, .size = 5}}});
  CHECK(packing.solution.offsets == std::vector<Bytes>{12, 0});
  CHECK(packing.solution.height == 12);
}

TEST_CASE("Buffers fill the gaps between fixed ones, at their times only") {
  const Problem problem{
      .buffers = {{.id = "f", .lower = 0, .upper = 4, .size = 2, .offset = 2},
                  {.id = "g", .lower = 2, .upper = 4, .size = 2, .offset = 6},
                  {.id = "a", .lower = 0, .upper = 4, .size = 2},
                  {.id = "b", .lower = 0, .upper = 2, .size = 4},
                  {.id = "c", .lower = 2, .upper = 4, .size = 2}}};
  const GreedyPacking packing = PackToBound(problem);
  CHECK(packing.solution.offsets == std::vector<Bytes>{2, 6, 0, 4, 4});
  CHECK(packing.solution.height == 8);
}

TEST_CASE(
    "What lives at every time lies at the bottom, coarse alignment first") {
  const Problem problem{
      .buffers = {
          {.id = "big", .lower = 0, .upper = 2, .size = 99},
          {.id = "w1", .lower = 0, .upper = 4, .size = 1, .alignment = 1},
          {.id = "w2", .lower = 0, .upper = 4, .size = 8, .alignment = 8},
          {.id = "next", .lower = 2, .upper = 4, .size = 99}}};
  const GreedyPacking packing = PackToBound(problem);
  CHECK(packing.solution.offsets == std::vector<Bytes>{9, 8, 0, 9});
}

// A step of training through `layers` layers: weights live always, activations
// from their layer's forward to its backward, a gradient until the layer below
// has used it, and scratch in both directions. Layers come in runs of equals.
Problem Chain(std::mt19937_64& random, Time layers) {
  Problem problem;
  const Time end = 2 * layers;
  Bytes width = 0;
  for (Time t = 0; t < layers; ++t) {
    if (t % 12 == 0) width = 64 * Uniform(random, 1, 100);
    const Time back = end - t - 1;
    problem.buffers.push_back({.lower = 0, .upper = end, .size = 4 * width});
    for (const Bytes size : {width, 3 * width, width / 2}) {
      problem.buffers.push_back(
          {.lower = t, .upper = back + 1, .size = size, .alignment = 32});
    }
    problem.buffers.push_back(
        {.lower = back, .upper = back + 2, .size = width, .alignment = 32});
    problem.buffers.push_back(
        {.lower = t, .upper = t + 1, .size = 2 * width, .alignment = 32});
    problem.buffers.push_back(
        {.lower = back, .upper = back + 1, .size = 3 * width, .alignment = 32});
  }
  return problem;
}

TEST_CASE("Forward and backward of a deep chain come out at the bound") {
  std::mt19937_64 random(17);
  for (const Time layers : {1, 2, 3, 12, 24, 48, 96, 200, 400}) {
    CAPTURE(layers);
    const Problem problem = Chain(random, layers);
    const GreedyPacking packing = PackToBound(problem);
    CHECK(packing.solution.height == NaiveLowerBound(problem));
    CHECK(Validate(problem, packing.solution).empty());
  }
}

TEST_CASE("Mending finds what no plain order does") {
  std::mt19937_64 random(23);
  int mended = 0;
  for (int round = 0; round < 3000 && mended < 10; ++round) {
    Problem problem;
    for (int k = 0; k < 14; ++k) {
      const Time lower = Uniform(random, 0, 11);
      problem.buffers.push_back({.lower = lower,
                                 .upper = Uniform(random, lower + 1, 12),
                                 .size = Uniform(random, 1, 12)});
    }
    const GreedyPacking packing = PackToBound(problem);
    if (packing.order.find(", mended") == std::string::npos) continue;
    ++mended;
    CHECK(IsGoodPacking(problem, packing.solution));
  }
  CHECK(mended == 10);
}

TEST_CASE("Sizes that alignment rounds up end above the bound") {
  // The bound is 10, but two of size 5 aligned to 8 end at 13.
  const Problem problem{
      .buffers = {{.lower = 0, .upper = 2, .size = 5, .alignment = 8},
                  {.lower = 1, .upper = 3, .size = 5, .alignment = 8}}};
  const GreedyPacking packing = PackToBound(problem);
  CHECK(packing.solution.height == 13);
  CHECK(packing.order == "pressure");
}

TEST_CASE("The same problem packs the same, and a copy too") {
  std::mt19937_64 random(29);
  for (int round = 0; round < 100; ++round) {
    const Problem problem = RandomProblem(random, 40);
    const Problem copy = problem;
    const GreedyPacking a = PackToBound(problem);
    const GreedyPacking b = PackToBound(copy);
    CHECK(a.solution.offsets == b.solution.offsets);
    CHECK(a.solution.height == b.solution.height);
    CHECK(a.order == b.order);
  }
}

TEST_CASE("Ten thousand buffers pack well and without a fault") {
  std::mt19937_64 random(31);
  Problem problem;
  for (int k = 0; k < 10000; ++k) {
    const Time lower = Uniform(random, 0, 7000);
    const Time length = Uniform(random, 0, 99) == 0 ? 700 : 5;
    problem.buffers.push_back({.lower = lower,
                               .upper = lower + Uniform(random, 1, length),
                               .size = Uniform(random, 1, 1 << 20),
                               .alignment = 64});
  }
  const GreedyPacking packing = PackToBound(problem);
  CHECK(Validate(problem, packing.solution).empty());
  const Bytes bound = ComputeLowerBound(problem).bytes;
  CHECK(packing.solution.height >= bound);
  CHECK(packing.solution.height <= bound + bound / 10);
}

TEST_CASE("Equal steps are packed alike, as well as one alone") {
  std::mt19937_64 random(37);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const Time length = 40;
    Problem step;
    for (int k = 0; k < 60; ++k) {
      const Time lower = Uniform(random, 0, length - 1);
      step.buffers.push_back({.lower = lower,
                              .upper = Uniform(random, lower + 1, length),
                              .size = Uniform(random, 1, 1000),
                              .alignment = Uniform(random, 0, 1) ? 1 : 16});
    }
    // Nothing else reaches through.
    step.buffers.push_back({.lower = 0, .upper = length, .size = 300});
    Problem loop;
    const int times = 5;
    for (int t = 0; t < times; ++t) {
      for (size_t k = 0; k + 1 < step.buffers.size(); ++k) {
        loop.buffers.push_back(step.buffers[k]);
        loop.buffers.back().lower += t * length;
        loop.buffers.back().upper += t * length;
      }
    }
    loop.buffers.push_back(step.buffers.back());
    loop.buffers.back().upper = times * length;

    const GreedyPacking one = PackToBound(step);
    const GreedyPacking all = PackToBound(loop);
    CHECK(IsGoodPacking(loop, all.solution));
    // The work is shared, so it need not be as low, but it cannot be lower than
    // what any packing of one step is.
    CHECK(all.solution.height >= NaiveLowerBound(step));
    CHECK(all.solution.height <= one.solution.height + 16);
    const size_t count = step.buffers.size() - 1;
    for (size_t k = count; k + 1 < loop.buffers.size(); ++k) {
      REQUIRE(all.solution.offsets[k] == all.solution.offsets[k - count]);
    }
  }
}

TEST_CASE("A deep step is stacked, and mended to the bound") {
  std::mt19937_64 random(41);
  Problem problem;
  const Time layers = 1000;
  const Time end = 2 * layers;
  for (Time t = 0; t < layers; ++t) {
    const Time back = end - t - 1;
    const auto add = [&](Time lower, Time upper, Bytes size) {
      problem.buffers.push_back(
          {.lower = lower, .upper = upper, .size = 64 * size, .alignment = 64});
    };
    add(0, end, 5);
    add(t, back + 1, 10);
    add(t, t + 1 + Uniform(random, 1, 3), 30);
    add(t, t + 1, Uniform(random, 1, 99));
    add(back, back + 2, 10);
    add(back, back + Uniform(random, 1, 3), Uniform(random, 1, 99));
  }
  const GreedyPacking packing = PackToBound(problem);
  CHECK(packing.order == "stack");
  CHECK(packing.solution.height == ComputeLowerBound(problem).bytes);
  CHECK(Validate(problem, packing.solution).empty());
}

TEST_CASE("Large problems with all that can be in one pack without a fault") {
  std::mt19937_64 random(43);
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    const Problem problem = RandomProblem(random, 5500);
    const GreedyPacking packing = PackToBound(problem);
    CHECK(Validate(problem, packing.solution).empty());
    CHECK(packing.solution.height >= ComputeLowerBound(problem).bytes);
  }
}

// Lifetimes between two random times.
Problem LongLived(int count, Bytes least_size, Bytes most_size,
                  int most_alignment_bits) {
  std::mt19937_64 random(47);
  Problem problem;
  for (int k = 0; k < count; ++k) {
    const Time a = Uniform(random, 0, count);
    const Time b = Uniform(random, 0, count);
    problem.buffers.push_back(
        {.lower = std::min(a, b),
         .upper = std::max(a, b) + 1,
         .size = Uniform(random, least_size, most_size),
         .alignment = Bytes{1} << Uniform(random, 0, most_alignment_bits)});
  }
  return problem;
}

TEST_CASE("Very many that hang together, of all alignments, pack by best fit") {
  // In the hold, every one would have to be found its place between thousands of
  // gaps.
  const Problem problem = LongLived(100'000, 1, 1 << 20, 12);
  const GreedyPacking packing = PackToBound(problem);
  CHECK(packing.order.find("best fit") != std::string::npos);
  CHECK(Validate(problem, packing.solution).empty());
  const Bytes bound = ComputeLowerBound(problem).bytes;
  CHECK(packing.solution.height <= bound + bound / 25);
}

TEST_CASE(
    "Many of equal size come out at the bound, whatever their lifetimes") {
  const Problem problem = LongLived(10'000, 4096, 4096, 12);
  const GreedyPacking packing = PackToBound(problem);
  CHECK(packing.order == "birth, best fit");
  CHECK(packing.solution.height == ComputeLowerBound(problem).bytes);
  CHECK(Validate(problem, packing.solution).empty());
}

TEST_CASE("Above what is fixed, many are packed by best fit too") {
  Problem problem = LongLived(5'000, 4096, 4096, 12);
  problem.buffers.push_back(
      {.lower = 2500, .upper = 2501, .size = 100, .offset = 1 << 20});
  const GreedyPacking packing = PackToBound(problem);
  CHECK(Validate(problem, packing.solution).empty());
  CHECK(packing.solution.height <=
        ComputeLowerBound(problem).bytes + (1 << 20) + 4096);
}

TEST_CASE("Past the deadline the first packing found is given") {
  const Deadline past = Clock::now();
  const Problem many = LongLived(10'000, 1, 1 << 20, 12);
  const Bytes bound = ComputeLowerBound(many).bytes;
  const GreedyPacking stacked =
      PackGreedily(many, bound, 100 * kGreedyWork, past);
  CHECK(stacked.order == "stack");
  CHECK(Validate(many, stacked.solution).empty());

  const Problem few = LongLived(1'000, 1, 1 << 20, 12);
  const GreedyPacking of_few =
      PackGreedily(few, ComputeLowerBound(few).bytes, kGreedyWork, past);
  CHECK(of_few.order == "stack");
  CHECK(Validate(few, of_few.solution).empty());
}

TEST_CASE(
    "Buffers as large as numbers go, and times as far apart, are packed") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const Problem one{.buffers = {{.lower = kMin, .upper = kMax, .size = kMax}}};
  CHECK(PackToBound(one).solution.height == kMax);
  CHECK(PackToBound(one).solution.offsets == std::vector<Bytes>{0});
  const Problem two{.buffers = {{.lower = kMin, .upper = 0, .size = kMax - 1},
                                {.lower = -1, .upper = kMax, .size = 1}}};
  CHECK(PackToBound(two).solution.height == kMax);
}

}  // namespace
}  // namespace stowage::packing
