#ifndef STOWAGE_ONNX_IMPORT_H_
#define STOWAGE_ONNX_IMPORT_H_

// A parsed file as a graph: its inputs, its nodes (onnx/node_importer.h), and its outputs
// or a loss of one.
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
#include "onnx/build_options.h"
#include "onnx/onnx.pb.h"

namespace stowage::onnx {

// The tensors that a model holds, under names that are unique: those of its graph, and of
// the graphs within its nodes, which may call different ones alike.
//
//   for (const auto& [name, tensor] : TensorsOf(model.graph())) ...

/// Whether a training step may call a state of one of these tensors so: "w.m" where there
/// is a tensor "w".
bool MayNameState(std::string_view name,
                  const std::unordered_set<std::string>& tensors);

/// All of them, a graph's own before those within its nodes. A name that has come before
/// gets a number: "w", then "w.2"; so do names that a training step has of its own
/// (IsNameOfStep) or may give to a state.
std::vector<std::pair<std::string, const pb::TensorProto*>> TensorsOf(
    const pb::GraphProto& graph);

// What an imported model is trained for, added to its graph.
//
//   AddLoss(g, {.kind = OnnxLossKind::kMse}, "logits", logits, /*judges=*/false);

/// The graph's output "loss", a scalar, of the model's output, called `name`; and where
/// the loss judges, a cross-entropy's "accuracy". Errors, kInvalidArgument: a loss
/// that is no scalar, labels whose shape does not go with the output's, or goes with it
/// in two ways.
Status AddLoss(GraphBuilder& g, const OnnxLoss& loss, const std::string& name,
               Value output, bool judges);

// The inputs of a model, and the shapes that they are given.
//
//   Result<std::vector<OnnxInput>> inputs = InputsOf(model);
//   Status asked = CheckOptions(*inputs, options);
//   Result<Shape> shape = ShapeOfInput((*inputs)[0], options);

/// The inputs of the model that are no tensors of the file. Errors: one that is no
/// tensor, or of a type that is not supported.
Result<std::vector<OnnxInput>> InputsOf(const pb::ModelProto& model);

/// That what is given by name, sizes, shapes and values, is for inputs that are there.
Status CheckOptions(const std::vector<OnnxInput>& inputs,
                    const OnnxBuildOptions& options);

/// The shape of an input: what is given for it, else what the file says, with sizes for
/// dimensions that have a name there. Errors: a size that is not known; a given shape of
/// another rank.
Result<Shape> ShapeOfInput(const OnnxInput& input,
                           const OnnxBuildOptions& options);

/// What a value of the file is called in the graph: "lr.2", say, where there is a loss and
/// its step has a value of its own of that name (onnx/import.h; the labels), or may give
/// it to a state of one of `tensors`.
std::string NameInGraph(const std::string& name,
                        const std::unordered_set<std::string>& tensors,
                        const OnnxBuildOptions& options);

/// See OnnxModel::Build. `path` is where the file lies; `constants` are tensors of floats
/// that are no weights (onnx/constant_tensors.h).
Result<Graph> Import(const pb::ModelProto& model, const std::string& path,
                     const std::map<std::string, std::string>& constants,
                     const OnnxBuildOptions& options);

}  // namespace stowage::onnx

#endif  // STOWAGE_ONNX_IMPORT_H_
