#ifndef STOWAGE_TEXT_PIECE_MODELS_H_
#define STOWAGE_TEXT_PIECE_MODELS_H_

// Provides two models that split words into tokens: Unigram and WordPiece.
//
// Unigram (T. Kudo, 2018; T5, ALBERT, XLM-R): each token has a log probability. A word is split
// into the tokens with the largest sum, which the Viterbi algorithm finds.
//
//   STOWAGE_ASSIGN_OR_RETURN(Unigram unigram,
//                            Unigram::Create(tokens, scores, {.unknown = 2}));
//   unigram.Encode("▁the", &ids);
//
// WordPiece (Y. Wu et al., 2016; BERT): the first token of a word is the longest token that is a
// prefix of the word. Each further token, such as "##ing", is the longest one that continues the
// word. If a word cannot be split in this manner, the whole word becomes the unknown token.
//
//   STOWAGE_ASSIGN_OR_RETURN(WordPiece pieces,
//                            WordPiece::Create(tokens, {.unknown = 1}));
//   pieces.Encode("embedding", &ids);

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace stowage::text {

/// The maximum length of a token of a unigram model, in bytes.
inline constexpr size_t kMaxPiece = 512;

struct UnigramOptions {
  // Replaces adjacent characters that have no token. If absent, these characters are dropped.
  std::optional<int32_t> unknown = std::nullopt;
  bool byte_fallback = false;  // these characters become "<0xE2>" and so on
  // Whether sums of log probabilities are computed in 32 bits, as in sentencepiece, instead of 64
  // bits, as in PyPI's `tokenizers`.
  bool is_single = false;
  // The score of a character without a token is this value minus 10. If absent, it is the lowest
  // score of all tokens minus 10.
  std::optional<double> least = std::nullopt;
  // Ids that encoding never produces, such as the ids of control tokens.
  std::vector<int32_t> apart = {};
};

class Unigram {
 public:
  /// Creates a model. `tokens` and `scores` are indexed by id, and "" marks an unused id. Of equal
  /// tokens, the last one is used. Requires a finite score for each token, and valid ids in
  /// `options`. Returns kUnsupported if a token is longer than kMaxPiece.
  static Result<Unigram> Create(const std::vector<std::string>& tokens,
                                const std::vector<double>& scores,
                                const UnigramOptions& options);

  /// Appends the tokens of one word to `ids`. O(n L) for a word of n bytes and tokens of at most L
  /// bytes.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  int32_t size() const { return texts_.size(); }
  std::string_view Bytes(int32_t id) const { return texts_[id]; }

 private:
  // The last token of the best split of the text up to an offset.
  template <typename Real>
  struct Best {
    Real score = 0;
    int32_t id = kUnreached;
    size_t begin = 0;
  };
  static constexpr int32_t kUnreached = -2, kUnknown = -1;

  template <typename Real>
  static void Rebase(size_t begin, size_t end, std::vector<Best<Real>>* best);
  template <typename Real>
  std::vector<Best<Real>> FindBest(std::string_view word) const;
  template <typename Real>
  void EncodeBy(std::string_view word, std::vector<int32_t>* ids) const;
  void AppendUnknown(std::string_view text, std::vector<int32_t>* ids) const;

  TokenTexts texts_;
  std::vector<double> scores_;
  Trie trie_;
  std::array<int32_t, 256> byte_ids_{};  // -1 if a byte has no token
  double unknown_score_ = 0;
  UnigramOptions options_;
};

/// The maximum length of a token of WordPiece, in bytes.
inline constexpr size_t kMaxWordPiece = 512;

struct WordPieceOptions {
  // Replaces an unknown word. If absent, the word is dropped.
  std::optional<int32_t> unknown = std::nullopt;
  std::string prefix = "##";     // marks tokens that continue a word
  int32_t max_characters = 100;  // longer words are unknown
  // Ids that encoding never produces, such as the ids of added tokens.
  std::vector<int32_t> apart = {};
};

class WordPiece {
 public:
  /// Creates a model. `tokens` is indexed by id, and "" marks an unused id. Of equal tokens, the
  /// last one is used. Requires valid ids in `options`. Returns kUnsupported if a token is longer
  /// than kMaxWordPiece.
  static Result<WordPiece> Create(const std::vector<std::string>& tokens,
                                  const WordPieceOptions& options);

  /// Appends the tokens of one word to `ids`. O(n L) for n bytes and tokens of at most L bytes.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  int32_t size() const { return texts_.size(); }
  std::string_view Bytes(int32_t id) const { return texts_[id]; }

 private:
  bool AppendTokens(std::string_view word, std::vector<int32_t>* ids) const;

  TokenTexts texts_;
  Trie begins_;   // tokens that begin a word
  Trie goes_on_;  // tokens that continue a word, without the prefix
  WordPieceOptions options_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_PIECE_MODELS_H_
