#ifndef STOWAGE_TEXT_GGUF_TOKENIZER_H_
#define STOWAGE_TEXT_GGUF_TOKENIZER_H_

// The tokenizer in a GGUF file: tokens and merges or scores as lists, and the pre-tokenizer
// and normalizer by a name that llama.cpp defines.
//
//   STOWAGE_ASSIGN_OR_RETURN(GgufTokenizer gguf, GgufTokenizerOf(header));
//   STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(std::move(gguf)));
//
// ReadTokenizer (text/tokenizer_file.h) does this for a file. GgufTokenizerKeys writes the
// keys of a Hugging Face tokenizer, if GGUF has a name for its pre-tokenizer and normalizer:
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

/// The keys below tokenizer.ggml, with the numbers and names of the file.
struct GgufTokenizer {
  std::vector<std::string> tokens = {};  // tokenizer.ggml.tokens
  // .token_type: 1 is normal, 2 unknown, 3 special, 4 added, 5 unused, 6 a byte
  std::vector<int32_t> token_types = {};
  std::vector<std::string> merges = {};  // .merges
  std::string pre = {};  // .pre, a name that PreTokenizerSteps knows
  std::optional<int32_t> bos = std::nullopt;  // .bos_token_id
  // .add_bos_token; llama and llama-bpe add it by default
  std::optional<bool> add_bos = std::nullopt;
  std::optional<int32_t> eos = std::nullopt;  // .eos_token_id, if it is added
  bool add_eos = false;  // .add_eos_token; t5 adds it by default
  // .model: gpt2 has merges and pre; llama and t5, SentencePiece's byte pair encoding and
  // unigram models, have scores
  std::string model = "gpt2";
  std::vector<double> scores = {};  // .scores
  bool add_space = true;            // .add_space_prefix, before a text
  bool collapse_spaces = false;     // .remove_extra_whitespaces, of t5
  std::string charsmap = {};        // .precompiled_charsmap, of t5
};

/// Reads the keys of a header. Errors: kUnsupported if `tokenizer.ggml.model` is not gpt2
/// (byte-level byte pair encoding), llama or t5; GgufHeader's kNotFound and kInvalidArgument
/// for keys that are missing or of another type; kInvalidArgument for types and ids beyond
/// 32 bits.
Result<GgufTokenizer> GgufTokenizerOf(const GgufHeader& header);

/// The parts of the tokenizer, with the pre-tokenizer and the normalization of its name.
/// Errors: kUnsupported for an unknown name or type; kInvalidArgument if the numbers of
/// types, scores and tokens differ, and for a bos or eos to add that is no token.
Result<TokenizerParts> PartsOf(GgufTokenizer gguf);

struct GgufTokenizerContext {
  /// Size of the model's vocabulary: ids without a token become unused tokens.
  int64_t vocabulary = 0;
  std::string_view chat_template = {};  // "" for none
};

/// The keys of the tokenizer that ReadTokenizer reads from `path`: tokenizer.ggml.* and
/// tokenizer.chat_template. Reads byte-level byte pair encoding from tokenizer.json, byte pair
/// encoding from SentencePiece's tokenizer.model, and copies the keys of a GGUF file. Special
/// tokens are those of the tokenizer, and of tokenizer_config.json, special_tokens_map.json
/// and config.json beside it. Errors, with the file's name: kUnsupported for a part that GGUF
/// cannot express: another model, a pre-tokenizer or normalizer without a name, a text that
/// begins or ends with other tokens than bos and eos; those of reading the files.
Result<GgufMetadata> GgufTokenizerKeys(const std::string& path,
                                       const GgufTokenizerContext& context);

}  // namespace stowage

#endif  // STOWAGE_TEXT_GGUF_TOKENIZER_H_
