// The extension module stowage._core, which the Python package wraps.

#include <pybind11/pybind11.h>

#include <string>

#include "base/memory.h"
#include "base/version.h"
#include "python/graphs.h"
#include "python/models.h"
#include "python/plans.h"
#include "python/runs.h"
#include "python/trainers.h"

PYBIND11_MODULE(_core, module) {
  namespace python = stowage::python;
  module.attr("__version__") = std::string(stowage::kVersion);
  python::BindGraphs(module);
  python::BindModels(module);
  python::BindPlans(module);
  python::BindTrainers(module);
  python::BindRuns(module);
  module.def("return_free_memory", &stowage::ReturnFreeMemory);
}
