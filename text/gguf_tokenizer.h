#ifndef STOWAGE_TEXT_GGUF_TOKENIZER_H_
#define STOWAGE_TEXT_GGUF_TOKENIZER_H_

// The tokenizer that a GGUF file holds beside its weights: tokens, and merges or scores, as
// lists, and the rest by a name for which llama.cpp knows what it stands for.
//
//   STOWAGE_ASSIGN_OR_RETURN(GgufTokenizer gguf, GgufTokenizerOf(header));
//   STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(std::move(gguf)));
//
// ReadTokenizer (text/tokenizer_file.h) does this with a file.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"
#include "text/tokenizer.h"

namespace stowage {

/// What GGUF files hold of a tokenizer, in their own numbers and names.
struct GgufTokenizer {
  std::vector<std::string> tokens = {};  // tokenizer.ggml.tokens
  // .token_type: 1 is normal, 2 unknown, 3 special, 4 added, 5 unused, 6 a byte
  std::vector<int32_t> token_types = {};
  std::vector<std::string> merges = {};  // .merges
  std::string pre = {};  // .pre, a name that PreTokenizerSteps knows
  std::optional<int32_t> bos = std::nullopt;  // .bos_token_id
  std::optional<bool> add_bos =
      std::nullopt;  // .add_bos_token; llama and llama-bpe add it by default
  std::optional<int32_t> eos =
      std::nullopt;      // .eos_token_id, where it is added
  bool add_eos = false;  // .add_eos_token; t5 adds it by default
  // .model: gpt2 has merges and pre; llama and t5, which are SentencePiece's byte pair
  // encoding and unigram models, scores
  std::string model = "gpt2";
  std::vector<double> scores = {};  // .scores
  bool add_space = true;            // .add_space_prefix, before a text
  bool collapse_spaces = false;     // .remove_extra_whitespaces, of t5
  std::string charsmap = {};        // .precompiled_charsmap, of t5
};

/// What a header says of it. Errors: kUnsupported where `tokenizer.ggml.model` is neither
/// gpt2, which is byte-level byte pair encoding, nor llama
/// nor t5; kNotFound and kInvalidArgument, as
/// GgufHeader's, for what is not there or something else; kInvalidArgument for types and
/// ids that 32 bits do not hold.
Result<GgufTokenizer> GgufTokenizerOf(const GgufHeader& header);

/// The parts of a GGUF file's tokenizer, with the steps and the normalization that its
/// name stands for. Errors: kUnsupported: an unknown name or type; kInvalidArgument: another
/// number of types or scores than of tokens, a bos or an eos that is to be added and is none.
Result<TokenizerParts> PartsOf(GgufTokenizer gguf);

}  // namespace stowage

#endif  // STOWAGE_TEXT_GGUF_TOKENIZER_H_
