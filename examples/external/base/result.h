#ifndef OWN_BASE_RESULT_H_
#define OWN_BASE_RESULT_H_

// Records whether the checks of a program in this workspace hold, and determines its exit code.

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

namespace own {

class Result {
 public:
  void Check(bool holds, std::string_view what) {
    if (holds) return;
    wrong_ = true;
    std::fprintf(stderr, "wrong: %.*s\n", static_cast<int>(what.size()),
                 what.data());
  }
  /// Returns the exit code for main: 1 if a check failed, and 0 otherwise.
  int exit_code() const { return wrong_ ? 1 : 0; }

 private:
  bool wrong_ = false;
};

/// Returns the value of a result, of any library. If the result is an error, prints the error and
/// exits the program.
template <typename R>
auto Must(R result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (requires { *result; }) return *std::move(result);
}

}  // namespace own

#endif  // OWN_BASE_RESULT_H_
