#include "base/result.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

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

Result<int> Half(int number) {
  if (number % 2 != 0) {
    return Error{ErrorCode::kInvalidArgument, "[half] odd"};
  }
  return number / 2;
}

Result<int> Quarter(int number) {
  STOWAGE_ASSIGN_OR_RETURN(const int half, Half(number));
  STOWAGE_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status RequireEven(int number, int* calls_after) {
  STOWAGE_RETURN_IF_ERROR(Half(number));
  ++*calls_after;
  return {};
}

TEST_CASE("a result holds its value") {
  Result<std::string> result = std::string("hull");
  REQUIRE(result.ok());
  CHECK(static_cast<bool>(result));
  CHECK(result->size() == 4);
  *result += "s";
  CHECK(result.value() == "hulls");
}

TEST_CASE("a result holds its error") {
  const Result<int> result = Error{ErrorCode::kIo, "[save] disk full"};
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kIo);
  CHECK(result.error().message == "[save] disk full");
}

TEST_CASE("a value that only moves can be taken out") {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 7);
}

TEST_CASE("assign-or-return passes values on and stops at the first error") {
  CHECK(Quarter(12).value() == 3);
  CHECK(Quarter(6).error().message == "[half] odd");
  CHECK_FALSE(Quarter(3).ok());
}

TEST_CASE("return-if-error leaves the function on an error only") {
  int calls_after = 0;
  CHECK(RequireEven(2, &calls_after).ok());
  CHECK(calls_after == 1);
  CHECK(RequireEven(3, &calls_after).error().message == "[half] odd");
  CHECK(calls_after == 1);
}

TEST_CASE("a default status is success") { CHECK(Status().ok()); }

TEST_CASE("each error code has a name of its own") {
  CHECK(std::string(ErrorCodeName(ErrorCode::kInvalidArgument)) ==
        "invalid argument");
  CHECK(std::string(ErrorCodeName(ErrorCode::kBudgetTooSmall)) ==
        "budget too small");
  CHECK(std::string(ErrorCodeName(ErrorCode::kUnsupported)) == "unsupported");
  CHECK(std::string(ErrorCodeName(ErrorCode::kNotFound)) == "not found");
  CHECK(std::string(ErrorCodeName(ErrorCode::kDevice)) == "device");
  CHECK(std::string(ErrorCodeName(ErrorCode::kIo)) == "io");
}

TEST_CASE("reading the wrong side of a result aborts") {
  CHECK(RunUntilDeath([] { (void)Half(3).value(); }).aborted);
  CHECK(RunUntilDeath([] { (void)Half(2).error(); }).aborted);
  CHECK(RunUntilDeath([] { (void)Status().error(); }).aborted);
}

TEST_CASE("OrDie is the value, or the end of the program with its message") {
  CHECK(Half(4).OrDie() == 2);
  RequireEven(2, std::make_unique<int>().get()).OrDie();
  for (void (*dies)() : {+[] { (void)Half(3).OrDie(); },
                         +[] {
                           int calls = 0;
                           RequireEven(3, &calls).OrDie();
                         }}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      dies();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 1);
  }
}

}  // namespace
}  // namespace stowage
