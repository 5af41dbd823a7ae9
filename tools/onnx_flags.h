#ifndef STOWAGE_TOOLS_ONNX_FLAGS_H_
#define STOWAGE_TOOLS_ONNX_FLAGS_H_

// Declares and reads the options that define the step of a model from an ONNX file.
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

/// Declares the options of OnnxFlags except --stand-ins, which only `stowage plan` accepts.
void AddOnnxOptions(Options& options, OnnxFlags* flags);

/// Reads the file and sets its symbolic dimensions from the flags (onnx/onnx.h). Propagates errors
/// of ReadOnnx and SizeOnnxStep. Returns kInvalidArgument if --dim or --shape is malformed.
Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags);

/// Returns the training spec of `step`. Propagates errors of ReadTrainingFlags and of other
/// functions that read the flags.
Result<TrainingSpec> ReadOnnxTraining(const OnnxStep& step,
                                      const OnnxFlags& onnx,
                                      const ModelFlags& flags);

/// Returns a table, or a JSON object if `json`, of the floating-point tensors of the file. It
/// states for each tensor whether the step trains it, or the reason why not. Without --loss, the
/// step is the forward pass. Propagates errors of OnnxStep::Build.
Result<std::string> ListParams(const OnnxStep& step, const OnnxFlags& onnx,
                               bool json);

/// The options for the data of a model from an ONNX file (tools/arrays_task.h).
struct ArrayFlags {
  std::vector<std::string> input_map;
  std::string shuffle = "seed";
  /// A fraction; if absent, there is no validation set.
  std::optional<double> hold_out;
};

/// Declares --input-map.
void AddInputMapOption(Options& options, ArrayFlags* flags);

/// Sets the params of `step` to the weights of the spec's ONNX file. Does nothing if the model is
/// not from an ONNX file. Params that the file lacks keep their values. Returns an error if the
/// file can no longer be read.
Status WriteOnnxWeights(const StepSpec& spec, Runner& step);

/// Returns the step of a built-in model or of a model from an ONNX file that is trained on --data.
/// Error messages begin with "[command]". Propagates errors of ReadRunFlags and ReadOnnxRun.
/// Returns kInvalidArgument unless exactly one of --model and --onnx is given.
Result<StepSpec> ReadStep(std::string_view command, const RunFlags& flags,
                          const OnnxFlags& onnx, const ArrayFlags& arrays);

/// Returns the step of a model from an ONNX file that is trained on --data, an .npz. The labels in
/// the data determine which axis of the model's output enumerates the classes. Propagates errors of
/// ReadOnnxStep, ReadOnnxTraining and ReadArrays. Returns kInvalidArgument without --loss.
Result<StepSpec> ReadOnnxRun(const OnnxFlags& onnx, const ArrayFlags& arrays,
                             const RunFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ONNX_FLAGS_H_
