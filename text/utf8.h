#ifndef STOWAGE_TEXT_UTF8_H_
#define STOWAGE_TEXT_UTF8_H_

// Characters of UTF-8, and what to do with bytes that are none.
//
//   std::string storage;
//   text = WellFormed(text, &storage);  // now every byte belongs to a character

#include <cstddef>
#include <string>
#include <string_view>

namespace stowage::text {

struct Character {
  char32_t code = 0;
  size_t bytes = 0;  // that it takes; of ill-formed bytes, how many go together
  bool well_formed = true;  // else `code` is U+FFFD
};

/// The character at the start of `text`, which is not empty. Ill-formed bytes go
/// together as the Unicode Standard (3.9, U+FFFD substitution of maximal subparts),
/// Python's errors="replace" and Rust's from_utf8_lossy have it.
Character FirstCharacter(std::string_view text);

/// `text` itself where it is well-formed UTF-8; else a copy in `*storage` with U+FFFD
/// in place of what is not. Linear.
std::string_view WellFormed(std::string_view text, std::string* storage);

void AppendUtf8(char32_t code, std::string* out);

/// Whether Unicode calls the character White_Space.
bool IsWhiteSpace(char32_t code);

// Unicode's normalization form C (Unicode Standard Annex 15), which tokenizers of
// Qwen's kind ask for: marks in their order, and composed with what they stand on.
//
//   std::string storage;
//   text = Nfc(text, &storage);

/// `text`, which is well-formed, itself where it is plainly normalized; else its normal
/// form in `*storage`. O(n log n) in the longest run of marks, else linear. Characters
/// that came after Unicode 9 are left as they are, as PyPI's tokenizers does.
std::string_view Nfc(std::string_view text, std::string* storage);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_UTF8_H_
