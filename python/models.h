#ifndef STOWAGE_PYTHON_MODELS_H_
#define STOWAGE_PYTHON_MODELS_H_

// What may be planned and trained from Python: a model of the library by its name, one
// of an ONNX file's bytes, or one that a function of the caller's builds.

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "nn/models.h"
#include "onnx/onnx.h"
#include "train/step_builder.h"

namespace stowage::python {

/// A function of Python's that builds graphs, and what it raised last, until that is
/// raised again. Looked at under the GIL.
struct BuildFunction {
  pybind11::function call;
  pybind11::object raised = {};
};

struct Model {
  std::string name;
  ModelFn train;     // with the output "loss"
  ModelFn evaluate;  // beside it; may be empty
  /// Its loss in evaluations, "loss"; empty where `evaluate` may have it.
  ModelFn validate = {};
  /// `evaluate` of a file that fixes its batch, for other numbers of examples.
  ModelFn evaluate_resized = {};
  int64_t batch = 1;          // examples a step
  DType dtype = DType::kF32;  // of a model by its name, its elements
  std::optional<OnnxModel> weights = {};  // that params and states begin with
  TrainingDefaults defaults = {};
  std::vector<std::shared_ptr<BuildFunction>> functions = {};  // that it calls
  /// Params that are not trained, and names that no param has.
  std::vector<std::string> frozen = {};

  /// The program of validation losses, and of metrics (train/evaluation.h) where the loss is a
  /// cross-entropy. Its graphs are kUnsupported where there is no loss.
  ModelFn Validation() const;

  /// Raises `error`, of a plan of this, with what a function raised as its cause; what is
  /// no Exception, such as an interrupt, as it is.
  [[noreturn]] void Raise(const Error& error) const;
};

/// Adds the class Model and what makes one.
void BindModels(pybind11::module_& module);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_MODELS_H_
