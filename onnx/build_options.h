#ifndef STOWAGE_ONNX_BUILD_OPTIONS_H_
#define STOWAGE_ONNX_BUILD_OPTIONS_H_

// What may be chosen when a graph is built from an ONNX file, and what the file says of
// its inputs.
//
//   model->Build({.dims = {{"batch", 32}}, .shapes = {{"mask", {32, 128}}}});

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/array.h"
#include "ir/tensor_type.h"

namespace stowage {

/// A dimension as a file declares it: a size, a symbol, or neither.
struct OnnxDim {
  int64_t size = 0;  // 0: not told
  std::string symbol = {};
};

struct OnnxInput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<OnnxDim> dims = {};
};

/// What a model is trained for, a mean over the examples.
enum class OnnxLossKind : uint8_t {
  kCrossEntropy,  // of logits, by labels (i64)
  kMse,           // of numbers, by numbers of their type
  kBce,           // of logits, by numbers from 0 to 1
  kOutput,        // an output of the model that is the loss already, a scalar
};

struct OnnxLoss {
  OnnxLossKind kind = OnnxLossKind::kCrossEntropy;
  std::string output =
      {};  // that is judged, or is it; empty: the model's first
  /// The new input that it is judged by, and its shape. A shape that is left out is the
  /// output's, for a cross-entropy without the axis of classes: the second of four or
  /// more dimensions, else the last.
  std::string labels = "labels";
  std::optional<std::vector<int64_t>> labels_shape = {};
};

/// Examples that a file fixes its batch at, and those of a graph for another batch.
struct ResizedBatch {
  int64_t from = 0, to = 0;
};

struct OnnxBuildOptions {
  std::map<std::string, int64_t> dims = {};  // sizes of symbols
  /// Whole shapes of inputs, in place of what the file declares.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  /// Inputs that are the same in every step, and no inputs of the graph then: what a
  /// plan must know, such as the shape for a Reshape.
  std::map<std::string, Array> constants = {};
  /// The graph's one output is then "loss", an f32, and nodes that it does not need are
  /// left out. Batch norms take the batch's statistics and dropouts drop, whatever the
  /// file says of training.
  std::optional<OnnxLoss> loss = {};
  /// The loss judges instead: batch norms take the statistics that they have followed,
  /// dropouts pass all on, and a cross-entropy has a second output, "accuracy": which
  /// part of the labels the largest logit is at, an f32. Params and states are those of
  /// the graph that is trained.
  bool evaluation = false;
  /// With a loss: the graph gives the model's outputs in its place, as one without a loss
  /// does, but for those that need weights which the loss leaves out: all its params are
  /// trained for that loss.
  bool trained_outputs = false;
  /// Patterns of names (base/strings.h) of tensors that are weights, though they look like
  /// constants (OnnxModel::tensors).
  std::vector<std::string> trainable = {};
  /// With `shapes` of another batch than the file's: where a Reshape or an Expand has a
  /// constant shape of the file's batch, it is of this one.
  std::optional<ResizedBatch> resized = {};
  /// Plans around ops that are not known, by the shapes that the file declares for
  /// their results (StandIn, ir/ops.h): such a graph can be planned, not run.
  bool stand_ins = false;
};

/// Whether a training step has a value of its own of that name: "lr", "step", "seed",
/// "loss", "labels". A tensor or an input of a file that is called so has ".2" behind it
/// there.
bool IsNameOfStep(std::string_view name);

}  // namespace stowage

#endif  // STOWAGE_ONNX_BUILD_OPTIONS_H_
