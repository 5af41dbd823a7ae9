#ifndef STOWAGE_TEXT_ADDED_TOKENS_H_
#define STOWAGE_TEXT_ADDED_TOKENS_H_

// Tokens that are looked for in the text itself, before it is cut into words.
//
//   AddedTokens tokens({{.text = "<|im_end|>", .id = 2, .special = true}});
//   tokens.Split(text, /*special=*/true,
//                [](std::string_view piece) {}, [](int32_t id) {});

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;     // a mark, not a part of the text
  bool strip_left = false;  // takes the white space before it along
  bool strip_right = false;
  bool single_word = false;  // not where a letter or the like stands beside it
  bool normalized =
      false;               // looked for in normalized text, else in the raw one
  bool is_normal = false;  // the text is as normalized text has it
};

namespace text {

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Precondition: no text is empty.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Calls `piece` and `token` with what `text` consists of, in order: the leftmost
  /// token first, of several the longest. Without `special`, special tokens are left
  /// in the pieces. Stops at the first error.
  Status Split(std::string_view text, bool special,
               const std::function<Status(std::string_view)>& piece,
               const std::function<void(int32_t)>& token) const;

  /// The longest token at the start of `text`, if any.
  const AddedToken* At(std::string_view text) const;

 private:
  std::vector<AddedToken> tokens_;  // in the order of their bytes
  std::array<bool, 256> first_{};   // bytes that one begins with
};

}  // namespace text

}  // namespace stowage

#endif  // STOWAGE_TEXT_ADDED_TOKENS_H_
