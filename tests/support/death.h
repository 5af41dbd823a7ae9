#ifndef STOWAGE_TESTS_SUPPORT_DEATH_H_
#define STOWAGE_TESTS_SUPPORT_DEATH_H_

// Runs code that should abort in a child process, and reports whether it aborted and what it
// printed.
//
//   const Death death = RunUntilDeath([] { STOWAGE_CHECK(1 == 2); });
//   CHECK(death.aborted);
//   CHECK(death.error_output.find("1 == 2") != std::string::npos);

#include <functional>
#include <string>

namespace stowage::testing {

struct Death {
  bool aborted = false;      // the child was ended by SIGABRT
  std::string error_output;  // the child's stderr
};

/// Runs `code` in a child process. Because it forks, call it before the test starts threads. If
/// `code` returns, `aborted` is false.
Death RunUntilDeath(const std::function<void()>& code);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_DEATH_H_
