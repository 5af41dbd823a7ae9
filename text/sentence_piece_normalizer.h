#ifndef STOWAGE_TEXT_SENTENCE_PIECE_NORMALIZER_H_
#define STOWAGE_TEXT_SENTENCE_PIECE_NORMALIZER_H_

// How SentencePiece (T. Kudo and J. Richardson, 2018) rewrites a text before it is made
// pieces: by its table of characters, with "▁" for spaces, one before the text.
//
//   STOWAGE_ASSIGN_OR_RETURN(auto normalizer,
//                            SentencePieceNormalizer::Create({.add_space = true}));
//   normalizer.Run("a b", /*goes_on=*/false, &out);  // "▁a▁b"

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/charsmap.h"

namespace stowage {

struct SentencePieceRules {
  std::string charsmap = {};           // precompiled; empty: none
  std::vector<std::string> kept = {};  // user-defined, which stay as they are
  bool add_space = false;              // before what is not empty
  bool collapse_spaces = false;        // one between words, none at the ends
  bool escape_spaces = true;           // as "▁"
};

namespace text {

class SentencePieceNormalizer {
 public:
  /// Errors kInvalidArgument: Charsmap::Parse's, and an empty text that is kept.
  static Result<SentencePieceNormalizer> Create(
      const SentencePieceRules& rules);

  /// Writes the normal form of `text`, which is well-formed, and `goes_on` from another or
  /// begins. Linear.
  void Run(std::string_view text, bool goes_on, std::string* out) const;

 private:
  // What becomes of the start of a text, and how many bytes that takes.
  struct Start {
    std::string_view normal;
    size_t bytes = 0;
  };
  Start Next(std::string_view text) const;

  Charsmap charsmap_;
  AddedTokens kept_;
  SentencePieceRules rules_;
};

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_SENTENCE_PIECE_NORMALIZER_H_
