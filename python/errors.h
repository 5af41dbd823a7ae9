#ifndef STOWAGE_PYTHON_ERRORS_H_
#define STOWAGE_PYTHON_ERRORS_H_

// Results as Python has them: a value, or an exception of stowage.errors with the
// library's message, one class for each ErrorCode.
//
//   Bytes budget = ValueOf(ParseBytes(text));
//   Plan plan = WithoutGil([&] { return planner.Plan(); });

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "base/result.h"

namespace stowage::python {

/// Raises the class of stowage.errors that is called so, with `message`.
/// Precondition: the caller holds the GIL.
[[noreturn]] void Raise(const char* type, const std::string& message);
/// Raises `error`, as the class of its code.
[[noreturn]] void Raise(const Error& error);

template <typename T>
T ValueOf(Result<T> result) {
  if (!result.ok()) Raise(result.error());
  return std::move(result).value();
}
inline void ValueOf(const Status& status) {
  if (!status.ok()) Raise(status.error());
}

/// Waits for the GIL, which PyEval_SaveThread gave away. Does not return where the program
/// ends meanwhile, without waiting for this thread (a "daemon").
void TakeGil(PyThreadState* thread);

/// What `f` returns. Other threads of Python run meanwhile; `f` may not touch Python's
/// objects, nor throw.
template <typename F>
auto ResultWithoutGil(F&& f) {
  PyThreadState* const thread = PyEval_SaveThread();
  auto result = f();
  TakeGil(thread);
  return result;
}

/// The same, where `f` returns a Result, as above.
template <typename F>
auto WithoutGil(F&& f) {
  return ValueOf(ResultWithoutGil(std::forward<F>(f)));
}

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_ERRORS_H_
