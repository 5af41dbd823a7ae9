#ifndef STOWAGE_ONNX_ONNX_STEP_H_
#define STOWAGE_ONNX_ONNX_STEP_H_

// A file's model with sizes, which is built for any number of examples: what a training
// that may take its batch in micro-batches asks for (train/step_planner.h).
//
//   Result<OnnxStep> step =
//       SizeOnnxStep(*ReadOnnx("net.onnx"), {.loss = OnnxLoss{}}, /*batch=*/64);
//   spec.model = [step = *step](int64_t examples) { return step.Build(examples); };

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/canonicalize/canonicalize.h"
#include "ir/graph.h"
#include "onnx/build_options.h"
#include "onnx/onnx_model.h"

namespace stowage {

/// What is meant by a text: cross_entropy, mse or bce of the model's first output, or of
/// another as in "cross_entropy:logits"; or an
/// output by its name.
OnnxLoss ParseOnnxLoss(std::string_view text);

/// A model from a file, and its sizes.
struct OnnxStep {
  OnnxModel model;
  OnnxBuildOptions options;
  /// What the first dimension of the model's first input is called, whose size is the
  /// number of examples; empty where the file fixes it.
  std::string batch_symbol;
  int64_t batch = 1;
  /// Whether the first dimension of the loss's labels is the number of examples.
  bool labels_follow_batch = false;

  /// Its graph for so many examples, as it is trained or, with `evaluation`, judged.
  /// Errors: OnnxModel::Build's; kUnsupported for another number than the file fixes.
  Result<Graph> Build(int64_t examples, bool evaluation = false) const;
  /// The graph of a file that fixes its batch with inputs of another: of those whose first
  /// dimension is the batch. Shows how the nodes treat examples (autodiff/batch_analysis.h);
  /// numbers in the file, such as 1 / batch, stay. Errors: OnnxModel::Build's.
  Result<Graph> BuildResized(int64_t examples) const;
  /// The same as Build with what was found on the way (ir/canonicalize/canonicalize.h).
  Result<Canonicalized> BuildCanonical(int64_t examples,
                                       bool evaluation = false) const;
};

/// The step of `model` in batches of `batch` examples, or of as many as the file or
/// `options` says, or 1. A shape of "labels" among those of `options` is the loss's.
/// Error kInvalidArgument: another number than the file or the options fix.
Result<OnnxStep> SizeOnnxStep(OnnxModel model, OnnxBuildOptions options,
                              std::optional<int64_t> batch);

}  // namespace stowage

#endif  // STOWAGE_ONNX_ONNX_STEP_H_
