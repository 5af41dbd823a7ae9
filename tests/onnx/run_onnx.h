#ifndef STOWAGE_TESTS_ONNX_RUN_ONNX_H_
#define STOWAGE_TESTS_ONNX_RUN_ONNX_H_

// Runs the graph of an ONNX file as a user would: it is planned, and runs in a session on the CPU
// with the weights of the file.
//
//   Result<std::vector<Array>> outputs = RunOnnx(*model, *graph, inputs);

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "onnx/onnx.h"
#include "planner/fit/fit.h"
#include "runtime/backend.h"

namespace stowage {

/// Runs a step with these inputs, and returns the outputs of the graph in order.
Result<std::vector<Array>> RunOnnx(const OnnxModel& model, const Graph& graph,
                                   const std::vector<NamedArray>& inputs);
/// Does the same on `backend` with a graph that is already planned.
Result<std::vector<Array>> RunOnnx(const OnnxModel& model,
                                   const PlannedGraph& program,
                                   Backend& backend,
                                   const std::vector<NamedArray>& inputs);

}  // namespace stowage

#endif  // STOWAGE_TESTS_ONNX_RUN_ONNX_H_
