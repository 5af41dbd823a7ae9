#ifndef STOWAGE_TEXT_WORD_PIECE_H_
#define STOWAGE_TEXT_WORD_PIECE_H_

// WordPiece (Y. Wu et al., 2016), the tokenizer of BERT: a word becomes the longest token
// that it begins with, then the longest that goes on from there, "##ing", and so on; one
// that cannot be cut so is unknown as a whole.
//
//   STOWAGE_ASSIGN_OR_RETURN(WordPiece pieces,
//                            WordPiece::Create(tokens, {.unknown = 1}));
//   pieces.Encode("embedding", &ids);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/token_texts.h"
#include "text/trie.h"

namespace stowage::text {

struct WordPieceOptions {
  // A word without tokens is left out where there is none.
  std::optional<int32_t> unknown = std::nullopt;
  std::string prefix = "##";     // of tokens that go on with a word
  int32_t max_characters = 100;  // of a word; one that has more is unknown
  // Ids that no text becomes, as those of added tokens.
  std::vector<int32_t> apart = {};
};

class WordPiece {
 public:
  /// `tokens` by id, "" where an id has none. Error kUnsupported: a token longer than
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
  Trie begins_;   // words
  Trie goes_on_;  // without the prefix
  WordPieceOptions options_;
};

/// The longest token that is read, in bytes.
inline constexpr size_t kMaxWordPiece = 512;

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_WORD_PIECE_H_
