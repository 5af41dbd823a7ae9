#ifndef STOWAGE_BASE_STRINGS_H_
#define STOWAGE_BASE_STRINGS_H_

// Concatenates, formats and quotes strings for messages, and matches names with glob patterns.
// (The supported compilers lack C++20's <format>.)
//
//   Error{code, StrCat("[plan] batch ", batch, " is below 1")}

#include <concepts>
#include <cstdint>
#include <optional>
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

/// Concatenates the arguments. Integers are written in decimal and bools as "true" or "false".
/// Floats are converted to double, and doubles are written in the shortest form that parses to an
/// equal double.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::string out;
  (internal::AppendAny(&out, args), ...);
  return out;
}

/// Returns whether `text` ends with `ending`, ignoring ASCII case. `ending` must be in lower
/// case. EndsWithAnyCase("A.NPZ", ".npz") is true.
bool EndsWithAnyCase(std::string_view text, std::string_view ending);

/// Returns `value` with `decimals` digits after the point: Fixed(71.26, 1) == "71.3".
std::string Fixed(double value, int decimals);

/// Returns `text` with each byte of a control character, except newlines and tabs, replaced by an
/// escape such as "\x1b", so that names from files cannot control a terminal (CWE-150). Control
/// characters are U+0000 to U+001F, U+007F, and U+0080 to U+009F.
std::string WithoutControls(std::string_view text);

/// Returns `name` in double quotes, with control characters escaped as by WithoutControls:
/// Quoted("h") == "\"h\"".
std::string Quoted(std::string_view name);

/// Returns whether `pattern` matches all of `text`. `*` matches any sequence of bytes, which may
/// be empty or contain dots and slashes. `?` matches one byte. Other bytes match themselves. A
/// pattern cannot escape `*` and `?`. Takes O(pattern.size() * text.size()) time and does not
/// allocate.
///
///   GlobMatches("h.*.bias", "h.0.attn.bias");  // true
///   GlobMatches("bias", "h.0.attn.bias");      // false
bool GlobMatches(std::string_view pattern, std::string_view text);

/// Returns `replacement` with its i-th star replaced by the substring of `text` that the i-th star
/// of `pattern` matches. Stars match as few bytes as possible, earlier stars first. Returns nullopt
/// if `pattern` does not match `text`. `replacement` must not have more stars than `pattern`.
///
///   GlobRewrite("layers.*.q.*", "h.*.attn.*", "layers.3.q.bias");  // h.3.attn.bias
std::optional<std::string> GlobRewrite(std::string_view pattern,
                                       std::string_view replacement,
                                       std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_BASE_STRINGS_H_
