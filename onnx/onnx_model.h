#ifndef STOWAGE_ONNX_ONNX_MODEL_H_
#define STOWAGE_ONNX_ONNX_MODEL_H_

// A model from an ONNX file: its graph, for the sizes that the user asks for, and the
// values of its weights.
//
// Tensors of floats of the file become params under their names, those that a batch
// norm follows its statistics in become states, and all else that the file holds
// becomes constants. Arithmetic on shapes is done once, when the graph is built.
// docs/guides/onnx.md tells the rest, docs/reference/onnx_ops.md the ops.
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

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "ir/graph.h"
#include "onnx/build_options.h"  // IWYU pragma: export

namespace stowage {

/// A tensor of floats of a file: a weight, or a constant of the model's code.
struct OnnxTensor {
  std::string name;
  TensorType type;
  /// What it was recognized as (onnx/constant_tensors.h); empty: it is a weight.
  std::string constant = {};
};

class OnnxModel {
 public:
  /// The graph's name in the file.
  const std::string& name() const;
  /// Inputs that are no weights, in the file's order.
  std::span<const OnnxInput> inputs() const;
  std::span<const std::string> outputs() const;

  /// Its tensors of floats, in the file's order, those of graphs within nodes last.
  std::vector<OnnxTensor> tensors() const;

  /// The model as a graph: inputs, outputs and values under their names in the file. An
  /// output that is an input, a tensor of the file or another output as well is a copy,
  /// and called NAME.out where the name is taken.
  /// Errors name the node. kUnsupported: ops that are not known, all of them in one
  /// message, and limits of those that are; kInvalidArgument: a dimension without a
  /// size, a name in the options that the file does not have, and whatever is wrong
  /// with the file: a value read before it is made or made twice, operands that do not
  /// fit, a type other than the file declares, functions that call themselves.
  Result<Graph> Build(const OnnxBuildOptions& options = {}) const;

  /// The files beside it that hold tensors of its graph, by name.
  std::vector<std::string> files() const;

  /// Calls `take` with the value of each param and state of `graph`, which Build made,
  /// in its order; stops at the first error, which may be one of reading a tensor.
  Status ForEachWeight(
      const Graph& graph,
      const std::function<Status(const NamedArray&)>& take) const;

  /// The bytes of the file with other weights: `give` fills in the elements of each
  /// param and state of `graph`, which Build made. All else stays as it is; tensors that
  /// lay beside the model are within. Errors: those of `give`; kUnsupported for 2 GiB or
  /// more, the most that such a file may have.
  Result<std::string> WithWeights(
      const Graph& graph, const std::function<Status(NamedArray&)>& give) const;

  /// The same where there is no graph: `give` is asked for each tensor of floats in the
  /// file, which comes without bytes, and fills them in and returns true where it has
  /// others.
  Result<std::string> WithWeights(
      const std::function<Result<bool>(NamedArray&)>& give) const;

 private:
  friend Result<OnnxModel> ParseOnnx(std::string_view bytes,
                                     const std::string& path);
  struct File;
  explicit OnnxModel(std::shared_ptr<const File> file);
  std::shared_ptr<const File> file_;  // copies share it
};

/// Reads a model of IR version 3 and later, operator sets 7 to 28. Tensors that lie in
/// files beside it are read when they are needed. Errors: kIo; kInvalidArgument for
/// what is no ONNX file, or one without a graph; kUnsupported for other versions, and
/// in a build without protobuf.
Result<OnnxModel> ReadOnnx(const std::string& path);

/// The same of a file's bytes; `path` names it in errors, and tells whose folder the
/// tensors beside it lie in.
Result<OnnxModel> ParseOnnx(std::string_view bytes, const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_ONNX_ONNX_MODEL_H_
