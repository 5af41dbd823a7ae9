#ifndef STOWAGE_TEXT_GGUF_TOKENIZER_H_
#define STOWAGE_TEXT_GGUF_TOKENIZER_H_

// Reads and writes the tokenizer in a GGUF file. The file lists the tokens and their merges or
// scores. For the pre-tokenizer and the normalizer, it has only a name, which llama.cpp defines.
//
//   STOWAGE_ASSIGN_OR_RETURN(GgufTokenizer gguf, GgufTokenizerOf(header));
//   STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(std::move(gguf)));
//
// ReadTokenizer (text/tokenizer_file.h) does this for a file. In the other direction,
// GgufTokenizerKeys returns the GGUF keys of a Hugging Face tokenizer, if llama.cpp defines a name
// for its pre-tokenizer and normalizer:
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       const GgufMetadata keys,
//       GgufTokenizerKeys("SmolLM2-135M", {.vocabulary = 49152, .chat_template = jinja}));

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "text/tokenizer.h"

namespace stowage {

/// The values of the keys below tokenizer.ggml, as in the file.
struct GgufTokenizer {
  std::vector<std::string> tokens = {};  // tokenizer.ggml.tokens
  // .token_type: 1 is normal, 2 unknown, 3 special, 4 added, 5 unused, 6 a byte.
  std::vector<int32_t> token_types = {};
  std::vector<std::string> merges = {};  // .merges
  std::string pre = {};  // .pre, a name accepted by PreTokenizerSteps
  std::optional<int32_t> bos = std::nullopt;  // .bos_token_id
  // .add_bos_token. If absent, bos is added for the model llama and for the pre-tokenizers for
  // which IgnoresMerges is true.
  std::optional<bool> add_bos = std::nullopt;
  std::optional<int32_t> eos = std::nullopt;  // .eos_token_id, if it is added
  bool add_eos = false;  // .add_eos_token, true by default for t5
  // .model. gpt2 has merges and `pre`. llama and t5, which are byte pair encoding and unigram
  // models of SentencePiece, have scores.
  std::string model = "gpt2";
  std::vector<double> scores = {};  // .scores
  bool add_space = true;            // .add_space_prefix, before a text
  bool collapse_spaces = false;     // .remove_extra_whitespaces, of t5
  std::string charsmap = {};        // .precompiled_charsmap, of t5
};

/// Reads the tokenizer keys of a header. Returns kUnsupported unless `tokenizer.ggml.model` is gpt2
/// (byte-level byte pair encoding), llama or t5. Returns kNotFound for missing keys, and
/// kInvalidArgument for values of another type and for token types and ids that are negative or
/// above 2^31 - 1.
Result<GgufTokenizer> GgufTokenizerOf(const GgufHeader& header);

/// Returns the parts of the tokenizer (text/tokenizer.h), with the pre-tokenizer and the normalizer
/// that `pre` names. Returns kUnsupported for an unknown name or token type. Returns
/// kInvalidArgument if the numbers of types, scores and tokens differ, or if a bos or eos token
/// that must be added has no id.
Result<TokenizerParts> PartsOf(GgufTokenizer gguf);

struct GgufTokenizerContext {
  /// The size of the model's vocabulary. Ids below it that have no token become unused tokens.
  int64_t vocabulary = 0;
  std::string_view chat_template = {};  // "" for none
};

/// Returns the keys tokenizer.ggml.* and tokenizer.chat_template for the tokenizer that
/// ReadTokenizer reads from `path`. Converts byte-level byte pair encoding from tokenizer.json, and
/// SentencePiece's byte pair encoding from tokenizer.model, also if `path` is a tokenizer.json in
/// the same folder. Copies the keys if `path` is a GGUF file. Special tokens are read from the
/// tokenizer, and from tokenizer_config.json, special_tokens_map.json and config.json in the same
/// folder. Errors name the file. Returns kUnsupported for a tokenizer that GGUF cannot express:
/// another model, a pre-tokenizer or normalizer without a name in llama.cpp, or tokens other than
/// bos and eos that are added to every text. Propagates errors of reading the files.
Result<GgufMetadata> GgufTokenizerKeys(const std::string& path,
                                       const GgufTokenizerContext& context);

}  // namespace stowage

#endif  // STOWAGE_TEXT_GGUF_TOKENIZER_H_
