#ifndef STOWAGE_ONNX_ONNX_H_
#define STOWAGE_ONNX_ONNX_H_

// Imports models from ONNX files: their graphs, for given sizes, and the values of their weights.
//
// Float tensors of the file become params under their names. Running statistics of batch norms
// become states. All other tensors, and float tensors that are constants of the model's code,
// become constants. Arithmetic on shapes is evaluated when the graph is built. docs/guides/onnx.md
// describes the import, and docs/reference/onnx_ops.md lists the ops.
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
// An OnnxStep builds the graph for any number of examples, which training with micro-batches
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

/// A dimension as declared in a file: a size, a symbol, or neither.
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
  /// The output from which the loss is computed, or which is the loss. If empty, the first output.
  std::string output = {};
  /// The name of the new input for labels, and its shape. By default, the labels have the shape of
  /// the output, without the class axis for a cross-entropy. The class axis is axis 1 if there are
  /// four or more dimensions, and the last axis otherwise.
  std::string labels = "labels";
  std::optional<std::vector<int64_t>> labels_shape = {};
};

/// The batch size that a file fixes, and another for which a graph is built.
struct ResizedBatch {
  int64_t from = 0, to = 0;
};

struct OnnxBuildOptions {
  std::map<std::string, int64_t> dims = {};  // sizes of symbols
  /// Shapes of inputs that replace the shapes in the file.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  /// Inputs that are constant, such as the shape for a Reshape. The graph does not have them as
  /// inputs.
  std::map<std::string, Array> constants = {};
  /// If set, the only output of the graph is "loss", an f32 scalar, and unused nodes are omitted.
  /// Batch norms and dropouts are in training mode, whatever the file specifies.
  std::optional<OnnxLoss> loss = {};
  /// With a loss, evaluates instead of training: batch norms and dropouts are in evaluation mode. A
  /// cross-entropy has a second output, "accuracy", which is an f32: the fraction of labels that
  /// have the largest logit. Params and states are the same as in the graph for training.
  bool evaluation = false;
  /// With a loss, the graph has the model's outputs instead of "loss". Outputs that depend on
  /// weights that the loss does not train are omitted.
  bool trained_outputs = false;
  /// Patterns (GlobMatches) of names of tensors that are weights although they look like constants
  /// (OnnxModel::tensors).
  std::vector<std::string> trainable = {};
  /// If `shapes` has another batch size than the file, replaces the batch size in constant shapes
  /// of Reshape and Expand.
  std::optional<ResizedBatch> resized = {};
  /// Replaces unknown ops by StandIn (ir/ops.h), with the shapes that the file declares. The graph
  /// can then be planned but not run.
  bool stand_ins = false;
};

/// Returns whether training steps reserve the name: "lr", "step", "seed", "loss" or "labels". A
/// tensor or an input of a file with a reserved name gets the suffix ".2".
bool IsNameOfStep(std::string_view name);

/// A float tensor of a file: a weight, or a constant of the model's code.
struct OnnxTensor {
  std::string name;
  TensorType type;
  /// The kind of constant (ConstantTensors in onnx/tensor.h). Empty for a weight.
  std::string constant = {};
};

class OnnxModel {
 public:
  /// Returns the name of the graph in the file.
  const std::string& name() const;
  /// Returns the inputs other than weights, in the file's order.
  std::span<const OnnxInput> inputs() const;
  std::span<const std::string> outputs() const;

  /// Returns the float tensors in the file's order. Tensors of subgraphs are last.
  std::vector<OnnxTensor> tensors() const;

  /// Returns the model as a graph. Inputs, outputs and values have their names in the file. An
  /// output that is also an input, a tensor of the file or another output is copied, and called
  /// NAME.out if the name is in use. Errors name the node. Returns kUnsupported for unknown ops,
  /// which one message lists, and for unsupported uses of known ops. Returns kInvalidArgument if a
  /// dimension has no size, if the options contain a name that the file does not have, and for
  /// defects of the file: a value that is used before it is computed or computed twice, operands of
  /// wrong types, a type that differs from the declared type, or a recursive function.
  Result<Graph> Build(const OnnxBuildOptions& options = {}) const;

  /// Returns the paths of external files that hold tensors of the graph.
  std::vector<std::string> files() const;

  /// Calls `take` with the value of each param and state of `graph`, a result of Build, in the
  /// order of the graph. Stops at the first error of `take` or of reading a tensor.
  Status ForEachWeight(
      const Graph& graph,
      const std::function<Status(const NamedArray&)>& take) const;

  /// Returns the bytes of the file with new weights. `give` sets the elements of each param and
  /// state of `graph`, a result of Build. External tensors become internal, and the rest of the
  /// file is unchanged. Propagates errors of `give`. Returns kUnsupported for 2 GiB or more, which
  /// is the limit of protobuf.
  Result<std::string> WithWeights(
      const Graph& graph, const std::function<Status(NamedArray&)>& give) const;

  /// Returns the bytes of the file with new weights, for which no graph is required. `give` is
  /// called for each float tensor of the file, without its bytes, and must return true if it has
  /// set new bytes.
  Result<std::string> WithWeights(
      const std::function<Result<bool>(NamedArray&)>& give) const;

 private:
  friend Result<OnnxModel> ParseOnnx(std::string_view bytes,
                                     const std::string& path);
  struct File;
  explicit OnnxModel(std::shared_ptr<const File> file);
  std::shared_ptr<const File> file_;  // shared by copies
};

/// Reads a model of IR version 3 to 14 and operator sets 1 to 28. External tensors are read on
/// demand. Returns kIo if the file cannot be read, and kInvalidArgument if it is not ONNX or has no
/// graph. Returns kUnsupported for other versions, and in a build without protobuf.
Result<OnnxModel> ReadOnnx(const std::string& path);

/// Reads a model from bytes. `path` names the file in errors. External tensors are read from its
/// folder.
Result<OnnxModel> ParseOnnx(std::string_view bytes, const std::string& path);

/// Parses "cross_entropy", "mse" or "bce", which are losses of the model's first output, or
/// "mse:logits", a loss of the output "logits". Any other string names the output that is the loss.
OnnxLoss ParseOnnxLoss(std::string_view text);

/// A model and the sizes for which its graphs are built.
struct OnnxStep {
  OnnxModel model;
  OnnxBuildOptions options;
  /// The symbol of the first dimension of the model's first input, which is the number of examples.
  /// Empty if the file fixes this number.
  std::string batch_symbol;
  int64_t batch = 1;
  /// Whether the first dimension of the loss's labels is the number of examples.
  bool labels_follow_batch = false;

  /// Returns the graph for `examples` examples, for training or evaluation. Propagates errors of
  /// OnnxModel::Build. Returns kUnsupported if the file fixes another number.
  Result<Graph> Build(int64_t examples, bool evaluation = false) const;
  /// Returns the graph for another batch size than the file fixes, for the batch analysis
  /// (autodiff/batch_analysis.h). Constants such as 1 / batch are unchanged. Propagates errors of
  /// OnnxModel::Build.
  Result<Graph> BuildResized(int64_t examples) const;
  /// Returns the graph of Build with the other results of canonicalization
  /// (ir/canonicalize/canonicalize.h).
  Result<Canonicalized> BuildCanonical(int64_t examples,
                                       bool evaluation = false) const;
  /// Returns the step whose graphs have the model's outputs instead of the loss and its labels. The
  /// params are the same.
  OnnxStep ForwardPass() const;
};

/// Returns the step of `model` with batches of `batch` examples. By default, the batch size is the
/// size in the file or the options, or 1. If `options.shapes` contains "labels", it is the shape of
/// the loss's labels. Returns kInvalidArgument if the file or the options fix another batch size.
Result<OnnxStep> SizeOnnxStep(OnnxModel model, OnnxBuildOptions options,
                              std::optional<int64_t> batch);

}  // namespace stowage

#endif  // STOWAGE_ONNX_ONNX_H_
