#ifndef STOWAGE_TEXT_TOKENIZER_H_
#define STOWAGE_TEXT_TOKENIZER_H_

// Encodes text to tokens and decodes tokens to text, with the ids of PyPI's `tokenizers`.
// Models: byte pair encoding of bytes (GPT-2, Llama 3, Qwen) and of characters (Llama 2,
// Mistral, Gemma), unigram models (T5, XLM-R), WordPiece (BERT).
//
// Encoding finds added tokens in the text, normalizes the text between them, splits it into
// words, and applies the model to each word.
//
//   STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer, ReadTokenizer("tokenizer.json"));
//   STOWAGE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode("Once upon"));
//   STOWAGE_ASSIGN_OR_RETURN(std::string text, tokenizer.Decode(ids));
//
// docs/guides/tokens.md lists the supported tokenizers. A build without PCRE2 has none that splits
// by a pattern: the error names the package.

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

/// The upper bound of ids; the largest vocabularies have a few hundred thousand.
inline constexpr int32_t kMaxTokens = 1 << 20;
/// The upper bound of the ids of so many tokens: vocabularies have few unused ids, so that a
/// table by id stays as small as the tokens.
inline constexpr int32_t IdsOf(size_t tokens) {
  return tokens < static_cast<size_t>(kMaxTokens) / 2 - 512
             ? static_cast<int32_t>(2 * tokens + 1024)
             : kMaxTokens;
}

enum class TokenizerModel {
  kByteBpe,  // byte pair encoding of bytes, tokens in the byte alphabet
  kBpe,      // byte pair encoding of characters
  kUnigram,
  kWordPiece,
};

/// The parts of a tokenizer, independent of the file format.
struct TokenizerParts {
  // By id, "" for an unused one; of kByteBpe in the byte alphabet.
  std::vector<std::string> tokens = {};
  std::vector<std::string> merges = {};  // "left right", in order of priority
  std::vector<AddedToken> added =
      {};  // at ids of `tokens` that are equal or ""
  std::vector<PreTokenizerStep> pre_tokenizer = {};
  std::vector<NormalizerStep> normalizer = {};
  bool ignore_merges = false;        // a word that is a token becomes it
  std::vector<int32_t> prefix = {};  // before every text
  std::vector<int32_t> suffix = {};  // after every text
  std::optional<int32_t> unknown =
      std::nullopt;           // replaces text without a token
  bool fuse_unknown = false;  // one for a run of unknown units
  TokenizerModel model = TokenizerModel::kByteBpe;
  bool byte_fallback = false;  // unknown characters become "<0x0A>" and so on
  std::vector<DecoderStep> decoder = {};  // empty for kByteBpe
  // By id. kUnigram: log probabilities. kBpe without merges: the pair whose concatenation is
  // the token of the highest score is merged first.
  std::vector<double> scores = {};
  // kUnigram: sums are in 32 bits, else in 64.
  bool is_single = false;
  // kUnigram: an unknown character scores 10 less; absent: the least of all scores.
  std::optional<double> least_score = std::nullopt;
  // kWordPiece: the prefix of tokens that continue a word.
  std::string word_prefix = "##";
  // kWordPiece: longer words are unknown.
  int32_t max_word_characters = 100;
  // Ids that only added tokens produce, such as those of control tokens.
  std::vector<int32_t> apart = {};
};

struct EncodeOptions {
  // Whether special tokens in the text are tokens, or plain text.
  bool special = true;
  // Whether the tokenizer's prefix and suffix are added.
  bool add_prefix = true;
  // The token that the text continues, for example an answer after its prompt: no space is
  // prepended, unless it is an added token. Absent: the text is a whole one.
  std::optional<int32_t> after = std::nullopt;
  // If not null, receives the number of bytes of the normalized text without a token: unknown
  // or dropped.
  int64_t* without_token = nullptr;
};

struct DecodeOptions {
  bool skip_special = false;
};

class Tokenizer {
 public:
  /// Errors: kInvalidArgument for neither merges nor scores, scores or ids that do not match
  /// the tokens, an added token that is not UTF-8; those of Bpe, Normalizer, PreTokenizer and
  /// CheckDecoder.
  static Result<Tokenizer> Create(TokenizerParts parts);

  /// The tokens of `text`. Ill-formed UTF-8 counts as U+FFFD (text::WellFormed); text without
  /// a token is dropped if there is no unknown token. About linear; thread-safe. Error
  /// kInvalidArgument if a pattern of the tokenizer takes too many steps, or the normalizer
  /// makes the text hundreds of times as long.
  Result<std::vector<int32_t>> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  /// The number of tokens that Encode returns.
  Result<int64_t> Count(std::string_view text,
                        const EncodeOptions& options = {}) const;

  /// The text of the tokens; that of a part of them may be ill-formed UTF-8. Errors:
  /// kInvalidArgument for an unused id; those of text::Decode.
  Result<std::string> Decode(std::span<const int32_t> ids,
                             const DecodeOptions& options = {}) const;

  /// The tokens that Encode adds before and after every text.
  std::span<const int32_t> prefix() const;
  std::span<const int32_t> suffix() const;

  /// One more than the largest id.
  int32_t size() const;
  /// The ids below size() without a token. Linear.
  std::vector<int32_t> unused() const;
  /// A hash of all parts, independent of the file format: tokenizers with one digest encode
  /// and decode alike (base/hash.h).
  uint64_t digest() const;
  /// The token that replaces text without a token.
  std::optional<int32_t> unknown() const;
  /// The id of an added token, such as "<|im_end|>".
  std::optional<int32_t> FindAdded(std::string_view text) const;

 private:
  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data)
      : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_H_
