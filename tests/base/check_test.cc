#include "base/check.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/death.h"

namespace stowage {
namespace {

using testing::Death;
using testing::RunUntilDeath;

TEST_CASE("a failed check aborts and names file, line and condition") {
  const int line = __LINE__ + 1;
  const Death death = RunUntilDeath([] { STOWAGE_CHECK(1 + 1 == 3); });
  CHECK(death.aborted);
  const std::string expected =
      std::string(__FILE__) + ":" + std::to_string(line) +
      ": check failed: `1 + 1 == 3`: this is a bug in Stowage\n";
  CHECK(death.error_output == expected);
}

TEST_CASE("a check that holds evaluates its condition once and goes on") {
  int evaluations = 0;
  STOWAGE_CHECK(++evaluations == 1);
  CHECK(evaluations == 1);
  CHECK_FALSE(RunUntilDeath([] { STOWAGE_CHECK(true); }).aborted);
}

}  // namespace
}  // namespace stowage
