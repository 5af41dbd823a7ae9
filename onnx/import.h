#ifndef STOWAGE_ONNX_IMPORT_H_
#define STOWAGE_ONNX_IMPORT_H_

// Converts a parsed file to a graph: its inputs, its nodes (onnx/node_importer.h), and its
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

/// Returns whether a training step may use the name for a state of one of these tensors:
/// "w.m" if there is a tensor "w".
bool MayNameState(std::string_view name,
                  const std::unordered_set<std::string>& tensors);

/// The tensors of a graph, then those of its subgraphs, under unique names: a repeated name
/// gets a number, "w", "w.2", as do names that a training step reserves (IsNameOfStep) or
/// may use for a state.
std::vector<std::pair<std::string, const pb::TensorProto*>> TensorsOf(
    const pb::GraphProto& graph);

/// Adds the output "loss", a scalar, computed from the model's output `name`, and with
/// `judges` (evaluation) a cross-entropy's "accuracy". Errors, kInvalidArgument: a loss that
/// is not a scalar, labels whose shape does not match the output's, or is ambiguous.
///
///   AddLoss(g, {.kind = OnnxLossKind::kMse}, "logits", logits, /*judges=*/false);
Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& name,
               Value output, bool judges);

/// The inputs of the model other than tensors of the file. Errors: one that is not a tensor,
/// or has an unsupported type.
Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model);

/// Checks that the sizes, shapes and constants of the options are for existing inputs.
Status CheckOptions(const std::vector<OnnxInput>& inputs,
                    const OnnxBuildOptions& options);

/// The shape of an input: that of the options, else the declared one with the options' sizes
/// for symbols. Errors: an unknown size; a shape of another rank.
Result<Shape> ShapeOfInput(const OnnxInput& input,
                           const OnnxBuildOptions& options);

/// The name of a value of the file in the graph. With a loss, names that a training step
/// reserves or may use for a state of one of `tensors` get a number: "lr.2".
std::string NameInGraph(const std::string& name,
                        const std::unordered_set<std::string>& tensors,
                        const OnnxBuildOptions& options);

/// OnnxModel::Build for the file at `path`; `constants` are those of ConstantTensors
/// (onnx/tensor.h).
Result<Graph> Import(const pb::ModelProto& model, const std::string& path,
                     const std::map<std::string, std::string>& constants,
                     const OnnxBuildOptions& options);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_IMPORT_H_
