#include "python/errors.h"

#include <cxxabi.h>
#include <unistd.h>

namespace stowage::python {
namespace {

const char* TypeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kBudgetTooSmall:
      return "BudgetTooSmall";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kDevice:
    case ErrorCode::kRankLost:
      return "DeviceError";
    case ErrorCode::kIo:
      return "FileError";
    case ErrorCode::kNotFinite:
      return "NotFinite";
  }
  return "StowageError";
}

}  // namespace

void Raise(const char* type, const std::string& message) {
  namespace py = pybind11;
  const py::object raised = py::module_::import("stowage.errors").attr(type);
  PyErr_SetString(raised.ptr(), message.c_str());
  throw py::error_already_set();
}

void Raise(const Error& error) { Raise(TypeOf(error.code), error.message); }

void TakeGil(PyThreadState* thread) {
  try {
    PyEval_RestoreThread(thread);
  } catch (const abi::__forced_unwind&) {
    // Python before 3.14 ends the thread by unwinding its stack, whose destructors would
    // release Python objects without the GIL. From 3.14 on the thread sleeps.
    while (true) pause();
  }
}

}  // namespace stowage::python
