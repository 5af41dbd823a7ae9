#ifndef STOWAGE_PYTHON_MODELS_H_
#define STOWAGE_PYTHON_MODELS_H_

// Provides models that Python can plan and train. A model is built in, is read from an ONNX file,
// or is built by a Python function. EvaluationParts determines how the outputs of several batches
// are combined, so that Python can evaluate any number of examples.
//
//   py::tuple parts = EvaluationParts({.graph = runner.graph(),
//                                      .model = model.evaluate,
//                                      .batch = 32,
//                                      .inputs = inputs},
//                                     /*is_partial=*/true);

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "nn/models.h"
#include "onnx/onnx.h"
#include "train/step_builder.h"

namespace stowage::python {

/// A Python function that builds graphs, and its last exception, which is kept until it is raised.
/// The GIL must be held to access it.
struct BuildFunction {
  pybind11::function call;
  pybind11::object raised = {};
};

struct Model {
  std::string name;
  ModelFn train;     // with the output "loss"
  ModelFn evaluate;  // may be empty
  /// Computes "loss" in evaluations. May be empty if `evaluate` computes it.
  ModelFn validate = {};
  /// Builds the graphs of `evaluate` for other batch sizes, if a file fixes its batch size.
  ModelFn evaluate_resized = {};
  int64_t batch = 1;                      // examples per step
  DType dtype = DType::kF32;              // of a built-in model
  std::optional<OnnxModel> weights = {};  // initial params and states
  TrainingDefaults defaults = {};
  std::vector<std::shared_ptr<BuildFunction>> functions =
      {};  // the functions that these call
  /// Names of frozen params. May include names that are not params.
  std::vector<std::string> frozen = {};

  /// Returns the program that computes validation losses, and metrics (train/evaluation.h) if the
  /// loss is a cross-entropy. Building it returns kUnsupported if the model has no loss.
  ModelFn Validation() const;

  /// Raises `error`, which planning this model returned, with the exception of a function as its
  /// cause. An exception that is not a subclass of Exception, such as an interrupt, is raised
  /// itself.
  [[noreturn]] void Raise(const Error& error) const;
};

/// Adds the Python class Model and its factories to `module`.
void BindModels(pybind11::module_& module);

/// An input that the caller of a program supplies.
struct ProgramInput {
  std::string name;
  TensorType type;
};

struct EvaluatedProgram {
  const Graph& graph;  // the planned graph
  const ModelFn& model;
  /// Builds the graph for other batch sizes if a file fixes its batch size. Otherwise empty.
  const ModelFn& resized;
  int64_t batch = 0;  // examples per batch
  const std::vector<ProgramInput>& inputs;
};

/// Returns the example axis of each input, which is the axis whose length doubles when `model` is
/// built for twice the batch. -1 means that there is none. If that graph cannot be built, returns
/// axis 0 for each input whose first axis has length `batch`. Releases the GIL while building.
std::vector<int64_t> ExampleAxes(const ModelFn& model, int64_t batch,
                                 const std::vector<ProgramInput>& inputs);

/// Returns a dict by output name, and the axis of each input (ExampleAxes). The values of the dict
/// are tuples that describe how the output of all examples is combined from batches:
///  - "examples", "sum", "mean", "max", "same", or the reason why it cannot be combined;
///  - the example axis;
///  - the number of entries per example;
///  - if `is_partial`, the reason why the last batch must be full, or "".
/// Releases the GIL while building.
pybind11::tuple EvaluationParts(const EvaluatedProgram& program,
                                bool is_partial);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_MODELS_H_
