#include "data/batching.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace stowage {
namespace {

using Lengths = std::vector<int64_t>;

// Positions of all inputs, each as long as the shortest length that holds it.
int64_t Positions(const Lengths& inputs, const Lengths& lengths) {
  int64_t sum = 0;
  for (const int64_t input : inputs) {
    int64_t best = std::numeric_limits<int64_t>::max();
    for (const int64_t length : lengths) {
      if (length >= input) best = std::min(best, length);
    }
    REQUIRE(best != std::numeric_limits<int64_t>::max());
    sum += best;
  }
  return sum;
}

// The least of all choices of up to `most` multiples, the longest input among them.
int64_t LeastPositions(const Lengths& inputs, size_t most) {
  const int64_t longest = std::ranges::max(inputs);
  Lengths multiples;
  for (int64_t length = 16; length < longest; length += 16) {
    multiples.push_back(length);
  }
  int64_t least = std::numeric_limits<int64_t>::max();
  for (uint32_t set = 0; set < uint32_t{1} << multiples.size(); ++set) {
    Lengths lengths = {longest};
    for (size_t i = 0; i < multiples.size(); ++i) {
      if (set >> i & 1) lengths.push_back(multiples[i]);
    }
    if (lengths.size() <= most) {
      least = std::min(least, Positions(inputs, lengths));
    }
  }
  return least;
}

TEST_CASE("the lengths are the best there are, by trying all") {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    Lengths inputs;
    const auto count = 1 + random() % 40;
    for (unsigned i = 0; i < count; ++i) {
      // Many short ones, and few long.
      const auto within = 1 + random() % 150;
      inputs.push_back(static_cast<int64_t>(1 + random() % within));
    }
    for (const size_t most : {1, 2, 3, 5}) {
      const Lengths lengths = ChooseLengths(inputs, most);
      CHECK(lengths.size() >= 1);
      CHECK(lengths.size() <= most);
      CHECK(lengths.front() == std::ranges::max(inputs));
      CHECK(std::ranges::is_sorted(lengths, std::greater()));
      for (size_t i = 1; i < lengths.size(); ++i) CHECK(lengths[i] % 16 == 0);
      CHECK(Positions(inputs, lengths) == LeastPositions(inputs, most));
    }
  }
}

TEST_CASE("a sequence takes the shortest length that holds it") {
  const Lengths lengths = {100, 32, 16};
  CHECK(ShortestThatHolds(lengths, 1) == 2);
  CHECK(ShortestThatHolds(lengths, 16) == 2);
  CHECK(ShortestThatHolds(lengths, 17) == 1);
  CHECK(ShortestThatHolds(lengths, 33) == 0);
  CHECK(ShortestThatHolds(lengths, 101) == 0);
}

TEST_CASE("no length is there for nothing") {
  CHECK(ChooseLengths({7}, 8) == Lengths{7});
  CHECK(ChooseLengths({16, 16, 3}, 8) == Lengths{16});
  CHECK(ChooseLengths({100, 20, 20}, 8) == Lengths{100, 32});
  CHECK(ChooseLengths({100, 20, 20}, 1) == Lengths{100});
}

}  // namespace
}  // namespace stowage
