#ifndef STOWAGE_TOOLS_MODEL_TEXT_H_
#define STOWAGE_TOOLS_MODEL_TEXT_H_

// What the files of a published model say of its texts beside the tokenizer: how
// conversations are written and what texts end with. Read as transformers reads them, from
// chat_template.jinja, tokenizer_config.json, special_tokens_map.json, config.json and
// generation_config.json, or from a GGUF file's header.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/weights_file.h"
#include "text/text.h"

namespace stowage::tools {

struct ModelText {
  /// Behind texts and completions: the tokenizer's eos_token, else the model's first
  /// eos_token_id, which may be beyond its vocabulary.
  std::optional<int32_t> end = {};
  std::string end_from = {};  // the file that says so
  /// Tokens that nothing is written after: all of these, and the token that the chat
  /// template has behind an answer.
  std::vector<int32_t> ends = {};
  /// How conversations are written; else why there is no template.
  std::optional<ChatTemplate> chat = {};
  std::string no_chat = {};
  std::string jinja = {};  // the template as the files have it, read or not
};

/// Reads it for a tokenizer that came from `tokenizer_path`. A template that cannot be read
/// is none, and `no_chat` says why. Errors: kIo; kInvalidArgument for a damaged file and
/// an eos_token that is no token of the tokenizer.
Result<ModelText> ReadModelText(const WeightsFile& weights,
                                const Tokenizer& tokenizer,
                                const std::string& tokenizer_path,
                                int64_t vocabulary);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_TEXT_H_
