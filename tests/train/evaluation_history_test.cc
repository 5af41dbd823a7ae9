#include <doctest/doctest.h>

#include <limits>

#include "base/result.h"
#include "train/finite_guard.h"

namespace stowage {
namespace {

TEST_CASE("evaluations are counted since the lowest loss") {
  EvaluationHistory history;
  CHECK(history.Add(10, 2.5));
  CHECK(history.Add(20, 1.5));
  CHECK_FALSE(history.Add(30, 1.5));  // equal is no improvement
  CHECK_FALSE(history.Add(40, std::numeric_limits<double>::quiet_NaN()));
  CHECK(history == EvaluationHistory{.last_step = 40,
                                     .best_step = 20,
                                     .best_loss = 1.5,
                                     .since_best = 2});
  CHECK(history.Add(50, 1.25));
  CHECK(history.since_best == 0);
  CHECK(history.best_step == 50);
}

TEST_CASE("a loss of 0 or below is a loss") {
  EvaluationHistory history;
  CHECK(history.Add(1, 0));
  CHECK_FALSE(history.Add(2, 0.5));
  CHECK(history.Add(3, -1));
}

TEST_CASE("a history as text is the same again") {
  EvaluationHistory history;
  history.Add(7, 0.1 + 0.2);  // of 17 digits
  history.Add(14, 3);
  const auto parsed = ParseEvaluationHistory(ToText(history));
  REQUIRE(parsed.ok());
  CHECK(*parsed == history);
  CHECK(*ParseEvaluationHistory(ToText({})) == EvaluationHistory{});
  for (const char* text : {"", "1", "1 2 0.5", "1 2 0.5 0", "2 1 nan 0",
                           "2 1 0.5 0 3", "2 1 0.5 -1", "a 1 0.5 0"}) {
    INFO(text);
    const auto refused = ParseEvaluationHistory(text);
    REQUIRE(!refused.ok());
    CHECK(refused.error().message.find("is no history of evaluations") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace stowage
