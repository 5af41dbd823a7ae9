#ifndef STOWAGE_PYTHON_MODELS_H_
#define STOWAGE_PYTHON_MODELS_H_

// Provides models that Python can plan and train. A model is built in, read from an ONNX file, or
// built by a Python function. EvaluationParts determines how to combine the outputs of several
// batches, so that Python can evaluate any number of examples.
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

/// A Python function that builds graphs, and the last exception that it raised, which is kept until
/// Model::Raise raises it. The GIL must be held to access the members.
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
      {};  // the Python functions that these call
  /// Names of frozen params. May include names that are not params.
  std::vector<std::string> frozen = {};

  /// Returns a function that builds the program for validation losses, with the outputs of
  /// WithPredictions (train/evaluation.h) if the loss is a cross-entropy. The function returns
  /// kUnsupported if the evaluation has no output "loss". Requires `validate` or `evaluate`.
  ModelFn Validation() const;

  /// Raises `error`, an error of planning this model. If one of `functions` has raised an
  /// exception, this exception is the cause of the raised error. If the exception is not a subclass
  /// of Exception, for example KeyboardInterrupt, it is raised instead of `error`.
  [[noreturn]] void Raise(const Error& error) const;
};

/// Adds the Python class Model and its factories to `module`.
void BindModels(pybind11::module_& module);

/// An input of a program that the caller must supply.
struct ProgramInput {
  std::string name;
  TensorType type;
};

struct EvaluatedProgram {
  const Graph& graph;  // the planned graph
  const ModelFn& model;
  /// Builds the graph for other batch sizes if the model's file fixes its batch size. Otherwise
  /// empty.
  const ModelFn& resized;
  int64_t batch = 0;  // examples per batch
  const std::vector<ProgramInput>& inputs;
};

/// Returns the example axis of each input, or -1 if the input has none. The example axis is the
/// axis whose length doubles if `model` is built for twice the batch. If this graph cannot be
/// built, it is axis 0 of each input whose first axis has length `batch`. Releases the GIL while it
/// builds graphs.
std::vector<int64_t> ExampleAxes(const ModelFn& model, int64_t batch,
                                 const std::vector<ProgramInput>& inputs);

/// Returns a dict by output name, and the example axis of each input (ExampleAxes). The values of
/// the dict are tuples that describe how to compute the output for all examples from the outputs
/// for batches:
///  - "examples", "sum", "mean", "max" or "same", or the reason why the outputs cannot be combined;
///  - the example axis;
///  - the number of entries per example;
///  - if `is_partial`, the reason why the last batch must be full, or "".
/// Releases the GIL while it builds graphs.
pybind11::tuple EvaluationParts(const EvaluatedProgram& program,
                                bool is_partial);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_MODELS_H_
