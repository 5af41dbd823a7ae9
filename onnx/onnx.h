#ifndef STOWAGE_ONNX_ONNX_H_
#define STOWAGE_ONNX_ONNX_H_

// Imports models from ONNX files. An OnnxModel builds a model's graph for given input sizes, and
// reads and replaces the values of its weights.
//
// Float tensors of the file become params under their names. Running statistics of batch norms
// become states. All other tensors, and float tensors that are constants of the model's code
// (OnnxModel::tensors), become constants. Arithmetic on shapes is evaluated when the graph is
// built. docs/guides/onnx.md describes the import, and docs/reference/onnx_ops.md lists the ops.
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
// An OnnxStep builds the graph for any number of examples if the file does not fix the number.
// Training with micro-batches (train/step_planner.h) requires such a step:
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

/// A dimension as declared in a file. It has a size, a symbol, or neither.
struct OnnxDim {
  int64_t size = 0;  // 0 means unknown
  std::string symbol = {};
};

struct OnnxInput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<OnnxDim> dims = {};
};

/// The loss of a model, a mean over the examples.
enum class OnnxLossKind : uint8_t {
  kCrossEntropy,  // of logits and i64 labels
  kMse,           // of an output and labels of the same type
  kBce,           // of logits and labels in [0, 1]
  kOutput,        // the loss is an output of the model, a scalar
};

struct OnnxLoss {
  OnnxLossKind kind = OnnxLossKind::kCrossEntropy;
  /// The output of the model from which the loss is computed, or which is the loss. If empty, it is
  /// the first output.
  std::string output = {};
  /// The name and the shape of the input for labels, which is added to the graph. By default, the
  /// labels have the shape of the output, without the class axis for a cross-entropy. The class
  /// axis is axis 1 if there are four or more dimensions, and the last axis otherwise.
  std::string labels = "labels";
  std::optional<std::vector<int64_t>> labels_shape = {};
};

/// The batch size that a file fixes (`from`) and the batch size for which a graph is built (`to`).
struct ResizedBatch {
  int64_t from = 0, to = 0;
};

struct OnnxBuildOptions {
  std::map<std::string, int64_t> dims = {};  // sizes of symbols
  /// Shapes of inputs that replace the shapes in the file.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  /// The values of inputs that are constant, such as the shape for a Reshape, by name. They are not
  /// inputs of the graph.
  std::map<std::string, Array> constants = {};
  /// If set, the only output of the graph is "loss", an f32 scalar, and nodes on which it does not
  /// depend are omitted. Batch norms and dropouts are in training mode, whatever the file
  /// specifies.
  std::optional<OnnxLoss> loss = {};
  /// With a loss, builds the graph for evaluation, in which batch norms and dropouts are in
  /// evaluation mode. For a cross-entropy, the graph has a second output, "accuracy", an f32
  /// scalar, which is the fraction of labels that have the largest logit. Params and states are the
  /// same as in the graph for training.
  bool evaluation = false;
  /// With a loss, the graph has the model's outputs instead of "loss". An output is omitted if it
  /// depends on a float tensor on which the loss does not depend.
  bool trained_outputs = false;
  /// Patterns (GlobMatches) of names of tensors that are weights although they look like constants
  /// (OnnxModel::tensors).
  std::vector<std::string> trainable = {};
  /// If `shapes` has another batch size than the file, replaces the batch size in constant shapes
  /// of Reshape and Expand.
  std::optional<ResizedBatch> resized = {};
  /// Replaces unknown ops by StandIn (ir/ops.h), with the result shapes that the file declares. A
  /// graph with stand-ins can be planned but not executed.
  bool stand_ins = false;
};

/// Returns whether training steps reserve `name`. The reserved names are "lr", "step", "seed",
/// "loss" and "labels". In a graph, a tensor with such a name gets a suffix, such as ".2". In a
/// graph for a loss, so do inputs and other values, except i64 scalar inputs called "step" or
/// "seed".
bool IsNameOfStep(std::string_view name);

/// A float tensor of a file. It is a weight or a constant of the model's code.
struct OnnxTensor {
  std::string name;
  TensorType type;
  /// The kind of the constant (ConstantTensors in onnx/tensor.h), or empty for a weight.
  std::string constant = {};
};

class OnnxModel {
 public:
  /// Returns the name of the graph in the file.
  const std::string& name() const;
  /// Returns the inputs other than weights, in the file's order.
  std::span<const OnnxInput> inputs() const;
  std::span<const std::string> outputs() const;

  /// Returns the float tensors in the file's order, followed by the float tensors of subgraphs.
  /// Tensors of an unsupported type are omitted.
  std::vector<OnnxTensor> tensors() const;

  /// Returns the model as a graph. Inputs, outputs and other values have their names in the file,
  /// unless a training step reserves the name. An output that is also an input, a tensor or
  /// constant, or another output is copied, and the copy is called NAME.out if NAME is in use.
  /// Errors of a node name the node. Propagates errors of reading tensors.
  ///
  /// Returns kUnsupported
  /// - if the operator set is missing or is not one of 1 to 28;
  /// - if an op is unknown (the message lists all unknown ops), or a known op is used in an
  ///   unsupported way;
  /// - if the model has more than 1,000,000 nodes after its functions are inlined, or an output
  ///   without elements.
  ///
  /// Returns kInvalidArgument
  /// - if a dimension has no size, or the options contain a name that the file does not have or
  ///   contradict each other;
  /// - if a pattern in `trainable` matches no constant;
  /// - if the loss does not match its output, or the output depends on no weight;
  /// - if a value is read before it is computed or is computed twice, operands have wrong types, a
  ///   type differs from the declared type, or a function is recursive.
  Result<Graph> Build(const OnnxBuildOptions& options = {}) const;

  /// Returns the paths of the external files that contain tensors of the model, sorted.
  std::vector<std::string> files() const;

  /// Calls `take` with the name and the value of each param and state of `graph` that is a tensor
  /// of the file, in the order of the graph. `graph` must be a result of Build or a training step
  /// made from it, whose optimizer states are skipped. Stops at the first error of `take` or of
  /// ReadTensor (onnx/tensor.h) and returns it.
  Status ForEachWeight(
      const Graph& graph,
      const std::function<Status(const NamedArray&)>& take) const;

  /// Returns the bytes of the file with new weights. Calls `give` for each param and state of
  /// `graph` (as in ForEachWeight) with an array of the tensor's size, whose elements `give` must
  /// set. Tensors with new elements are stored in the file itself, even if they were external. All
  /// other tensors are unchanged. Propagates errors of `give` and of CheckTensor (onnx/tensor.h).
  /// Returns kUnsupported if the result has 2 GiB or more, which protobuf does not support.
  Result<std::string> WithWeights(
      const Graph& graph, const std::function<Status(NamedArray&)>& give) const;

  /// Does the same without a graph. Calls `give` for each float tensor of the file, with its name,
  /// its type and no bytes. `give` must return true if it has set `array.bytes`, which must then
  /// have the size of the type, and otherwise false.
  Result<std::string> WithWeights(
      const std::function<Result<bool>(NamedArray&)>& give) const;

 private:
  friend Result<OnnxModel> ParseOnnx(std::string_view bytes,
                                     const std::string& path);
  struct File;
  explicit OnnxModel(std::shared_ptr<const File> file);
  std::shared_ptr<const File> file_;  // shared by copies
};

/// Reads the model in the file at `path`. Ops and operator sets are checked by OnnxModel::Build. An
/// external tensor is read when its value is required. Returns kIo if the file cannot be read.
/// Returns kInvalidArgument if it is not ONNX or has no graph with nodes. Returns kUnsupported if
/// its IR version is not one of 3 to 14, if an input is not a tensor or has an unsupported element
/// type, and in a build without protobuf.
Result<OnnxModel> ReadOnnx(const std::string& path);

/// Reads a model from the contents of a file. `path` names the file in errors, and external tensors
/// are read from its folder. Returns the same errors as ReadOnnx, except kIo.
Result<OnnxModel> ParseOnnx(std::string_view bytes, const std::string& path);

/// Parses a loss. "cross_entropy", "mse" and "bce" are losses of the model's first output, and
/// "mse:logits" is a loss of the output "logits". Any other string is the name of the output that
/// is the loss.
OnnxLoss ParseOnnxLoss(std::string_view text);

/// A model and the sizes for which its graphs are built.
struct OnnxStep {
  OnnxModel model;
  OnnxBuildOptions options;
  /// The symbol of the first dimension of the model's first input, which is the number of examples.
  /// Empty if the file or `options.shapes` fixes this number, or if the dimension has no symbol.
  std::string batch_symbol;
  int64_t batch = 1;
  /// Whether Build sets the first dimension of `options.loss->labels_shape` to the number of
  /// examples.
  bool labels_follow_batch = false;

  /// Returns the canonicalized graph (ir/canonicalize/canonicalize.h) for `examples` examples. With
  /// `evaluation`, it is the graph for evaluation (OnnxBuildOptions). Propagates errors of
  /// OnnxModel::Build. Returns kUnsupported if `batch_symbol` is empty and `examples` is not
  /// `batch`.
  Result<Graph> Build(int64_t examples, bool evaluation = false) const;
  /// Returns the graph for a batch size other than the one that the file fixes, for the batch
  /// analysis (autodiff/batch_analysis.h). The first dimension of each input is replaced if it
  /// equals `batch`. Constants that depend on the batch size, such as 1 / batch, are not replaced.
  /// Propagates errors of OnnxModel::Build.
  Result<Graph> BuildResized(int64_t examples) const;
  /// Returns the graph of Build together with the other results of its canonicalization.
  Result<Canonicalized> BuildCanonical(int64_t examples,
                                       bool evaluation = false) const;
  /// Returns the step whose graphs have the model's outputs instead of the loss and its labels
  /// (OnnxBuildOptions::trained_outputs). Requires `options.loss`.
  OnnxStep ForwardPass() const;
};

/// Returns the step of `model` with batches of `batch` examples. If `batch` is absent, the batch
/// size is the one in the file or the options, or 1 if they have none. With a loss, a shape
/// "labels" in `options.shapes` is the shape of the labels. Returns kInvalidArgument if `batch`
/// differs from the batch size in the file or the options.
Result<OnnxStep> SizeOnnxStep(OnnxModel model, OnnxBuildOptions options,
                              std::optional<int64_t> batch);

}  // namespace stowage

#endif  // STOWAGE_ONNX_ONNX_H_
