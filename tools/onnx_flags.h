#ifndef STOWAGE_TOOLS_ONNX_FLAGS_H_
#define STOWAGE_TOOLS_ONNX_FLAGS_H_

// The options that define the step of an ONNX file's model.
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
  std::string file;  // "" for none
  std::vector<std::string> dims, shapes, freeze, trainable;
  std::string loss;  // "" for inference
  bool stand_ins = false;
};

/// Declares them and --onnx; not --stand-ins, which only plans take.
void AddOnnxOptions(Options& options, OnnxFlags* flags);

/// Reads the file, and sets the sizes of the flags. Errors: those of ReadOnnx and SizeOnnxStep;
/// kInvalidArgument for a malformed --dim or --shape.
Result<OnnxStep> ReadOnnxStep(const OnnxFlags& onnx, const ModelFlags& flags);

/// The training of the step. Errors: those of the flags.
Result<TrainingSpec> ReadOnnxTraining(const OnnxStep& step,
                                      const OnnxFlags& onnx,
                                      const ModelFlags& flags);

/// The float tensors of the file and their roles in the step, or in a forward pass without a
/// loss: trained, or the reason why not; as a table or a JSON object. Errors: those of
/// OnnxStep::Build.
Result<std::string> ListParams(const OnnxStep& step, const OnnxFlags& onnx,
                               bool json);

/// The options of an ONNX file's data (tools/arrays_task.h).
struct ArrayFlags {
  std::vector<std::string> input_map;
  std::string shuffle = "seed";
  std::optional<double> hold_out;  // a fraction; absent: no validation set
};

/// Declares --input-map.
void AddInputMapOption(Options& options, ArrayFlags* flags);

/// Writes the weights of the spec's ONNX file, if any, to an initialized step. Error: a file
/// that can no longer be read.
Status WriteOnnxWeights(const StepSpec& spec, Runner& step);

/// The step over --data of a built-in model or an ONNX file's; `command` tags the messages.
/// Errors: those of ReadRunFlags and ReadOnnxRun; kInvalidArgument if both or neither are given.
Result<StepSpec> ReadStep(std::string_view command, const RunFlags& flags,
                          const OnnxFlags& onnx, const ArrayFlags& arrays);

/// The step of an ONNX file's model over --data, an .npz, whose labels determine the axis of
/// classes. Errors: those of ReadOnnxStep, ReadOnnxTraining and ReadArrays; kInvalidArgument
/// without --loss.
Result<StepSpec> ReadOnnxRun(const OnnxFlags& onnx, const ArrayFlags& arrays,
                             const RunFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_ONNX_FLAGS_H_
