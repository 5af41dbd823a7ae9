#include "tools/gguf_output.h"

#include <string>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "nn/gguf_form.h"
#include "text/gguf_tokenizer.h"

namespace stowage::tools {
namespace {

// Those of the base stay; a base without any gets those of its tokenizer.
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

bool IsGgufPath(std::string_view path) {
  return EndsWithAnyCase(path, ".gguf");
}

Result<GgufOutput> GgufOutput::Open(const TrainFlags& flags,
                                    const Tuning* tuning) {
  GgufOutput output;
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
    STOWAGE_ASSIGN_OR_RETURN(output.adapter_file_,
                             OutputFile::Claim(flags.save_adapter));
  }
  if (!has_merged) return output;
  STOWAGE_CHECK(tuning != nullptr);
  std::optional<GgufMix> mix;
  if (!flags.merged_type.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(mix, ParseGgufMix(flags.merged_type));
  }
  STOWAGE_ASSIGN_OR_RETURN(output.merged_file_,
                           OutputFile::Claim(flags.save_merged));
  STOWAGE_ASSIGN_OR_RETURN(const GgufMetadata tokenizer,
                           TokenizerKeysFor(flags, *tuning));
  STOWAGE_ASSIGN_OR_RETURN(output.merged_,
                           GgufExport::Plan(tuning->model, mix, tokenizer));
  return output;
}

Status GgufOutput::SaveAdapter(const Tuning& tuning,
                               const Runner& runner) const {
  if (!adapter_file_) return {};
  return SaveAdapterGguf(tuning.model, runner, *adapter_file_);
}

Status GgufOutput::SaveMerged(const Tuning& tuning,
                              const Runner& runner) const {
  if (!merged_) return {};
  return merged_->Write(tuning.model, runner, *merged_file_);
}

}  // namespace stowage::tools
