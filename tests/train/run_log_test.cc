#include "train/run_log.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tests/support/files.h"
#include "train/run.h"

namespace stowage {
namespace {

using testing::EmptyFolder;
using testing::ReadAll;

constexpr char kHeader[] =
    "step,epoch,loss,lr,grad_norm,step_seconds,tokens_per_second,arena_bytes,"
    "budget_bytes,validation_loss\n";

StepFigures Figures(int64_t step) {
  return {.step = step,
          .epoch = 0.5 * static_cast<double>(step),
          .loss = 1.25,
          .lr = 0.5,
          .seconds = 2,
          .tokens_per_second = 4};
}

TEST_CASE(
    "a log has a row for each step, with its evaluation where one is due") {
  const std::string path = EmptyFolder("run_log") + "/run.csv";
  const RunSpec run{.steps = 5, .eval_every = 2};
  {
    RunLog log = RunLog::Open(path).OrDie();
    REQUIRE(log.Begin(0, run, {.arena = 100, .budget = 200}).ok());
    log.OnStep(Figures(1));
    CHECK(ReadAll(path) ==
          std::string(kHeader) + "1,0.5,1.25,0.5,,2,4,100,200,\n");
    StepFigures skipped = Figures(2);
    skipped.loss = std::numeric_limits<double>::quiet_NaN();
    log.OnSkipped(skipped, "why", "outcome");
    log.OnEvaluation(2, Evaluation{.loss = 0.75}, true);
    log.OnStep(Figures(3));
    log.OnStep(Figures(4));  // whose evaluation a stop leaves out
    log.End();
    CHECK(log.status().ok());
  }
  const std::string rows = std::string(kHeader) +
                           "1,0.5,1.25,0.5,,2,4,100,200,\n"
                           "2,1,,0.5,,2,4,100,200,0.75\n"
                           "3,1.5,1.25,0.5,,2,4,100,200,\n";
  CHECK(ReadAll(path) == rows + "4,2,1.25,0.5,,2,4,100,200,\n");
  // A run that goes on behind step 3 takes step 4 again.
  RunLog log = RunLog::Open(path).OrDie();
  REQUIRE(log.Begin(3, run, {.arena = 100}).ok());
  CHECK(ReadAll(path) == rows);
  log.OnStep(Figures(4));
  log.OnEvaluation(4, std::nullopt, false);
  CHECK(ReadAll(path) == rows + "4,2,1.25,0.5,,2,4,100,,\n");
}

}  // namespace
}  // namespace stowage
