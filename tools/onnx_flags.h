#ifndef STOWAGE_TOOLS_ONNX_FLAGS_H_
#define STOWAGE_TOOLS_ONNX_FLAGS_H_

// Declares and reads the options that define the step of an ONNX file's model.
//
//   AddOnnxOptions(options, &onnx);
//   Result<StepSpec> spec = ReadStep("train", flags, onnx, arrays);

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "onnx/onnx.h"
#include "tools/model_flags.h"
#include "tools/options.h"
#include "train/training.h"

namespace stowage::tools {

struct OnnxFlags {
  std::string file;  // if empty, there is no ONNX file
  std::vector<std::string> dims, shapes, freeze, trainable;
  std::string loss;  // if empty, the model is not trained
  bool stand_ins = false;
};

/// Declares these options and --onnx, but not --stand-ins, which only `stowage plan` accepts.
void AddOnnxOptions(Options& options, OnnxFlags* flags);

/// Reads the file and sets its sizes from the flags. Propagates errors of ReadOnnx and
/// SizeOnnxStep. Returns kInvalidArgument if --dim or --shape is malformed.
Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags);

/// Returns the training spec of the step. Propagates errors of reading the flags.
Result<TrainingSpec> ReadOnnxTraining(const OnnxStep& step,
                                      const OnnxFlags& onnx,
                                      const ModelFlags& flags);

/// Returns a table or a JSON object of the float tensors of the file. It states for each one
/// whether the step trains it, or the reason why not. Without a loss, it describes the forward
/// pass. Propagates errors of OnnxStep::Build.
Result<std::string> ListParams(const OnnxStep& step, const OnnxFlags& onnx,
                               bool json);

/// The options of an ONNX file's data (tools/arrays_task.h).
struct ArrayFlags {
  std::vector<std::string> input_map;
  std::string shuffle = "seed";
  /// A fraction; if absent, there is no validation set.
  std::optional<double> hold_out;
};

/// Declares --input-map.
void AddInputMapOption(Options& options, ArrayFlags* flags);

/// Writes the weights of the spec's ONNX file, if any, to an initialized step. Returns an error if
/// the file can no longer be read.
Status WriteOnnxWeights(const StepSpec& spec, Runner& step);

/// Returns the step over --data of a built-in model or of an ONNX file's model. `command` is the
/// tag of error messages. Propagates errors of ReadRunFlags and ReadOnnxRun. Returns
/// kInvalidArgument if both models or neither are given.
Result<StepSpec> ReadStep(std::string_view command, const RunFlags& flags,
                          const OnnxFlags& onnx, const ArrayFlags& arrays);

/// Returns the step of an ONNX file's model over --data, an .npz. The labels in the data determine
/// which axis of the model's output enumerates the classes. Propagates errors of ReadOnnxStep,
/// ReadOnnxTraining and ReadArrays. Returns kInvalidArgument without --loss.
Result<StepSpec> ReadOnnxRun(const OnnxFlags& onnx, const ArrayFlags& arrays,
                             const RunFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ONNX_FLAGS_H_
