#include "nn/schedule.h"

#include <doctest/doctest.h>

namespace stowage {
namespace {

using doctest::Approx;

TEST_CASE("the rate rises in a line to its peak") {
  const LearningRateSchedule schedule{
      .peak = 0.8, .warmup = 4, .final_factor = 0.1};
  CHECK(schedule.At(1, 100) == Approx(0.2));
  CHECK(schedule.At(2, 100) == Approx(0.4));
  CHECK(schedule.At(4, 100) == Approx(0.8));
  CHECK(schedule.At(5, 100) < 0.8);
}

TEST_CASE("the rate falls by half a cosine to its last value and stays") {
  const LearningRateSchedule schedule{
      .peak = 1, .warmup = 20, .final_factor = 0.2};
  // Halfway down, at step 20 + 80 / 2, a cosine stands in the middle.
  CHECK(schedule.At(60, 100) == Approx(0.6));
  // A third of the way cos(pi / 3) = 1/2, hence 3/4 of the height is left.
  CHECK(schedule.At(40, 80) == Approx(0.2 + 0.8 * 0.75));
  CHECK(schedule.At(100, 100) == Approx(0.2));
  CHECK(schedule.At(5000, 100) == Approx(0.2));
}

TEST_CASE("without warm-up and decay the rate is constant") {
  const LearningRateSchedule schedule{.peak = 0.5};
  CHECK(schedule.At(1, 10) == 0.5);
  CHECK(schedule.At(10, 10) == 0.5);
}

TEST_CASE("a warm-up longer than the run is shortened to a tenth of it") {
  const LearningRateSchedule schedule{
      .peak = 1, .warmup = 50, .final_factor = 0};
  CHECK(schedule.At(1, 20) == Approx(0.5));
  CHECK(schedule.At(2, 20) == Approx(1.0));
  CHECK(schedule.At(20, 20) == Approx(0.0));
  CHECK(schedule.At(1, 1) == Approx(0.0));  // no room to warm up at all
}

}  // namespace
}  // namespace stowage
