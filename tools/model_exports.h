#ifndef STOWAGE_TOOLS_MODEL_EXPORTS_H_
#define STOWAGE_TOOLS_MODEL_EXPORTS_H_

// The weights and adapters that a training command writes for other programs, besides its
// checkpoints: --save-weights, --save-onnx, --save-adapter and --save-merged, as safetensors,
// ONNX, PEFT's and transformers' folders, or GGUF. All files are claimed, and everything that
// a format cannot hold is reported, before the first step.
//
//   STOWAGE_ASSIGN_OR_RETURN(ModelExports exports, ModelExports::Open(flags, spec));
//   ...  // training
//   Status saved = exports.Save(training.step(), spec);

#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"
#include "runtime/session.h"
#include "tools/model_flags.h"
#include "tools/train_flags.h"
#include "tools/tuning.h"
#include "train/adapter_files.h"
#include "train/gguf_export.h"
#include "train/merged_model.h"

namespace stowage::tools {

/// The folder of --save-adapter; "" if it is not given or a GGUF file.
std::string AdapterFolderOf(const TrainFlags& flags);
/// The folder of --save-merged for a model that classifies or embeds texts; "" for others.
std::string ModelFolderOf(const TrainFlags& flags, const StepSpec& spec);

class ModelExports {
 public:
  /// Writes nothing.
  ModelExports() = default;

  /// Checks that the names of files match the formats. Errors: kInvalidArgument, kUnsupported.
  static Status CheckNames(const TrainFlags& flags, const StepSpec& spec);

  /// Claims the files. Errors: those of OutputFile::Claim, AdapterFiles::Claim,
  /// ModelFolder::Claim, ParseGgufMix, GgufTokenizerKeys, GgufExport::Plan and
  /// CheckGgufAdapter; kInvalidArgument for a --merged-type without a GGUF file.
  static Result<ModelExports> Open(const TrainFlags& flags,
                                   const StepSpec& spec);

  /// Whether the flags ask for any of the files.
  static bool AreWanted(const TrainFlags& flags) {
    return !flags.save_weights.empty() || !flags.save_onnx.empty() ||
           !flags.save_adapter.empty() || !flags.save_merged.empty();
  }

  /// Writes all files, whether or not others fail. Errors: those of SaveWeights,
  /// OnnxModel::WithWeights, SaveAdapter, SaveMerged, SaveModelFolder, SaveAdapterGguf and
  /// GgufExport::Write.
  Status Save(const Runner& runner, const StepSpec& spec) const;

 private:
  Status OpenGguf(const TrainFlags& flags, const Tuning* tuning);
  Status SaveOnnx(const Runner& runner, const StepSpec& spec) const;

  std::optional<OutputFile> weights_, onnx_, merged_;
  std::optional<AdapterFiles> adapter_;
  std::optional<ModelFolder> folder_;
  std::optional<OutputFile> merged_gguf_, adapter_gguf_;
  std::optional<GgufExport> gguf_;  // of merged_gguf_
};

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_EXPORTS_H_
