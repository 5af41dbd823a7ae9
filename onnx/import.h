#ifndef STOWAGE_ONNX_IMPORT_H_
#define STOWAGE_ONNX_IMPORT_H_

// Converts a parsed ONNX file to a graph. The inputs are converted first, then the nodes
// (onnx/node_importer.h), and then the outputs or a loss.
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

/// Returns whether a training step may use `name` for an optimizer state of one of `tensors`. It
/// may use every name that begins with a tensor's name and a dot, such as "w.m" for the tensor "w".
bool MayNameState(std::string_view name,
                  const std::unordered_set<std::string>& tensors);

/// Returns the tensors of a graph, followed by the tensors of its subgraphs, with unique names. The
/// second tensor called "w" is named "w.2". A tensor whose name a training step reserves
/// (IsNameOfStep) or may use for a state (MayNameState) also gets a number.
std::vector<std::pair<std::string, const pb::TensorProto*>> TensorsOf(
    const pb::GraphProto& graph);

/// Adds the output "loss", a scalar computed from `output`, the model's output `name`. If `judges`
/// (evaluation), also adds the output "accuracy" for a cross-entropy. Returns kInvalidArgument if
/// the loss is not a single float, if the logits of a cross-entropy have fewer than two dimensions,
/// or if the shape of the labels does not match the output or is ambiguous. Also returns errors of
/// `g`.
///
///   AddLoss(g, {.kind = OnnxLossKind::kMse}, "logits", logits, /*judges=*/false);
Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& name,
               Value output, bool judges);

/// Returns the inputs of the model that are not tensors of the file. Returns kUnsupported for an
/// input that is not a tensor or has an unsupported element type.
Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model);

/// Returns kInvalidArgument if a size, shape or constant in the options refers to an input or a
/// symbol that does not exist, or if a size and a shape contradict each other.
Status CheckOptions(const std::vector<OnnxInput>& inputs,
                    const OnnxBuildOptions& options);

/// Returns the shape of an input. It is the shape in the options, if any, and otherwise the
/// declared shape with the sizes of symbols in the options. Returns kInvalidArgument if a size is
/// unknown or the ranks differ.
Result<Shape> ShapeOfInput(const OnnxInput& input,
                           const OnnxBuildOptions& options);

/// Returns the name in the graph of the value `name` of the file. With a loss, the suffix ".2" is
/// added to the name of the labels and to names that a training step reserves or may use for a
/// state of one of `tensors`. For example, "lr" becomes "lr.2".
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
