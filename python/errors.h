#ifndef STOWAGE_PYTHON_ERRORS_H_
#define STOWAGE_PYTHON_ERRORS_H_

// Converts a Result to its value or to a Python exception of stowage.errors with the library's
// message. The ErrorCode determines the exception class. Also calls functions without the GIL.
//
//   Bytes budget = ValueOf(ParseBytes(text));
//   Plan plan = WithoutGil([&] { return planner.Plan(); });

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace stowage::python {

/// Raises the exception class `type` of stowage.errors with `message`. The caller must hold the
/// GIL.
[[noreturn]] void Raise(const char* type, const std::string& message);
/// Raises the exception of the class that belongs to error.code.
[[noreturn]] void Raise(const Error& error);

/// Returns the value of `result`, or raises its error. The caller must hold the GIL.
template <typename T>
T ValueOf(Result<T> result) {
  if (!result.ok()) Raise(result.error());
  return std::move(result).value();
}
inline void ValueOf(const Status& status) {
  if (!status.ok()) Raise(status.error());
}

/// Acquires the GIL that PyEval_SaveThread has released. Does not return if the interpreter has
/// exited since then, which may happen in daemon threads.
void TakeGil(PyThreadState* thread);

/// Returns f(), called without the GIL. `f` must not use Python objects or throw.
template <typename F>
auto ResultWithoutGil(F&& f) {
  PyThreadState* const thread = PyEval_SaveThread();
  auto result = f();
  TakeGil(thread);
  return result;
}

/// Calls `f`, which returns a Result, without the GIL. Returns its value or raises its error.
template <typename F>
auto WithoutGil(F&& f) {
  return ValueOf(ResultWithoutGil(std::forward<F>(f)));
}

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_ERRORS_H_
