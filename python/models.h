#ifndef STOWAGE_PYTHON_MODELS_H_
#define STOWAGE_PYTHON_MODELS_H_

// What may be planned and trained from Python: a model of the library by its name, one
// of an ONNX file's bytes, or one that a function of the caller's builds.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>

#include "nn/models.h"
#include "onnx/onnx.h"
#include "train/step_builder.h"

namespace stowage::python {

struct Model {
  std::string name;
  ModelFn train;                          // with the output "loss"
  ModelFn evaluate;                       // beside it; may be empty
  int64_t batch = 1;                      // examples a step
  std::optional<OnnxModel> weights = {};  // that params and states begin with
  TrainingDefaults defaults = {};
};

/// Adds the class Model and what makes one.
void BindModels(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_MODELS_H_
