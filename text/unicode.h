#ifndef STOWAGE_TEXT_UNICODE_H_
#define STOWAGE_TEXT_UNICODE_H_

// Decodes UTF-8, and provides properties of characters and Unicode's normalization forms. The
// properties agree with PyPI's `tokenizers`, which uses different versions of Unicode for different
// properties (text/make_unicode_tables.py lists them).
//
//   std::string storage;
//   text = WellFormed(text, &storage);  // ill-formed bytes are now U+FFFD
//   text = ToNormalForm(text, NormalForm::kC, &storage);
//   AppendUtf8(LowerCase(FirstCharacter(text).code), &out);

#include <cstddef>
#include <string>
#include <string_view>

namespace stowage::text {

struct Character {
  char32_t code = 0;
  size_t bytes = 0;         // length in the text
  bool well_formed = true;  // if false, `code` is U+FFFD
};

/// Returns the character at the start of `text`. Ill-formed bytes are grouped as in the Unicode
/// Standard (3.9, U+FFFD substitution of maximal subparts), Python's errors="replace" and Rust's
/// from_utf8_lossy. Requires that `text` is not empty.
Character FirstCharacter(std::string_view text);

/// Returns `text` if it is well-formed UTF-8. Otherwise sets `*storage` to a copy with U+FFFD in
/// place of ill-formed bytes, and returns a view of it. Linear.
std::string_view WellFormed(std::string_view text, std::string* storage);

void AppendUtf8(char32_t code, std::string* out);

/// Returns whether the character has the Unicode property White_Space.
bool IsWhiteSpace(char32_t code);

/// Returns the number of bytes of white space at the start of `text`. LeadingSpace, TrailingSpace
/// and LastCharacter require that `text` is well-formed UTF-8.
size_t LeadingSpace(std::string_view text);
/// Returns the offset at which the trailing white space of `text` begins.
size_t TrailingSpace(std::string_view text);
/// Returns the offset of the last character. Requires that `text` is not empty.
size_t LastCharacter(std::string_view text);

/// Returns whether `\w` matches the character: letters, marks, digits and connectors.
bool IsWordCharacter(char32_t code);
/// Returns whether BERT treats the character as punctuation, which includes all printable ASCII
/// characters except letters, digits and the space.
bool IsPunctuation(char32_t code);
/// Returns whether the character is a control, format or private-use character, except for tab and
/// line ends.
bool IsControl(char32_t code);
bool IsNonspacingMark(char32_t code);
/// Returns whether the character is a nonspacing, spacing or enclosing mark.
bool IsMark(char32_t code);
/// Returns whether the character is an ideograph that BERT surrounds with spaces.
bool IsIdeograph(char32_t code);

/// Returns the number of bytes of the extended grapheme cluster (Unicode Standard Annex 29) at the
/// start of `text`. Unlike in the annex, conjuncts, Hangul syllables and flags are not kept
/// together. `text` must be well-formed and not empty.
size_t ClusterSize(std::string_view text);

/// Returns the lower case of a character, or the character itself if it has no lower case. U+0130
/// is returned unchanged, since its lower case consists of two characters.
char32_t LowerCase(char32_t code);

/// Returns the decomposition of the character in form KD, or an empty string if forms KD and D have
/// the same decomposition.
std::u32string_view CompatibleParts(char32_t code);

/// The normalization forms of Unicode Standard Annex 15. Characters are decomposed and marks are
/// put in canonical order. For C and KC, characters are then composed. Tokenizers of Qwen use form
/// C, tokenizers of BERT form D, and tokenizers of T5 form KC.
enum class NormalForm { kC, kD, kKc, kKd };

/// Returns the normalized form of `text`. If a scan shows that `text` is normalized, returns `text`
/// itself. Otherwise sets `*storage` to the normalized text and returns a view of it. Characters
/// added after Unicode 9 are unchanged, as in PyPI's `tokenizers`. Linear, except for sorting the
/// longest run of marks. `text` must be well-formed.
std::string_view ToNormalForm(std::string_view text, NormalForm form,
                              std::string* storage);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_UNICODE_H_
