#ifndef STOWAGE_TEXT_SENTENCE_PIECE_NORMALIZER_H_
#define STOWAGE_TEXT_SENTENCE_PIECE_NORMALIZER_H_

// SentencePiece's normalization (T. Kudo and J. Richardson, 2018): replacements by a
// precompiled table, "▁" for spaces, and one before the text.
//
//   STOWAGE_ASSIGN_OR_RETURN(auto normalizer,
//                            SentencePieceNormalizer::Create({.add_space = true}));
//   normalizer.Run("a b", /*goes_on=*/false, &out);  // "▁a▁b"
//
//   STOWAGE_ASSIGN_OR_RETURN(Charsmap charsmap, Charsmap::Parse(bytes));
//   if (const auto rule = charsmap.Longest("ﬁn")) ...  // 3 bytes, "fi"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace stowage::text {

/// SentencePiece's precompiled table of replacements: a double array of the texts to replace
/// (S. Yata's darts-clone), and their replacements.
class Charsmap {
 public:
  struct Rule {
    size_t bytes = 0;              // replaced
    std::string_view replacement;  // valid as long as the table
  };

  /// Parses `blob`: the size of the array in bytes as 32 bits, the array, and the
  /// replacements, each ended by NUL. An empty blob has no rules. Errors kInvalidArgument:
  /// inconsistent sizes; replacements that are not UTF-8.
  static Result<Charsmap> Parse(std::string_view blob);

  /// The rules for the longest and for the shortest prefix of `text`, if any.
  std::optional<Rule> Longest(std::string_view text) const;
  std::optional<Rule> Shortest(std::string_view text) const;

 private:
  std::optional<Rule> Find(std::string_view text, bool shortest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace stowage::text

namespace stowage {

struct SentencePieceRules {
  std::string charsmap = {};           // precompiled; "" for none
  std::vector<std::string> kept = {};  // user-defined pieces, never rewritten
  bool add_space = false;              // before a text that is not empty
  bool collapse_spaces = false;        // one between words, none at the ends
  bool escape_spaces = true;           // written as "▁"
};

namespace text {

class SentencePieceNormalizer {
 public:
  /// Errors kInvalidArgument: those of Charsmap::Parse; an empty text in `kept`.
  static Result<SentencePieceNormalizer> Create(
      const SentencePieceRules& rules);

  /// Writes the normal form of `text` to `*out`. If the text `goes_on` from another, no
  /// space is put before it. Linear. Precondition: `text` is well-formed.
  void Run(std::string_view text, bool goes_on, std::string* out) const;

 private:
  // The replacement of the first `bytes` bytes of a text.
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
