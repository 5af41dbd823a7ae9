#ifndef STOWAGE_TOOLS_ONNX_FLAGS_H_
#define STOWAGE_TOOLS_ONNX_FLAGS_H_

// The options that say which step of an ONNX file's model is meant.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/array.h"
#include "onnx/onnx.h"
#include "tools/model_flags.h"
#include "tools/options.h"
#include "train/training.h"

namespace stowage::tools {

struct OnnxFlags {
  std::string file;  // empty: none
  std::vector<std::string> dims, shapes, freeze, trainable;
  std::string loss;  // empty: inference
  bool stand_ins = false;
};

/// Declares them, --onnx included, but for --stand-ins, which is for plans alone.
void AddOnnxOptions(Options& options, OnnxFlags* flags);

/// Reads the file, and gives its model the sizes of the flags. Errors: ReadOnnx's and
/// SizeOnnxStep's; a --dim or --shape that is none.
Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags);

/// Its training step as the flags want it. Errors: those of the flags.
Result<TrainingSpec> ReadOnnxTraining(const OnnxStep& step,
                                      const OnnxFlags& onnx,
                                      const ModelFlags& flags);

/// What becomes of each tensor of floats of the file in the step, or without a loss in a
/// pass, as a table or a JSON object: that it trains, or why it does not. Errors: those of
/// OnnxStep::Build.
Result<std::string> ListParams(const OnnxStep& step, const OnnxFlags& onnx,
                               bool json);

/// What an ONNX file's model is trained on and judged by, and in which order.
struct ArrayFlags {
  std::vector<std::string> input_map;
  std::string shuffle = "seed";
  std::optional<double> hold_out;  // a fraction; absent: nothing
};

/// Declares --input-map.
void AddInputMapOption(Options& options, ArrayFlags* flags);

/// Writes the weights of the spec's ONNX file, if it is of one, over what a step has been
/// initialized with. Error: a file that cannot be read any more.
Status WriteOnnxWeights(const StepSpec& spec, Runner& step);

/// The step of a run over --data, of a built-in model or of an ONNX file's, as `flags` and
/// `onnx` say; `command` opens the messages. Errors: those of ReadRunFlags and
/// ReadOnnxRun; both, or none.
Result<StepSpec> ReadStep(std::string_view command, const RunFlags& flags,
                          const OnnxFlags& onnx, const ArrayFlags& arrays);

/// The step of a run over --data, an .npz. Its labels tell which axis of an output the
/// classes are. Errors: those of ReadOnnxStep, ReadOnnxTraining and ReadArrays; no
/// --loss.
Result<StepSpec> ReadOnnxRun(const OnnxFlags& onnx, const ArrayFlags& arrays,
                             const RunFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ONNX_FLAGS_H_
