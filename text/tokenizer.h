#ifndef STOWAGE_TEXT_TOKENIZER_H_
#define STOWAGE_TEXT_TOKENIZER_H_

// Encodes text to tokens and decodes tokens to text. The ids are those of PyPI's `tokenizers`. The
// supported models are byte pair encoding of bytes (GPT-2, Llama 3, Qwen) and of characters (Llama
// 2, Mistral, Gemma), unigram models (T5, XLM-R), and WordPiece (BERT).
//
// Encoding finds added tokens in the text, normalizes the text between them, splits it into
// words, and applies the model to each word.
//
//   STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer, ReadTokenizer("tokenizer.json"));
//   STOWAGE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode("Once upon"));
//   STOWAGE_ASSIGN_OR_RETURN(std::string text, tokenizer.Decode(ids));
//
// docs/guides/tokens.md lists the supported tokenizers. A build without PCRE2 does not support
// tokenizers that split text with a regular expression. The error names the package to install.

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

/// The exclusive upper bound of token ids. The largest known vocabularies have a few hundred
/// thousand ids.
inline constexpr int32_t kMaxTokens = 1 << 20;
/// Returns the exclusive upper bound of ids for a vocabulary of this number of tokens. Vocabularies
/// have few unused ids, so the bound excludes only invalid files, and limits the size of tables
/// that are indexed by id.
inline constexpr int32_t IdsOf(size_t tokens) {
  return tokens < static_cast<size_t>(kMaxTokens) / 2 - 512
             ? static_cast<int32_t>(2 * tokens + 1024)
             : kMaxTokens;
}

enum class TokenizerModel {
  kByteBpe,  // byte pair encoding of bytes; tokens are in the byte alphabet
  kBpe,      // byte pair encoding of characters
  kUnigram,
  kWordPiece,
};

/// The data of a tokenizer, independent of the file format.
struct TokenizerParts {
  // Indexed by id, with "" for an unused id. For kByteBpe, tokens are in the byte alphabet.
  std::vector<std::string> tokens = {};
  std::vector<std::string> merges = {};  // "left right", in order of priority
  std::vector<AddedToken> added =
      {};  // their ids are new, or have the same text or "" in `tokens`
  std::vector<PreTokenizerStep> pre_tokenizer = {};
  std::vector<NormalizerStep> normalizer = {};
  bool ignore_merges = false;        // a word that is a token is not split
  std::vector<int32_t> prefix = {};  // before every text
  std::vector<int32_t> suffix = {};  // after every text
  std::optional<int32_t> unknown =
      std::nullopt;           // replaces text without a token
  bool fuse_unknown = false;  // one token for a run of unknown units
  TokenizerModel model = TokenizerModel::kByteBpe;
  bool byte_fallback = false;  // unknown characters become "<0x0A>" and so on
  std::vector<DecoderStep> decoder = {};  // empty for kByteBpe
  // Indexed by id. For kUnigram, these are log probabilities. For kBpe, the pair whose
  // concatenation is the token with the highest score is merged first, and `merges` is not used.
  // May be empty for the other models, and for kBpe with merges.
  std::vector<double> scores = {};
  // For kUnigram: whether sums of scores are computed in 32 bits instead of 64 bits.
  bool is_single = false;
  // For kUnigram: the score of a character without a token is this value minus 10. If absent, it is
  // the lowest of all scores minus 10.
  std::optional<double> least_score = std::nullopt;
  // For kWordPiece: the prefix of tokens that continue a word.
  std::string word_prefix = "##";
  // For kWordPiece: words of more characters are unknown.
  int32_t max_word_characters = 100;
  // Ids that Encode produces only for added tokens, such as the ids of control tokens.
  std::vector<int32_t> apart = {};
};

struct EncodeOptions {
  // Whether the text of a special token, such as "<s>", becomes this token. If false, it is encoded
  // like other text. Other added tokens always become tokens.
  bool special = true;
  // Whether to add the tokenizer's prefix and suffix.
  bool add_prefix = true;
  // The last token of the text that `text` continues, for example of a prompt before an answer. The
  // tokenizer then does not prepend a space, unless this token is an added token. If absent, `text`
  // is a whole text.
  std::optional<int32_t> after = std::nullopt;
  // If not null, Encode adds to it the number of bytes of the normalized text that have no token.
  // These bytes are dropped or encoded as the unknown token.
  int64_t* without_token = nullptr;
};

struct DecodeOptions {
  bool skip_special = false;
};

class Tokenizer {
 public:
  /// Creates a tokenizer. Returns kInvalidArgument if there are more than kMaxTokens tokens, if the
  /// model requires merges or scores and has none, if scores or ids do not match the tokens, or if
  /// an added token is empty or not UTF-8. Returns kUnsupported if an added token becomes "" when
  /// it is normalized. Propagates errors of Bpe, Unigram, WordPiece, Normalizer, PreTokenizer and
  /// CheckDecoder.
  static Result<Tokenizer> Create(TokenizerParts parts);

  /// Returns the tokens of `text`. Ill-formed UTF-8 is first replaced by U+FFFD (text::WellFormed).
  /// Text without a token is dropped if there is no unknown token. Takes time that is about linear
  /// in the length of `text`. May be called from several threads. Propagates errors of
  /// text::Normalizer::Run and text::PreTokenizer::ForEachWord, such as kInvalidArgument if the
  /// search for a regular expression exceeds its limits.
  Result<std::vector<int32_t>> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  /// Returns the number of tokens that Encode returns.
  Result<int64_t> Count(std::string_view text,
                        const EncodeOptions& options = {}) const;

  /// Returns the text of the tokens. Some of the tokens of a text may decode to ill-formed UTF-8,
  /// since a token may end within a character. Returns kInvalidArgument for an id that has no
  /// token. Propagates errors of text::Decode.
  Result<std::string> Decode(std::span<const int32_t> ids,
                             const DecodeOptions& options = {}) const;

  /// prefix returns the tokens that Encode adds before every text, and suffix the tokens that it
  /// adds after every text.
  std::span<const int32_t> prefix() const;
  std::span<const int32_t> suffix() const;

  /// Returns the largest id plus one.
  int32_t size() const;
  /// Returns the ids below size() that have no token. Linear in size().
  std::vector<int32_t> unused() const;
  /// Returns a hash of the TokenizerParts (base/hash.h). Tokenizers with the same digest encode and
  /// decode identically, unless hashes collide.
  uint64_t digest() const;
  /// Returns the id of the token that replaces text without a token, or nullopt if such text is
  /// dropped.
  std::optional<int32_t> unknown() const;
  /// Returns the id of the added token `text`, such as "<|im_end|>", or nullopt if there is no such
  /// token.
  std::optional<int32_t> FindAdded(std::string_view text) const;

 private:
  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data)
      : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_H_
