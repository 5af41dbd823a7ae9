#ifndef STOWAGE_TEXT_CHARSMAP_H_
#define STOWAGE_TEXT_CHARSMAP_H_

// SentencePiece's precompiled table of what stands in place of what: a double array of
// the texts to replace (S. Yata's darts-clone), and their replacements.
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

namespace stowage::text {

class Charsmap {
 public:
  struct Rule {
    size_t bytes = 0;              // that are replaced
    std::string_view replacement;  // in the table
  };

  /// `blob` holds the size of the array in bytes, 32 bits, the array, and the
  /// replacements, each ended by a NUL. Empty: no rules. Error kInvalidArgument for sizes
  /// that do not fit, and replacements that are no UTF-8.
  static Result<Charsmap> Parse(std::string_view blob);

  /// The rules for the longest and for the shortest start of `text`, if any.
  std::optional<Rule> Longest(std::string_view text) const;
  std::optional<Rule> Shortest(std::string_view text) const;

 private:
  std::optional<Rule> Find(std::string_view text, bool shortest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_CHARSMAP_H_
