#ifndef STOWAGE_ONNX_IMPORT_H_
#define STOWAGE_ONNX_IMPORT_H_

// Converts a parsed ONNX file to a graph: its inputs, its nodes (onnx/node_importer.h), and its
// outputs or a loss.
//
//   Result<Graph> graph = Import(model, "models/resnet18.onnx", options);

#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "onnx/onnx.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

/// Returns whether a training step may use `name` for an optimizer state of one of these tensors.
/// It may use "w.m" if there is a tensor "w".
bool MayNameState(std::string_view name,
                  const std::unordered_set<std::string>& tensors);

/// Returns the tensors of a graph, then the tensors of its subgraphs, under unique names. A
/// repeated name gets a number: "w", "w.2". The same applies to names that a training step reserves
/// (IsNameOfStep) or may use for a state.
std::vector<std::pair<std::string, const pb::TensorProto*>> TensorsOf(
    const pb::GraphProto& graph);

/// Adds the output "loss", a scalar computed from `output`, the model's output `name`. If `judges`
/// (evaluation), also adds the output "accuracy" for a cross-entropy. Returns kInvalidArgument for
/// a loss that is not a scalar, and for labels whose shape does not match the output or is
/// ambiguous.
///
///   AddLoss(g, {.kind = OnnxLossKind::kMse}, "logits", logits, /*judges=*/false);
Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& name,
               Value output, bool judges);

/// Returns the inputs of the model, without tensors of the file. Returns kUnsupported for an input
/// that is not a tensor or has an unsupported element type.
Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model);

/// Checks that the sizes, shapes and constants of the options refer to existing inputs and do not
/// contradict each other.
Status CheckOptions(const std::vector<OnnxInput>& inputs,
                    const OnnxBuildOptions& options);

/// Returns the shape of an input, which is the shape in the options, if any. Otherwise it is the
/// declared shape, with the options' sizes of symbols. Returns kInvalidArgument if a size is
/// unknown or the ranks differ.
Result<Shape> ShapeOfInput(const OnnxInput& input,
                           const OnnxBuildOptions& options);

/// Returns the name in the graph of a value of the file. With a loss, a name that a training step
/// reserves or may use for a state of one of `tensors` gets the suffix ".2": "lr.2".
std::string NameInGraph(const std::string& name,
                        const std::unordered_set<std::string>& tensors,
                        const OnnxBuildOptions& options);

/// Implements OnnxModel::Build for the file at `path`. `constants` must be the result of
/// ConstantTensors (onnx/tensor.h).
Result<Graph> Import(const pb::ModelProto& model, const std::string& path,
                     const std::map<std::string, std::string>& constants,
                     const OnnxBuildOptions& options);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_IMPORT_H_
