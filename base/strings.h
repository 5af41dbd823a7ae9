#ifndef STOWAGE_BASE_STRINGS_H_
#define STOWAGE_BASE_STRINGS_H_

// The few string helpers that error messages and text forms need (C++20's
// <format> is absent from the compilers we support).
//
//   Error{code, StrCat("[plan] batch ", batch, " is below 1")}

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace stowage {
namespace internal {

void AppendTo(std::string* out, std::string_view text);
void AppendTo(std::string* out, char c);
void AppendTo(std::string* out, bool value);
void AppendTo(std::string* out, int64_t value);
void AppendTo(std::string* out, uint64_t value);
void AppendTo(std::string* out, double value);

template <typename T>
void AppendAny(std::string* out, const T& value) {
  if constexpr (std::same_as<T, bool> || std::same_as<T, char>) {
    AppendTo(out, value);
  } else if constexpr (std::signed_integral<T>) {
    AppendTo(out, static_cast<int64_t>(value));
  } else if constexpr (std::unsigned_integral<T>) {
    AppendTo(out, static_cast<uint64_t>(value));
  } else if constexpr (std::floating_point<T>) {
    AppendTo(out, static_cast<double>(value));
  } else {
    AppendTo(out, std::string_view(value));
  }
}

}  // namespace internal

/// The arguments one after the other: strings as they are, integers in decimal,
/// doubles in the shortest form that parses back equal, bools as true/false.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::string out;
  (internal::AppendAny(&out, args), ...);
  return out;
}

/// Whether `text` ends in `ending`, which is in small letters, whatever the case of its ASCII
/// letters: EndsWithAnyCase("A.NPZ", ".npz").
bool EndsWithAnyCase(std::string_view text, std::string_view ending);

/// `value` with `decimals` digits after the point: Fixed(71.26, 1) == "71.3".
std::string Fixed(double value, int decimals);

/// `text` for people: control characters, but for ends of lines and tabs, as "\x1b", so that
/// names of files and values move no cursor and colour nothing (CWE-150).
std::string WithoutControls(std::string_view text);

/// The name in double quotes, for error messages, without controls:
/// Quoted("h") == "\"h\"".
std::string Quoted(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_BASE_STRINGS_H_
