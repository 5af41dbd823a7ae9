#include "nn/schedule.h"

#include <doctest/doctest.h>

#include "base/result.h"

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

// The values below are transformers' get_scheduler's by hand, at the same step.

TEST_CASE("a constant rate stays at the peak behind its warm-up") {
  const LearningRateSchedule schedule{.peak = 0.6,
                                      .warmup = 3,
                                      .final_factor = 0.1,
                                      .kind = ScheduleKind::kConstant};
  CHECK(schedule.At(1, 30) == Approx(0.2));
  CHECK(schedule.At(3, 30) == Approx(0.6));
  CHECK(schedule.At(30, 30) == 0.6);
  CHECK(schedule.At(99, 30) == 0.6);
}

TEST_CASE("a linear rate falls by the same each step") {
  const LearningRateSchedule schedule{.peak = 1,
                                      .warmup = 10,
                                      .final_factor = 0.2,
                                      .kind = ScheduleKind::kLinear};
  CHECK(schedule.At(5, 50) == Approx(0.5));
  // From 1 at step 10 to 0.2 at step 50: 0.02 a step.
  CHECK(schedule.At(11, 50) == Approx(0.98));
  CHECK(schedule.At(30, 50) == Approx(0.6));
  CHECK(schedule.At(50, 50) == Approx(0.2));
  CHECK(schedule.At(51, 50) == Approx(0.2));
}

TEST_CASE("a polynomial rate falls by its power, and by the first as a line") {
  const LearningRateSchedule square{.peak = 2,
                                    .warmup = 0,
                                    .final_factor = 0.5,
                                    .kind = ScheduleKind::kPolynomial,
                                    .power = 2};
  // 1 + (1 - 3/4)^2 * 1.
  CHECK(square.At(30, 40) == Approx(1.0625));
  CHECK(square.At(40, 40) == Approx(1.0));
  LearningRateSchedule first = square;
  first.power = 1;
  LearningRateSchedule line = square;
  line.kind = ScheduleKind::kLinear;
  for (const int64_t step : {1, 7, 39, 40, 41}) {
    CHECK(first.At(step, 40) == line.At(step, 40));
  }
}

TEST_CASE("warm-up, stable, decay keeps the peak until the last fifth") {
  const LearningRateSchedule schedule{
      .peak = 1, .warmup = 10, .final_factor = 0.1, .kind = ScheduleKind::kWsd};
  CHECK(schedule.At(5, 100) == Approx(0.55));  // from 0.1 up to 1
  CHECK(schedule.At(10, 100) == 1);
  CHECK(schedule.At(80, 100) == 1);
  CHECK(schedule.At(90, 100) == Approx(0.1 + 0.9 * 0.5));  // half of a cosine
  CHECK(schedule.At(100, 100) == Approx(0.1));
  CHECK(schedule.At(101, 100) == Approx(0.1));
  // A decay that would begin in the warm-up begins behind it.
  const LearningRateSchedule late{
      .peak = 1, .warmup = 9, .final_factor = 0, .kind = ScheduleKind::kWsd};
  CHECK(late.At(9, 10) == 1);
  CHECK(late.At(10, 10) == Approx(0.0));
}

TEST_CASE("an inverse square root falls from the end of the warm-up") {
  const LearningRateSchedule schedule{.peak = 0.3,
                                      .warmup = 16,
                                      .final_factor = 0,
                                      .kind = ScheduleKind::kInverseSqrt};
  CHECK(schedule.At(8, 1000) == Approx(0.15));
  CHECK(schedule.At(16, 1000) == Approx(0.3));
  CHECK(schedule.At(64, 1000) == Approx(0.15));  // sqrt(16 / 64)
  CHECK(schedule.At(400, 1000) == Approx(0.3 * 0.2));
  // Without a warm-up 10,000 steps stand for it.
  const LearningRateSchedule none{.peak = 1,
                                  .warmup = 0,
                                  .final_factor = 0,
                                  .kind = ScheduleKind::kInverseSqrt};
  CHECK(none.At(30'000, 40'000) == Approx(0.5));
  // Never below its last rate.
  const LearningRateSchedule bounded{.peak = 1,
                                     .warmup = 4,
                                     .final_factor = 0.5,
                                     .kind = ScheduleKind::kInverseSqrt};
  CHECK(bounded.At(9, 100) == Approx(2.0 / 3));
  CHECK(bounded.At(64, 100) == 0.5);
}

TEST_CASE("schedules are known by name") {
  for (const char* name :
       {"constant", "linear", "cosine", "wsd", "polynomial", "inverse_sqrt"}) {
    const Result<ScheduleKind> kind = ParseSchedule(name);
    REQUIRE(kind.ok());
    CHECK(ScheduleName(*kind) == name);
  }
  const Result<ScheduleKind> none = ParseSchedule("step");
  REQUIRE(!none.ok());
  CHECK(none.error().message ==
        "[schedule] there is no schedule \"step\"; expected constant, linear, "
        "cosine, wsd, polynomial or inverse_sqrt");
}

}  // namespace
}  // namespace stowage
