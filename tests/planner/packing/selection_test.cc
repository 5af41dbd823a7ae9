#include "planner/packing/selection.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "planner/packing/validate.h"
#include "tests/planner/packing/packing_oracle.h"
#include "tests/support/instances.h"

namespace stowage::packing {
namespace {

using testing::Instances;

// The greatest value of a subset that fits the capacity and leaves at most `rest` live bytes, by
// trying all subsets and all their packings; -1 if there is none.
double OptimalValue(const Problem& problem, const std::vector<double>& values,
                    Bytes rest) {
  const size_t count = problem.buffers.size();
  double best = -1;
  for (uint32_t subset = 0; subset < (1u << count); ++subset) {
    Problem selected, others;
    double value = 0;
    for (size_t i = 0; i < count; ++i) {
      const bool is_in = (subset >> i & 1) != 0;
      (is_in ? selected : others).buffers.push_back(problem.buffers[i]);
      if (is_in) value += values[i];
    }
    if (value <= best || NaiveLowerBound(others) > rest) continue;
    if (NaiveLowerBound(selected) > *problem.capacity) continue;
    if (OptimalHeight(selected) <= *problem.capacity) best = value;
  }
  return best;
}

// Whether the selected buffers are packed within the capacity, and the figures are theirs.
bool IsGood(const Problem& problem, const std::vector<double>& values,
            const Selection& selection) {
  Problem selected{.buffers = {}, .capacity = problem.capacity};
  Solution solution;
  double value = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Bytes offset = selection.offsets[i];
    if (offset == kNotSelected) continue;
    selected.buffers.push_back(problem.buffers[i]);
    solution.offsets.push_back(offset);
    solution.height =
        std::max(solution.height, offset + problem.buffers[i].size);
    value += values[i];
  }
  return IsGoodPacking(selected, solution) &&
         value == doctest::Approx(selection.value);
}

struct Instance {
  Problem problem;
  std::vector<double> values;
};

Instance RandomInstance(std::mt19937_64& random, int count, Time end,
                        Bytes largest) {
  Instance instance;
  for (int i = 0; i < count; ++i) {
    const Time lower = Uniform(random, 0, end - 1);
    const Time upper =
        i % 4 == 0 ? end : std::min(end, lower + Uniform(random, 1, 4));
    instance.problem.buffers.push_back({.lower = i % 4 == 0 ? 0 : lower,
                                        .upper = upper,
                                        .size = Uniform(random, 1, largest)});
    instance.values.push_back(static_cast<double>(Uniform(random, 0, 20)));
  }
  return instance;
}

TEST_CASE("of few buffers, those of the greatest value are selected") {
  std::mt19937_64 random(5);
  int solved = 0;
  for (int i = 0; i < Instances(150); ++i) {
    INFO("instance ", i);
    Instance each =
        RandomInstance(random, static_cast<int>(Uniform(random, 2, 8)), 8, 6);
    each.problem.capacity = Uniform(random, 3, 9);
    const Bytes rest =
        i % 2 == 0 ? std::numeric_limits<Bytes>::max() : Uniform(random, 3, 10);
    const double optimum = OptimalValue(each.problem, each.values, rest);
    const Selection selection =
        SelectByValue(each.problem, each.values, {.rest = rest});
    CHECK(IsGood(each.problem, each.values, selection));
    // No subset leaves little enough exactly where the optimum is missing.
    CHECK((selection.excess == 0) == (optimum >= 0));
    if (optimum < 0) continue;
    CHECK(selection.value == optimum);
    CHECK(selection.bound >= optimum * (1 - 1e-9));
    ++solved;
  }
  CHECK(solved > Instances(150) / 2);
}

TEST_CASE("many buffers are selected to within 10 % of the bound") {
  std::mt19937_64 random(6);
  for (const int percent : Instances<int>({10, 30, 60, 90})) {
    CAPTURE(percent);
    Instance each = RandomInstance(random, 120, 60, 4000);
    each.problem.capacity = NaiveLowerBound(each.problem) * percent / 100;
    const Selection selection =
        SelectByValue(each.problem, each.values, {.attempts = 60});
    CHECK(IsGood(each.problem, each.values, selection));
    CHECK(selection.value > 0.9 * selection.bound);
  }
}

TEST_CASE("buffers that are too large for the rest are selected") {
  const Problem problem{.buffers = {{.lower = 0, .upper = 2, .size = 8},
                                    {.lower = 0, .upper = 2, .size = 4}},
                        .capacity = 8};
  const std::vector<double> values = {1, 100};
  CHECK(SelectByValue(problem, values, {}).offsets ==
        std::vector<Bytes>{kNotSelected, 0});
  const Selection forced = SelectByValue(
      problem, values, {.rest = 8, .largest_of_rest = 6, .attempts = 1});
  CHECK(forced.offsets == std::vector<Bytes>{0, kNotSelected});
  CHECK(forced.excess == 0);
  // Neither fits.
  const Selection none =
      SelectByValue(problem, values, {.rest = 3, .largest_of_rest = 3});
  CHECK(none.excess > 0);
}

TEST_CASE("buffers that all fit are all selected, whatever their value") {
  const Problem problem{
      .buffers = {{.lower = 0, .upper = 1, .size = 8, .alignment = 4},
                  {.lower = 1, .upper = 2, .size = 5, .alignment = 4},
                  {.lower = 0, .upper = 2, .size = 0}},
      .capacity = 8};
  const Selection selection =
      SelectByValue(problem, std::vector<double>{0, 3, 0}, {});
  CHECK(std::ranges::count(selection.offsets, kNotSelected) == 0);
  CHECK(selection.value == 3);
  CHECK(selection.bound == 3);
}

}  // namespace
}  // namespace stowage::packing
