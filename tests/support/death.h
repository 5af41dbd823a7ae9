#ifndef STOWAGE_TESTS_SUPPORT_DEATH_H_
#define STOWAGE_TESTS_SUPPORT_DEATH_H_

// Runs code that should abort in a child process, and returns how the child ended.
//
//   const Death death = RunUntilDeath([] { STOWAGE_CHECK(1 == 2); });
//   CHECK(death.aborted);
//   CHECK(death.error_output.find("1 == 2") != std::string::npos);

#include <functional>
#include <string>

namespace stowage::testing {

struct Death {
  bool aborted = false;      // ended by SIGABRT
  std::string error_output;  // what it wrote to stderr
};

/// Forks, so call it before the test starts threads. If `code` returns, `aborted` is
/// false.
Death RunUntilDeath(const std::function<void()>& code);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_DEATH_H_
