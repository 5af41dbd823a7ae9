#ifndef STOWAGE_TEXT_UNIGRAM_H_
#define STOWAGE_TEXT_UNIGRAM_H_

// Unigram language models (T. Kudo, 2018), the tokenizers of T5, ALBERT and XLM-R: each
// piece has the logarithm of its probability, and a text becomes the pieces whose
// sum is the largest, by Viterbi's algorithm.
//
//   STOWAGE_ASSIGN_OR_RETURN(Unigram unigram,
//                            Unigram::Create(tokens, scores, {.unknown = 2}));
//   unigram.Encode("▁the", &ids);

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/token_texts.h"
#include "text/trie.h"

namespace stowage::text {

/// The longest piece that is read, in bytes.
inline constexpr size_t kMaxPiece = 512;

struct UnigramOptions {
  // In place of characters without a piece, one for several in a row; they are left out
  // without one.
  std::optional<int32_t> unknown = std::nullopt;
  bool byte_fallback = false;  // such characters are their bytes, "<0xE2>"
  // Sums are rounded to 32 bits, as sentencepiece has them; else to 64, as `tokenizers`.
  bool is_single = false;
  // The score of an unknown character is 10 less; nothing: the least of all pieces.
  std::optional<double> least = std::nullopt;
  // Ids that no text becomes, as those of control tokens.
  std::vector<int32_t> apart = {};
};

class Unigram {
 public:
  /// `tokens` by id, "" where an id has none, of several that are equal the last counts.
  /// Precondition: a finite score for each. Error kUnsupported: a token longer than
  /// kMaxPiece.
  static Result<Unigram> Create(const std::vector<std::string>& tokens,
                                const std::vector<double>& scores,
                                const UnigramOptions& options);

  /// Appends the tokens of one word. O(n L) for n bytes and pieces of at most L.
  void Encode(std::string_view word, std::vector<int32_t>* ids) const;

  int32_t size() const { return texts_.size(); }
  std::string_view Bytes(int32_t id) const { return texts_[id]; }

 private:
  // The best pieces up to a place in a word, as the last of them.
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

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_UNIGRAM_H_
