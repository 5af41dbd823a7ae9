#ifndef STOWAGE_PYTHON_EVALUATION_PARTS_H_
#define STOWAGE_PYTHON_EVALUATION_PARTS_H_

// How the outputs of a program for any number of examples follow from its outputs for
// batches of the number that it was planned for.
//
//   py::tuple parts = EvaluationParts({.graph = runner.graph(),
//                                      .model = model.evaluate,
//                                      .batch = 32,
//                                      .inputs = inputs},
//                                     /*is_partial=*/true);

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "train/step_builder.h"

namespace stowage::python {

/// An input that a caller gives to a program.
struct ProgramInput {
  std::string name;
  TensorType type;
};

struct EvaluatedProgram {
  const Graph& graph;  // as it was planned
  const ModelFn& model;
  /// `model` for other numbers of examples, where a file fixes its batch; else empty.
  const ModelFn& resized;
  int64_t batch = 0;  // examples at a time
  const std::vector<ProgramInput>& inputs;
};

/// Of each input the axis that its examples are along, which is the one that `model` for
/// twice as many has twice as long; -1: it has none. Where there is no such model, the first
/// axis of a length of `batch`. Holds the GIL but while the graph is built.
std::vector<int64_t> ExampleAxes(const ModelFn& model, int64_t batch,
                                 const std::vector<ProgramInput>& inputs);

/// How an output of all examples follows from those of several batches: by name ("examples",
/// "sum", "mean", "max", "same", or a reason why it does not; the axis of the examples; how
/// often they come in it; with `is_partial`, where one of the batches is to have fewer
/// examples, why it must not, or ""). And of each input the axis of ExampleAxes. Holds the GIL but while graphs are built.
pybind11::tuple EvaluationParts(const EvaluatedProgram& program,
                                bool is_partial);

}  // namespace stowage::python

#endif  // STOWAGE_PYTHON_EVALUATION_PARTS_H_
