#include "tools/model_exports.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "nn/gguf_form.h"
#include "runtime/checkpoint.h"
#include "runtime/weights.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer_file.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

bool IsGgufPath(std::string_view path) {
  return EndsWithAnyCase(path, ".gguf");
}

// Whether the model is saved as a folder.
bool IsFolder(const StepSpec& spec) {
  return spec.tuning && (spec.tuning->classifies() || spec.tuning->embeds());
}

// Checks that a file of weights is not named like another format. Models may be GGUF files.
Status CheckWeightsName(std::string_view option, const std::string& path,
                        bool may_be_npz) {
  if (!may_be_npz && IsGgufPath(path)) return {};
  constexpr std::string_view kOthers[] = {".npy",  ".pt",   ".pth", ".bin",
                                          ".onnx", ".gguf", ".h5",  ".npz"};
  const auto ending =
      std::ranges::find_if(kOthers, [&](std::string_view other) {
        return EndsWithAnyCase(path, other) && !(may_be_npz && other == ".npz");
      });
  if (ending == std::end(kOthers)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[", option, "] ", Quoted(path), " ends in ", *ending,
             ", and safetensors are written, or ",
             may_be_npz ? "an NPZ" : "GGUF", "; call it .safetensors or ",
             may_be_npz ? ".npz" : ".gguf")};
}

// Checks that a model which classifies or embeds texts is saved in folders.
Status CheckFolderPaths(const TrainFlags& flags, const StepSpec& spec) {
  if (!IsFolder(spec)) return {};
  for (const auto& [option, path] :
       {std::pair("save-merged", flags.save_merged),
        std::pair("save-adapter", flags.save_adapter)}) {
    for (const std::string_view ending : {".gguf", ".safetensors"}) {
      if (!EndsWithAnyCase(path, ending)) continue;
      return Error{ErrorCode::kUnsupported,
                   StrCat("[", option, "] ", Quoted(path), " ends in ", ending,
                          ", and of a ",
                          spec.tuning->classifies() ? "classifier"
                                                    : "model that embeds texts",
                          " a folder is written; give the name of one")};
    }
  }
  return {};
}

// The keys of the tokenizer; empty if the base has them already.
Result<GgufMetadata> TokenizerKeysFor(const TrainFlags& flags,
                                      const Tuning& tuning) {
  const GgufHeader* const header = tuning.model.base().file().gguf();
  if (header != nullptr && header->Find("tokenizer.ggml.model") != nullptr) {
    return GgufMetadata();
  }
  return GgufTokenizerKeys(
      flags.tokenizer.empty() ? flags.weights : flags.tokenizer,
      {.vocabulary = tuning.model.base().vocabulary(),
       .chat_template = tuning.jinja});
}

}  // namespace

std::string AdapterFolderOf(const TrainFlags& flags) {
  return IsGgufPath(flags.save_adapter) ? "" : flags.save_adapter;
}

std::string ModelFolderOf(const TrainFlags& flags, const StepSpec& spec) {
  return IsFolder(spec) ? flags.save_merged : "";
}

Status ModelExports::CheckNames(const TrainFlags& flags, const StepSpec& spec) {
  STOWAGE_RETURN_IF_ERROR(
      CheckWeightsName("save-weights", flags.save_weights, true));
  STOWAGE_RETURN_IF_ERROR(
      CheckWeightsName("save-merged", flags.save_merged, false));
  return CheckFolderPaths(flags, spec);
}

Result<ModelExports> ModelExports::Open(const TrainFlags& flags,
                                        const StepSpec& spec) {
  ModelExports exports;
  if (!flags.save_weights.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(exports.weights_,
                             OutputFile::Claim(flags.save_weights));
  }
  if (!flags.save_onnx.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(exports.onnx_, OutputFile::Claim(flags.save_onnx));
  }
  const std::string adapter_folder = AdapterFolderOf(flags);
  const std::string model_folder = ModelFolderOf(flags, spec);
  if (!adapter_folder.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(exports.adapter_,
                             AdapterFiles::Claim(adapter_folder));
  }
  STOWAGE_RETURN_IF_ERROR(exports.OpenGguf(flags, spec.tuning.get()));
  if (!model_folder.empty()) {
    const PretrainedModel& base = spec.tuning->model.base();
    std::vector<FileText> settings;
    if (base.embeds()) {
      settings = SentenceTransformerFiles(spec.tuning->sentence_transformer,
                                          base.width());
    }
    STOWAGE_ASSIGN_OR_RETURN(
        exports.folder_,
        ModelFolder::Claim(
            model_folder, base,
            TokenizerFileOf(flags.tokenizer.empty() ? flags.weights
                                                    : flags.tokenizer),
            settings));
  } else if (!flags.save_merged.empty() && !IsGgufPath(flags.save_merged)) {
    STOWAGE_ASSIGN_OR_RETURN(exports.merged_,
                             OutputFile::Claim(flags.save_merged));
  }
  return exports;
}

Status ModelExports::OpenGguf(const TrainFlags& flags, const Tuning* tuning) {
  const bool has_merged = IsGgufPath(flags.save_merged);
  if (!flags.merged_type.empty() && !has_merged) {
    return InvalidArgumentError(
        "[merged-type] ", flags.merged_type,
        " is for a GGUF file, and --save-merged is ",
        flags.save_merged.empty() ? "not given" : Quoted(flags.save_merged),
        "; give a name that ends in .gguf");
  }
  if (IsGgufPath(flags.save_adapter)) {
    STOWAGE_CHECK(tuning != nullptr);
    STOWAGE_RETURN_IF_ERROR(CheckGgufAdapter(tuning->model));
    STOWAGE_ASSIGN_OR_RETURN(adapter_gguf_,
                             OutputFile::Claim(flags.save_adapter));
  }
  if (!has_merged) return {};
  STOWAGE_CHECK(tuning != nullptr);
  std::optional<GgufMix> mix;
  if (!flags.merged_type.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(mix, ParseGgufMix(flags.merged_type));
  }
  STOWAGE_ASSIGN_OR_RETURN(merged_gguf_, OutputFile::Claim(flags.save_merged));
  STOWAGE_ASSIGN_OR_RETURN(const GgufMetadata tokenizer,
                           TokenizerKeysFor(flags, *tuning));
  STOWAGE_ASSIGN_OR_RETURN(gguf_,
                           GgufExport::Plan(tuning->model, mix, tokenizer));
  return {};
}

Status ModelExports::SaveOnnx(const Runner& runner,
                              const StepSpec& spec) const {
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string bytes,
      spec.onnx->WithWeights(runner.graph(), [&](NamedArray& weight) {
        return runner.ReadBytes(weight.name, weight.array.type.dtype,
                                weight.array.data());
      }));
  return onnx_->Replace(bytes);
}

Status ModelExports::Save(const Runner& runner, const StepSpec& spec) const {
  Status all;
  if (weights_) all = Both(all, SaveWeights(runner, *weights_));
  if (onnx_) all = Both(all, SaveOnnx(runner, spec));
  if (!spec.tuning) return all;
  const FineTuning& tuned = spec.tuning->model;
  if (adapter_) all = Both(all, SaveAdapter(tuned, runner, *adapter_));
  if (merged_) all = Both(all, SaveMerged(tuned, runner, *merged_));
  if (folder_) all = Both(all, SaveModelFolder(tuned, runner, *folder_));
  if (adapter_gguf_) {
    all = Both(all, SaveAdapterGguf(tuned, runner, *adapter_gguf_));
  }
  if (gguf_) all = Both(all, gguf_->Write(tuned, runner, *merged_gguf_));
  return all;
}

}  // namespace stowage::tools
