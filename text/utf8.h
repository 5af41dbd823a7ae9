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

/// How many bytes of white space `text`, which is well-formed, begins with.
size_t LeadingSpace(std::string_view text);
/// Where the white space at the end of `text` begins.
size_t TrailingSpace(std::string_view text);
/// Where the last character of `text` begins. Precondition: `text` is not empty.
size_t LastCharacter(std::string_view text);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_UTF8_H_
