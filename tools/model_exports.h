#ifndef STOWAGE_TOOLS_MODEL_EXPORTS_H_
#define STOWAGE_TOOLS_MODEL_EXPORTS_H_

// Writes the weights and adapters of a training command for other programs, in addition to its
// checkpoints. The options are --save-weights, --save-onnx, --save-adapter and --save-merged. The
// formats are safetensors, ONNX, folders of PEFT and transformers, and GGUF. All files are claimed
// before the first step, and content that a format cannot hold is reported before the first step.
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

/// Returns the folder of --save-adapter, or "" if it is not given or names a GGUF file.
std::string AdapterFolderOf(const TrainFlags& flags);
/// Returns the folder of --save-merged for a model that classifies or embeds texts, or "" for other
/// models.
std::string ModelFolderOf(const TrainFlags& flags, const StepSpec& spec);

class ModelExports {
 public:
  /// Makes an object that writes nothing.
  ModelExports() = default;

  /// Returns kInvalidArgument or kUnsupported if the name of a file does not match its format.
  static Status CheckNames(const TrainFlags& flags, const StepSpec& spec);

  /// Claims the files. Propagates errors of OutputFile::Claim, AdapterFiles::Claim,
  /// ModelFolder::Claim, ParseGgufMix, GgufTokenizerKeys, GgufExport::Plan and CheckGgufAdapter.
  /// Returns kInvalidArgument if --merged-type is given without a GGUF file.
  static Result<ModelExports> Open(const TrainFlags& flags,
                                   const StepSpec& spec);

  /// Returns whether the flags request any of the files.
  static bool AreWanted(const TrainFlags& flags) {
    return !flags.save_weights.empty() || !flags.save_onnx.empty() ||
           !flags.save_adapter.empty() || !flags.save_merged.empty();
  }

  /// Writes all files, including the remaining ones after a failure. Propagates errors of
  /// SaveWeights, OnnxModel::WithWeights, SaveAdapter, SaveMerged, SaveModelFolder, SaveAdapterGguf
  /// and GgufExport::Write.
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
