#ifndef STOWAGE_TEXT_SENTENCE_PIECE_NORMALIZER_H_
#define STOWAGE_TEXT_SENTENCE_PIECE_NORMALIZER_H_

// Normalizes text as SentencePiece does (T. Kudo and J. Richardson, 2018). The normalization
// applies the replacements of a precompiled table, replaces spaces with "▁", and prepends a "▁" to
// the text. SentencePieceRules selects what applies.
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

/// SentencePiece's precompiled table of replacements. The strings to replace are in a double-array
/// trie (S. Yata's darts-clone).
class Charsmap {
 public:
  struct Rule {
    size_t bytes = 0;              // bytes that are replaced
    std::string_view replacement;  // valid while the Charsmap exists
  };

  /// Parses `blob`, which consists of the size of the trie in bytes as a 32-bit integer, the trie,
  /// and NUL-terminated replacements. An empty blob has no rules. Returns kInvalidArgument if the
  /// sizes are inconsistent or the replacements are not UTF-8.
  static Result<Charsmap> Parse(std::string_view blob);

  /// Longest returns the rule for the longest prefix of `text` that has a rule, and Shortest for
  /// the shortest prefix. Both return nullopt if no prefix has a rule.
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
  std::string charsmap = {};           // a Charsmap blob; "" for none
  std::vector<std::string> kept = {};  // user-defined pieces, never rewritten
  bool add_space = false;              // prepends a space to a nonempty text
  bool collapse_spaces = false;        // one between words, none at the ends
  bool escape_spaces = true;           // spaces are written as "▁"
};

namespace text {

class SentencePieceNormalizer {
 public:
  /// Creates a normalizer. Propagates errors of Charsmap::Parse. Returns kInvalidArgument if a
  /// string in `kept` is empty.
  static Result<SentencePieceNormalizer> Create(
      const SentencePieceRules& rules);

  /// Sets `*out` to the normalized text. If `goes_on` is true, `text` continues another text, and
  /// no space is prepended. Linear. `text` must be well-formed UTF-8.
  void Run(std::string_view text, bool goes_on, std::string* out) const;

 private:
  // The replacement for the first `bytes` bytes of a text.
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
