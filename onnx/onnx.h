#ifndef STOWAGE_ONNX_ONNX_H_
#define STOWAGE_ONNX_ONNX_H_

// Models of ONNX files: their graphs, for given sizes, and the values of their weights.
//
// Float tensors of the file become params under their names, the running statistics of batch
// norms become states, and all other tensors constants. Arithmetic on shapes is evaluated
// when the graph is built. docs/guides/onnx.md describes the import, docs/reference/onnx_ops.md the ops.
//
//   Result<OnnxModel> model = ReadOnnx("resnet18.onnx");
//   Result<Graph> forward = model->Build({.dims = {{"batch", 32}}});
//   Result<Graph> trained = model->Build(
//       {.dims = {{"batch", 32}}, .loss = OnnxLoss{}});
//   ...
//   model->ForEachWeight(runner.graph(), [&](const NamedArray& weight) {
//     return runner.WriteBytes(weight.name, weight.array.type.dtype,
//                              weight.array.data());
//   });
//
// An OnnxStep builds the graph for any number of examples, as training with micro-batches
// requires (train/step_planner.h):
//
//   Result<OnnxStep> step = SizeOnnxStep(*model, {.loss = OnnxLoss{}}, /*batch=*/64);
//   spec.model = [step = *step](int64_t examples) { return step.Build(examples); };

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/canonicalize/canonicalize.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"

namespace stowage {

/// A dimension as a file declares it: a size, a symbol, or neither.
struct OnnxDim {
  int64_t size = 0;  // 0: unknown
  std::string symbol = {};
};

struct OnnxInput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<OnnxDim> dims = {};
};

/// The loss of a model, a mean over the examples.
enum class OnnxLossKind : uint8_t {
  kCrossEntropy,  // of logits and labels (i64)
  kMse,           // of an output and labels of its type
  kBce,           // of logits and labels in [0, 1]
  kOutput,        // an output of the model, a scalar, is the loss
};

struct OnnxLoss {
  OnnxLossKind kind = OnnxLossKind::kCrossEntropy;
  std::string output = {};  // the operand, or the loss; empty: the first output
  /// The name of the new input, and its shape: by default the output's, for a cross-entropy
  /// without the class axis, which is the second of four or more dimensions, else the last.
  std::string labels = "labels";
  std::optional<std::vector<int64_t>> labels_shape = {};
};

/// The batch that a file fixes, and another for which a graph is built.
struct ResizedBatch {
  int64_t from = 0, to = 0;
};

struct OnnxBuildOptions {
  std::map<std::string, int64_t> dims = {};  // sizes of symbols
  /// Shapes of inputs, in place of those that the file declares.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  /// Inputs that are constant, such as the shape for a Reshape; the graph does not have
  /// them as inputs.
  std::map<std::string, Array> constants = {};
  /// If set, the graph's only output is "loss", an f32, and unused nodes are left out. Batch
  /// norms and dropouts are in training mode, regardless of the file.
  std::optional<OnnxLoss> loss = {};
  /// With a loss: batch norms and dropouts are in evaluation mode, and a cross-entropy has a
  /// second output, "accuracy", the fraction of labels that have the largest logit, an f32.
  /// Params and states are those of the graph for training.
  bool evaluation = false;
  /// With a loss: the graph has the model's outputs instead, except those that depend on
  /// weights that the loss does not train.
  bool trained_outputs = false;
  /// Patterns of names (GlobMatches) of tensors that are weights although they look like
  /// constants (OnnxModel::tensors).
  std::vector<std::string> trainable = {};
  /// With `shapes` of another batch than the file's: replaces the batch in constant shapes
  /// of Reshape and Expand.
  std::optional<ResizedBatch> resized = {};
  /// Replaces unknown ops by StandIn (ir/ops.h), with the shapes that the file declares:
  /// such a graph can be planned but not run.
  bool stand_ins = false;
};

/// Returns whether the name is reserved by training steps: "lr", "step", "seed", "loss",
/// "labels". A tensor or input of a file with such a name gets the suffix ".2".
bool IsNameOfStep(std::string_view name);

/// A float tensor of a file: a weight, or a constant of the model's code.
struct OnnxTensor {
  std::string name;
  TensorType type;
  /// The kind of constant (ConstantTensors in onnx/tensor.h); empty: it is a weight.
  std::string constant = {};
};

class OnnxModel {
 public:
  /// The graph's name in the file.
  const std::string& name() const;
  /// Inputs other than weights, in the file's order.
  std::span<const OnnxInput> inputs() const;
  std::span<const std::string> outputs() const;

  /// The float tensors, in the file's order, those of subgraphs last.
  std::vector<OnnxTensor> tensors() const;

  /// The model as a graph, with inputs, outputs and values under their names in the file. An
  /// output that is also an input, a tensor of the file or another output is copied, and
  /// called NAME.out if the name is taken. Errors name the node. kUnsupported: unknown ops,
  /// all of them in one message, and unsupported uses of known ones; kInvalidArgument: a
  /// dimension without a size, a name in the options that the file does not have, and
  /// defects of the file: a value used before it is computed or computed twice, operands of
  /// wrong types, a type other than the declared one, recursive functions.
  Result<Graph> Build(const OnnxBuildOptions& options = {}) const;

  /// The names of external files with tensors of the graph.
  std::vector<std::string> files() const;

  /// Calls `take` with the value of each param and state of `graph`, a result of Build, in
  /// its order. Stops at the first error, of `take` or of reading a tensor.
  Status ForEachWeight(
      const Graph& graph,
      const std::function<Status(const NamedArray&)>& take) const;

  /// The bytes of the file with other weights: `give` sets the elements of each param and
  /// state of `graph`, a result of Build. External tensors become internal; all else is
  /// unchanged. Errors: those of `give`; kUnsupported for 2 GiB or more, the limit of
  /// protobuf.
  Result<std::string> WithWeights(
      const Graph& graph, const std::function<Status(NamedArray&)>& give) const;

  /// As above, without a graph: `give` is called for each float tensor of the file, without
  /// bytes, and returns true if it has set new ones.
  Result<std::string> WithWeights(
      const std::function<Result<bool>(NamedArray&)>& give) const;

 private:
  friend Result<OnnxModel> ParseOnnx(std::string_view bytes,
                                     const std::string& path);
  struct File;
  explicit OnnxModel(std::shared_ptr<const File> file);
  std::shared_ptr<const File> file_;  // copies share it
};

/// Reads a model of IR version 3 and later, operator sets 1 to 28. External tensors are read
/// on demand. Errors: kIo; kInvalidArgument for a file that is not ONNX or has no graph;
/// kUnsupported for other versions, and in a build without protobuf.
Result<OnnxModel> ReadOnnx(const std::string& path);

/// As above, from bytes. `path` names the file in errors; external tensors are in its
/// folder.
Result<OnnxModel> ParseOnnx(std::string_view bytes, const std::string& path);

/// Parses "cross_entropy", "mse" or "bce" (of the model's first output), "mse:logits" (of
/// another), or the name of an output that is the loss.
OnnxLoss ParseOnnxLoss(std::string_view text);

/// A model and its sizes.
struct OnnxStep {
  OnnxModel model;
  OnnxBuildOptions options;
  /// The symbol of the first dimension of the model's first input, which is the number of
  /// examples; empty if the file fixes it.
  std::string batch_symbol;
  int64_t batch = 1;
  /// True if the first dimension of the loss's labels is the number of examples.
  bool labels_follow_batch = false;

  /// The graph for that number of examples, for training or evaluation. Errors: those of
  /// OnnxModel::Build; kUnsupported for another number than the file fixes.
  Result<Graph> Build(int64_t examples, bool evaluation = false) const;
  /// The graph of a file that fixes its batch, with inputs of another batch, for the batch
  /// analysis (autodiff/batch_analysis.h). Constants such as 1 / batch are unchanged. Errors:
  /// those of OnnxModel::Build.
  Result<Graph> BuildResized(int64_t examples) const;
  /// As Build, with the results of canonicalization (ir/canonicalize/canonicalize.h).
  Result<Canonicalized> BuildCanonical(int64_t examples,
                                       bool evaluation = false) const;
  /// The step whose graphs have the model's outputs instead of the loss and its labels, with
  /// the same params.
  OnnxStep ForwardPass() const;
};

/// The step of `model` with batches of `batch` examples, by default those of the file or the
/// options, or 1. A shape of "labels" in the options is that of the loss's labels. Error
/// kInvalidArgument: another batch than the file or the options fix.
Result<OnnxStep> SizeOnnxStep(OnnxModel model, OnnxBuildOptions options,
                              std::optional<int64_t> batch);

}  // namespace stowage

#endif  // STOWAGE_ONNX_ONNX_H_
