#ifndef STOWAGE_TEXT_GGUF_TOKENIZER_KEYS_H_
#define STOWAGE_TEXT_GGUF_TOKENIZER_KEYS_H_

// A tokenizer of Hugging Face's as the keys of a GGUF file, which text/gguf_tokenizer.h
// reads back: "tokenizer.ggml.model" and so on, and "tokenizer.chat_template".
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       const GgufMetadata keys,
//       GgufTokenizerKeys("SmolLM2-135M", {.vocabulary = 49152, .chat_template = jinja}));
//
// GGUF files say how texts are cut into words by a name, and how characters are normalized
// not at all. A tokenizer for which there is no such name has no form there.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "formats/gguf.h"

namespace stowage {

struct GgufTokenizerContext {
  /// Tokens of the model: ids that the tokenizer leaves out become unused tokens.
  int64_t vocabulary = 0;
  std::string_view chat_template = {};  // none: ""
};

/// The keys of the tokenizer that ReadTokenizer reads of `path` (text/tokenizer_file.h):
/// byte-level byte pair encoding from tokenizer.json, byte pair encoding from SentencePiece's
/// tokenizer.model, beside a tokenizer.json too, and those of a GGUF file as they are. What
/// begins and ends texts, and special tokens, are those of the tokenizer, of
/// tokenizer_config.json, special_tokens_map.json and config.json beside it. Errors, with the
/// file's name: kUnsupported, naming it, for a part that GGUF files cannot say: another model,
/// a pre-tokenizer or a normalizer without a name there, texts that begin or end with anything
/// but bos and eos; those of reading the files.
Result<GgufMetadata> GgufTokenizerKeys(const std::string& path,
                                       const GgufTokenizerContext& context);

}  // namespace stowage

#endif  // STOWAGE_TEXT_GGUF_TOKENIZER_KEYS_H_
