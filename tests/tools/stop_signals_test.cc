#include "tools/stop_signals.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

namespace stowage::tools {
namespace {

// How a process ends that catches signals and gets these: its exit code, the number of
// the signal that it noted as the first, or 128 plus that of the one that ended it.
int EndOf(const std::vector<int>& numbers) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      std::signal(number, SIG_DFL);
    }
    const StopSignals stop;
    for (const int number : numbers) raise(number);
    _exit(StopSignals::caught());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_CASE("the first signal is noted, the second that asks ends at once") {
  CHECK(EndOf({}) == 0);
  CHECK(EndOf({SIGTERM}) == SIGTERM);
  CHECK(EndOf({SIGINT, SIGINT}) == 128 + SIGINT);
  CHECK(EndOf({SIGTERM, SIGHUP}) == 128 + SIGHUP);
}

// It comes with every line that is printed, and nobody has sent it.
TEST_CASE("SIGPIPE does not count as asking") {
  CHECK(EndOf({SIGPIPE, SIGPIPE, SIGPIPE}) == SIGPIPE);
  CHECK(EndOf({SIGPIPE, SIGTERM}) == SIGPIPE);
  CHECK(EndOf({SIGTERM, SIGPIPE}) == SIGTERM);
  CHECK(EndOf({SIGPIPE, SIGTERM, SIGTERM}) == 128 + SIGTERM);
}

}  // namespace
}  // namespace stowage::tools
