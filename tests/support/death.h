#ifndef STOWAGE_TESTS_SUPPORT_DEATH_H_
#define STOWAGE_TESTS_SUPPORT_DEATH_H_

// Runs code that ought to abort, in a child process, and says how it ended.
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

/// Forks, so call it before the test starts threads. A `code` that returns
/// leaves `aborted` false.
Death RunUntilDeath(const std::function<void()>& code);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_DEATH_H_
