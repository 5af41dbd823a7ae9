#ifndef STOWAGE_BASE_RESULT_H_
#define STOWAGE_BASE_RESULT_H_

// Reports errors without exceptions. A function that can fail because of a user's mistake returns
// a Result<T>, which holds a value or an Error. A violated invariant is a bug in Stowage, and
// STOWAGE_CHECK aborts the program. Messages name the actual values and have this form:
//
//   [op or package] what is wrong: actual values; what was expected; what to do.
//
//   Result<Bytes> budget = ParseBytes("64MiB");
//   if (!budget.ok()) return budget.error();
//   if (*budget < 1) return InvalidArgumentError("[plan] a budget of ", *budget, " bytes");
//   STOWAGE_CHECK(slot.end() <= *budget);
//
// Reading the value of a failed Result is a bug in the caller and aborts. A program that
// only prints its errors can exit on the first one:
//
//   const Bytes budget = ParseBytes("64MiB").OrDie();

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/strings.h"

namespace stowage::internal {

/// Prints "file:line: check failed: `condition`: this is a bug in Stowage" to
/// stderr and aborts.
[[noreturn]] void CheckFailed(const char* condition, const char* file,
                              int line);

}  // namespace stowage::internal

#define STOWAGE_CHECK(condition) \
  (static_cast<bool>(condition)  \
       ? static_cast<void>(0)    \
       : ::stowage::internal::CheckFailed(#condition, __FILE__, __LINE__))

namespace stowage {

/// The kind of an error. The `stowage` command maps these to exit codes.
enum class ErrorCode {
  kInvalidArgument,  // a shape, a name, a number or a file's contents is wrong
  kBudgetTooSmall,   // the plan needs more bytes than the budget or capacity
  kUnsupported,      // valid, but not supported by this build or backend
  kNotFound,         // a name, a model or a file does not exist
  kDevice,           // a device is missing or failed, or memory is insufficient
  kIo,               // the operating system refused to read or write
  kNotFinite,        // training computed NaN or infinity
  kRankLost,         // another rank of the run, or the link to it, is lost
};

/// Returns "invalid argument", "budget too small", ...
const char* ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;  // one sentence, no newline
};

// The following functions return an error with the code that they name and the message
// StrCat(args...).

template <typename... Args>
Error InvalidArgumentError(const Args&... args) {
  return {ErrorCode::kInvalidArgument, StrCat(args...)};
}

template <typename... Args>
Error UnsupportedError(const Args&... args) {
  return {ErrorCode::kUnsupported, StrCat(args...)};
}

template <typename... Args>
Error DeviceError(const Args&... args) {
  return {ErrorCode::kDevice, StrCat(args...)};
}

/// Prints the error's message on stderr and ends the program with exit code 1.
[[noreturn]] void DieOf(const Error& error);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const Error& error() const {
    STOWAGE_CHECK(!ok());
    return *std::get_if<1>(&state_);
  }
  const T& value() const& {
    STOWAGE_CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  T& value() & {
    STOWAGE_CHECK(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    STOWAGE_CHECK(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  /// Returns the value. On an error, calls DieOf, which ends the program.
  T OrDie() && {
    if (!ok()) DieOf(error());
    return std::move(*this).value();
  }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an error, for functions that return no value.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    STOWAGE_CHECK(!ok());
    return *error_;
  }
  /// On an error, calls DieOf, which ends the program.
  void OrDie() const {
    if (!ok()) DieOf(error());
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace stowage

/// If `expression`, a Status or a Result, is an error, returns the error from the enclosing
/// function.
#define STOWAGE_RETURN_IF_ERROR(expression)                       \
  do {                                                            \
    if (auto stowage_status = (expression); !stowage_status.ok()) \
      return stowage_status.error();                              \
  } while (false)

/// Initializes `declaration` with the value of `expression`, a Result. If `expression` is an error,
/// returns the error from the enclosing function. Expands to several statements, so it must not be
/// the body of an `if` without braces.
///
///   STOWAGE_ASSIGN_OR_RETURN(Bytes budget, ParseBytes(text));
#define STOWAGE_ASSIGN_OR_RETURN(declaration, expression)                    \
  STOWAGE_ASSIGN_OR_RETURN_IMPL_(STOWAGE_CONCAT_(stowage_result_, __LINE__), \
                                 declaration, expression)
#define STOWAGE_CONCAT_(a, b) STOWAGE_CONCAT_INNER_(a, b)
#define STOWAGE_CONCAT_INNER_(a, b) a##b
#define STOWAGE_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                           \
  if (!result.ok()) return result.error();                              \
  declaration = std::move(result).value()

#endif  // STOWAGE_BASE_RESULT_H_
