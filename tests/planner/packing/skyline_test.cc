#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "planner/packing/best_fit.h"
#include "tests/planner/packing/packing_oracle.h"

namespace stowage::packing {
namespace {

TEST_CASE("What is raised is the top, and nothing else is") {
  Skyline skyline(5);
  CHECK(skyline.Top({0, 5}) == 0);
  skyline.Raise({1, 3}, 7);
  CHECK(skyline.Top({0, 1}) == 0);
  CHECK(skyline.Top({0, 2}) == 7);
  CHECK(skyline.Top({2, 3}) == 7);
  CHECK(skyline.Top({3, 5}) == 0);
  skyline.Raise({2, 5}, 9);
  CHECK(skyline.Top({1, 2}) == 7);
  CHECK(skyline.Top({2, 3}) == 9);
  CHECK(skyline.Top({4, 5}) == 9);
}

TEST_CASE("A thousand raises agree with an array") {
  std::mt19937_64 random(3);
  for (const int columns : {1, 2, 3, 7, 8, 100}) {
    Skyline skyline(columns);
    std::vector<Bytes> tops(static_cast<size_t>(columns), 0);
    for (int round = 0; round < 1000; ++round) {
      const auto begin = static_cast<int32_t>(Uniform(random, 0, columns - 1));
      const auto end =
          static_cast<int32_t>(Uniform(random, begin + 1, columns));
      const Bytes top =
          *std::max_element(tops.begin() + begin, tops.begin() + end);
      REQUIRE(skyline.Top({begin, end}) == top);
      const Bytes raised = top + Uniform(random, 0, 9);
      skyline.Raise({begin, end}, raised);
      std::fill(tops.begin() + begin, tops.begin() + end, raised);
    }
  }
}

}  // namespace
}  // namespace stowage::packing
