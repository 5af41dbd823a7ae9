#ifndef STOWAGE_TEXT_PIECE_MODELS_H_
#define STOWAGE_TEXT_PIECE_MODELS_H_

// Models that split a word into tokens found by a trie.
//
// Unigram (T. Kudo, 2018; T5, ALBERT, XLM-R): each piece has a log probability, and a word
// becomes the pieces of the largest sum, by Viterbi's algorithm.
//
//   STOWAGE_ASSIGN_OR_RETURN(Unigram unigram,
//                            Unigram::Create(tokens, scores, {.unknown = 2}));
//   unigram.Encode("▁the", &ids);
//
// WordPiece (Y. Wu et al., 2016; BERT): a word becomes the longest token that is a prefix of
// it, then the longest continuation, such as "##ing", and so on. A word that cannot be split
// so is unknown as a whole.
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

/// The maximum length of a piece, in bytes.
inline constexpr size_t kMaxPiece = 512;

struct UnigramOptions {
  // Replaces a run of characters without a piece; absent: they are dropped.
  std::optional<int32_t> unknown = std::nullopt;
  bool byte_fallback = false;  // such characters become "<0xE2>" and so on
  // Sums are in 32 bits, as in sentencepiece; else in 64, as in `tokenizers`.
  bool is_single = false;
  // An unknown character scores 10 less; absent: the least score of all pieces.
  std::optional<double> least = std::nullopt;
  // Ids that are never produced, such as those of control tokens.
  std::vector<int32_t> apart = {};
};

class Unigram {
 public:
  /// `tokens` by id, "" for an unused id; of equal tokens the last counts. Precondition: a
  /// finite score for each. Error kUnsupported: a token longer than kMaxPiece.
  static Result<Unigram> Create(const std::vector<std::string>& tokens,
                                const std::vector<double>& scores,
                                const UnigramOptions& options);

  /// Appends the tokens of one word. O(n L) for n bytes and pieces of at most L.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  int32_t size() const { return texts_.size(); }
  std::string_view Bytes(int32_t id) const { return texts_[id]; }

 private:
  // The last piece of the best split of the text up to an offset.
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
  std::array<int32_t, 256> byte_ids_{};  // -1: none
  double unknown_score_ = 0;
  UnigramOptions options_;
};

/// The maximum length of a token of WordPiece, in bytes.
inline constexpr size_t kMaxWordPiece = 512;

struct WordPieceOptions {
  // Replaces an unknown word; absent: it is dropped.
  std::optional<int32_t> unknown = std::nullopt;
  std::string prefix = "##";     // of tokens that continue a word
  int32_t max_characters = 100;  // longer words are unknown
  // Ids that are never produced, such as those of added tokens.
  std::vector<int32_t> apart = {};
};

class WordPiece {
 public:
  /// `tokens` by id, "" for an unused id. Error kUnsupported: a token longer than
  /// kMaxWordPiece.
  static Result<WordPiece> Create(const std::vector<std::string>& tokens,
                                  const WordPieceOptions& options);

  /// Appends the tokens of one word. O(n L) for n bytes and tokens of at most L.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  int32_t size() const { return texts_.size(); }
  std::string_view Bytes(int32_t id) const { return texts_[id]; }

 private:
  bool AppendTokens(std::string_view word, std::vector<int32_t>* ids) const;

  TokenTexts texts_;
  Trie begins_;   // tokens that begin a word
  Trie goes_on_;  // tokens that continue one, without the prefix
  WordPieceOptions options_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_PIECE_MODELS_H_
