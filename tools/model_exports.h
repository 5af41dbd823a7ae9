#ifndef STOWAGE_TOOLS_MODEL_EXPORTS_H_
#define STOWAGE_TOOLS_MODEL_EXPORTS_H_

// Writes the weights and adapters of a training command for other programs, in addition to its
// checkpoints. The options are --save-weights, --save-onnx, --save-adapter and --save-merged. The
// formats are safetensors, ONNX, folders of PEFT and transformers, and GGUF. Before the first step,
// all files are claimed, and a model that a format cannot represent is reported.
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
  /// Creates an object that writes nothing.
  ModelExports() = default;

  /// Returns kInvalidArgument or kUnsupported if the name of an output implies a format that the
  /// option, or the model of `spec`, does not support.
  static Status CheckNames(const TrainFlags& flags, const StepSpec& spec);

  /// Claims the files that `flags` request. Propagates errors of OutputFile::Claim,
  /// AdapterFiles::Claim, ModelFolder::Claim, ParseGgufMix, GgufTokenizerKeys, GgufExport::Plan and
  /// CheckGgufAdapter. Returns kInvalidArgument if --merged-type is given and --save-merged is not
  /// a GGUF file.
  static Result<ModelExports> Open(const TrainFlags& flags,
                                   const StepSpec& spec);

  /// Returns whether `flags` request any of these files.
  static bool AreWanted(const TrainFlags& flags) {
    return !flags.save_weights.empty() || !flags.save_onnx.empty() ||
           !flags.save_adapter.empty() || !flags.save_merged.empty();
  }

  /// Writes all files. If writing a file fails, still writes the others, and returns the errors.
  /// Propagates errors of SaveWeights, OnnxModel::WithWeights, SaveAdapter, SaveMerged,
  /// SaveModelFolder, SaveAdapterGguf and GgufExport::Write.
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
