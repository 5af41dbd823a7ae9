#include "tests/support/death.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/result.h"

namespace stowage::testing {

Death RunUntilDeath(const std::function<void()>& code) {
  int ends[2];
  STOWAGE_CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  STOWAGE_CHECK(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // doctest's handler would report a failure
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    code();
    _exit(0);
  }
  close(ends[1]);
  Death death;
  char buffer[512];
  ssize_t count;
  while ((count = read(ends[0], buffer, sizeof(buffer))) > 0) {
    death.error_output.append(buffer, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  STOWAGE_CHECK(waitpid(child, &status, 0) == child);
  death.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  return death;
}

}  // namespace stowage::testing
