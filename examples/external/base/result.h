#ifndef OWN_BASE_RESULT_H_
#define OWN_BASE_RESULT_H_

// How a program of this workspace ends: its results, and what was wrong.

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
  /// Of main.
  int exit_code() const { return wrong_ ? 1 : 0; }

 private:
  bool wrong_ = false;
};

/// The value of any library's result, or the program's end.
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
