#ifndef STOWAGE_TEXT_TOKENIZER_H_
#define STOWAGE_TEXT_TOKENIZER_H_

// Text to tokens and back, with the ids that PyPI's `tokenizers` gives: byte pair encoding
// of bytes, as GPT-2, Llama 3 and Qwen have it, and of characters, as Llama 2, Mistral and
// Gemma; unigram models, as T5 and XLM-R; and
// WordPiece, as BERT.
//
// A text goes through parts: added tokens are found in it, what is between them is
// normalized and cut into words, and the model makes tokens of each word.
//
//   STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer, ReadTokenizer("tokenizer.json"));
//   STOWAGE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode("Once upon"));
//   STOWAGE_ASSIGN_OR_RETURN(std::string text, tokenizer.Decode(ids));
//
// docs/tokens.md tells what is read and what is not. A build without PCRE2 makes no
// tokenizer: the error names the package.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/decoder.h"        // IWYU pragma: export
#include "text/normalizer.h"     // IWYU pragma: export
#include "text/pre_tokenizer.h"  // IWYU pragma: export
#include "text/vocabulary.h"     // IWYU pragma: export

namespace stowage {

/// Ids are below this; the largest vocabularies have a few hundred thousand.
inline constexpr int32_t kMaxTokens = 1 << 20;
/// The ids of so many tokens are below this: vocabularies have few gaps, and a table by
/// id takes no more than the tokens do.
inline constexpr int32_t IdsOf(size_t tokens) {
  return tokens < static_cast<size_t>(kMaxTokens) / 2 - 512
             ? static_cast<int32_t>(2 * tokens + 1024)
             : kMaxTokens;
}

enum class TokenizerModel {
  kByteBpe,  // byte pair encoding of bytes, tokens in the byte alphabet
  kBpe,      // of characters
  kUnigram,
  kWordPiece,
};

/// What a tokenizer consists of, however a file says it.
struct TokenizerParts {
  std::vector<std::string> tokens =
      {};  // by id, in the byte alphabet where there is one; "": none
  std::vector<std::string> merges = {};  // "left right", the first merged first
  std::vector<AddedToken> added = {};    // may be tokens besides, or replace ""
  std::vector<PreTokenizerStep> pre_tokenizer = {};
  std::vector<NormalizerStep> normalizer = {};
  bool ignore_merges = false;        // a word that is a token is that token
  std::vector<int32_t> prefix = {};  // of every text
  std::vector<int32_t> suffix = {};
  std::optional<int32_t> unknown =
      std::nullopt;           // in place of what has no token
  bool fuse_unknown = false;  // one in place of several in a row
  TokenizerModel model = TokenizerModel::kByteBpe;
  bool byte_fallback =
      false;  // "<0x0A>" and so on in place of unknown characters
  std::vector<DecoderStep> decoder = {};  // of kByteBpe: none
  // By id: of kUnigram, logarithms of probabilities; of kBpe in place of merges: of the
  // pairs that together are a token, that of the highest score is merged first.
  std::vector<double> scores = {};
  bool is_single = false;  // of kUnigram: sums have 32 bits, else 64
  // Of kUnigram: an unknown character has 10 less; nothing: the least of all.
  std::optional<double> least_score = std::nullopt;
  std::string word_prefix =
      "##";  // of kWordPiece: tokens that go on with a word
  int32_t max_word_characters = 100;  // of kWordPiece: longer words are unknown
  // Ids that no text becomes but by added tokens, as those of control tokens.
  std::vector<int32_t> apart = {};
};

struct EncodeOptions {
  // Whether special tokens in the text are tokens, or text like any other.
  bool special = true;
  // Whether what the tokenizer puts before and after every text is added.
  bool add_prefix = true;
  // The token that the text goes on from, as an answer from its prompt: no space is put
  // before it then, unless that is an added token. Nothing: the text is a whole one.
  std::optional<int32_t> after = std::nullopt;
  // Where the bytes of the text, as the tokenizer normalizes it, that no token stands for
  // are counted, if it is not null: unknown tokens, and what is left out.
  int64_t* without_token = nullptr;
};

struct DecodeOptions {
  bool skip_special = false;
};

class Tokenizer {
 public:
  /// Errors: kInvalidArgument: no merges and no scores, scores or ids that do not fit the
  /// tokens, an added token that is no UTF-8, and what Bpe, Normalizer, PreTokenizer and
  /// CheckDecoder refuse; kUnsupported, as theirs.
  static Result<Tokenizer> Create(TokenizerParts parts);

  /// The tokens of `text`. Bytes that are no UTF-8 count as U+FFFD, as WellFormed has
  /// it; what has no token is left out where there is no unknown token. About
  /// linear. May be called by several threads at once. Error kInvalidArgument where a
  /// pattern of the tokenizer's file takes too many steps, or its normalizer makes a text
  /// hundreds of times as long.
  Result<std::vector<int32_t>> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  /// How many tokens Encode gives.
  Result<int64_t> Count(std::string_view text,
                        const EncodeOptions& options = {}) const;

  /// The bytes that the tokens stand for: those of a single token may be no UTF-8.
  /// Error kInvalidArgument for an id that has no token, or as text::Decode.
  Result<std::string> Decode(std::span<const int32_t> ids,
                             const DecodeOptions& options = {}) const;

  /// What Encode adds before and after every text.
  std::span<const int32_t> prefix() const;
  std::span<const int32_t> suffix() const;

  /// One more than the largest id.
  int32_t size() const;
  /// Ids below it that are no tokens, which files may leave out. Linear.
  std::vector<int32_t> unused() const;
  /// Of all that it consists of, however a file says it: two tokenizers with one digest
  /// make the same tokens of a text, and the same text of tokens (base/hash.h).
  uint64_t digest() const;
  /// The token in place of what has none.
  std::optional<int32_t> unknown() const;
  /// The id of an added token, as "<|im_end|>".
  std::optional<int32_t> FindAdded(std::string_view text) const;

 private:
  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data)
      : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_H_
