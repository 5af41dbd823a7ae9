#ifndef STOWAGE_PYTHON_PACKINGS_H_
#define STOWAGE_PYTHON_PACKINGS_H_

// The packing problem by itself (planner/packing/), from arrays: a row for each buffer.

#include <pybind11/pybind11.h>

namespace stowage::python {

/// Adds the function pack.
void BindPackings(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_PACKINGS_H_
