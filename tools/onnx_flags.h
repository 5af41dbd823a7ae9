#ifndef STOWAGE_TOOLS_ONNX_FLAGS_H_
#define STOWAGE_TOOLS_ONNX_FLAGS_H_

// The options that say which step of an ONNX file's model is meant.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/onnx.h"
#include "tools/model_flags.h"
#include "tools/options.h"
#include "train/training.h"

namespace stowage::tools {

struct OnnxFlags {
  std::string file;  // empty: none
  std::vector<std::string> dims, shapes, freeze;
  std::string loss;  // empty: inference
  bool stand_ins = false;
};

/// Declares them, --onnx included, but for --stand-ins, which is for plans alone.
void AddOnnxOptions(Options& options, OnnxFlags* flags);

/// A model from a file, and the sizes that the flags give it.
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
  /// Error kInvalidArgument: another number than the file fixes.
  Result<Graph> Build(int64_t examples, bool evaluation = false) const;
};

/// Reads the file. Errors: ReadOnnx's; a --dim or --shape that is none, a --batch other
/// than the file fixes.
Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags);

/// Its training step as the flags want it. Errors: those of the flags.
Result<TrainingSpec> ReadOnnxTraining(const OnnxStep& step,
                                      const OnnxFlags& onnx,
                                      const ModelFlags& flags);

/// What an ONNX file's model is trained on and judged by, and in which order.
struct ArrayFlags {
  std::vector<std::string> input_map;
  std::string shuffle = "seed";
  std::optional<double> hold_out;  // a fraction; absent: nothing
};

/// The step of a run over --data, an .npz. Its labels tell which axis of an output the
/// classes are. Errors: those of ReadOnnxStep, ReadOnnxTraining and ReadArrays; no
/// --loss.
Result<StepSpec> ReadOnnxRun(const OnnxFlags& onnx, const ArrayFlags& arrays,
                             const RunFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ONNX_FLAGS_H_
