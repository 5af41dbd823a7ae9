#ifndef STOWAGE_PYTHON_MODELS_H_
#define STOWAGE_PYTHON_MODELS_H_

// Models that Python can plan and train: a built-in one by name, one of an ONNX file, or one
// that a Python function builds. And EvaluationParts, by which outputs of several batches are
// combined to outputs for any number of examples.
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

/// A Python function that builds graphs, and its last exception until that is raised again.
/// Accessed under the GIL.
struct BuildFunction {
  pybind11::function call;
  pybind11::object raised = {};
};

struct Model {
  std::string name;
  ModelFn train;     // with the output "loss"
  ModelFn evaluate;  // may be empty
  /// Computes "loss" in evaluations; empty if `evaluate` may.
  ModelFn validate = {};
  /// `evaluate` for other batches, if a file fixes its batch.
  ModelFn evaluate_resized = {};
  int64_t batch = 1;                      // examples a step
  DType dtype = DType::kF32;              // of a built-in model
  std::optional<OnnxModel> weights = {};  // initial params and states
  TrainingDefaults defaults = {};
  std::vector<std::shared_ptr<BuildFunction>> functions =
      {};  // called by these
  /// Names of frozen params; may include names that no param has.
  std::vector<std::string> frozen = {};

  /// The program of validation losses, and of metrics (train/evaluation.h) if the loss is a
  /// cross-entropy. Without a loss its graphs are kUnsupported.
  ModelFn Validation() const;

  /// Raises `error`, of planning this model, with a function's exception as its cause; one
  /// that is not an Exception, such as an interrupt, is raised itself.
  [[noreturn]] void Raise(const Error& error) const;
};

/// Adds the class Model and its factories.
void BindModels(pybind11::module_& module);

/// An input that the caller supplies.
struct ProgramInput {
  std::string name;
  TensorType type;
};

struct EvaluatedProgram {
  const Graph& graph;  // as it was planned
  const ModelFn& model;
  /// `model` for other batches, if a file fixes its batch; else empty.
  const ModelFn& resized;
  int64_t batch = 0;  // examples at a time
  const std::vector<ProgramInput>& inputs;
};

/// The example axis of each input: the one that doubles in `model` for twice the batch; -1 if
/// there is none. If that model cannot be built, the first axis of length `batch`. Releases
/// the GIL while building.
std::vector<int64_t> ExampleAxes(const ModelFn& model, int64_t batch,
                                 const std::vector<ProgramInput>& inputs);

/// By output name, how batches combine to the output of all examples: "examples", "sum",
/// "mean", "max", "same", or a reason why they cannot; the example axis; the number of
/// entries per example; with `is_partial`, why the last batch must be full, or "". And the
/// axis of each input (ExampleAxes). Releases the GIL while building.
pybind11::tuple EvaluationParts(const EvaluatedProgram& program,
                                bool is_partial);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_MODELS_H_
