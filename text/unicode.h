#ifndef STOWAGE_TEXT_UNICODE_H_
#define STOWAGE_TEXT_UNICODE_H_

// UTF-8 decoding, properties of characters, and Unicode's normalization forms. Properties
// are those that PyPI's `tokenizers` uses (text/make_unicode_tables.py lists the version of
// Unicode of each).
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
  size_t bytes = 0;         // its length in `text`
  bool well_formed = true;  // if false, `code` is U+FFFD
};

/// The character at the start of `text`. Ill-formed bytes are grouped as the Unicode
/// Standard (3.9, U+FFFD substitution of maximal subparts), Python's errors="replace" and
/// Rust's from_utf8_lossy group them. Precondition: `text` is not empty.
Character FirstCharacter(std::string_view text);

/// `text` itself if it is well-formed UTF-8; else a copy in `*storage` with U+FFFD in place
/// of ill-formed bytes. Linear.
std::string_view WellFormed(std::string_view text, std::string* storage);

void AppendUtf8(char32_t code, std::string* out);

/// Whether the character has Unicode's property White_Space.
bool IsWhiteSpace(char32_t code);

/// The number of bytes of white space at the start of `text`. Precondition of this and the
/// next two: `text` is well-formed.
size_t LeadingSpace(std::string_view text);
/// The offset at which the white space at the end of `text` begins.
size_t TrailingSpace(std::string_view text);
/// The offset of the last character. Precondition: `text` is not empty.
size_t LastCharacter(std::string_view text);

/// Whether `\w` matches the character: letters, marks, digits and connectors.
bool IsWordCharacter(char32_t code);
/// Punctuation as BERT defines it: includes all of ASCII but letters, digits and spaces.
bool IsPunctuation(char32_t code);
/// Control, format and private-use characters, except tab and line ends.
bool IsControl(char32_t code);
bool IsNonspacingMark(char32_t code);
/// Nonspacing, spacing and enclosing marks.
bool IsMark(char32_t code);
/// The ideographs that BERT surrounds by spaces.
bool IsIdeograph(char32_t code);

/// The number of bytes of the extended grapheme cluster (Unicode Standard Annex 29) at the
/// start of `text`, except that conjuncts, syllables of Hangul and flags are split.
/// Precondition: `text` is well-formed and not empty.
size_t ClusterSize(std::string_view text);

/// The lower case of a character; the character itself if it has none, and for U+0130,
/// whose lower case is two characters.
char32_t LowerCase(char32_t code);

/// The decomposition of the character for form KD if it differs from that for form D; else
/// empty.
std::u32string_view CompatibleParts(char32_t code);

/// The normalization forms of Unicode Standard Annex 15: characters decomposed, marks in
/// canonical order, and for C and KC composed again. Qwen's tokenizers use C, BERT's D, T5's
/// KC.
enum class NormalForm { kC, kD, kKc, kKd };

/// The normal form of `text`: `text` itself if a scan shows that it is normalized, else in
/// `*storage`. Characters later than Unicode 9 are unchanged, as in PyPI's `tokenizers`.
/// Linear, but O(n log n) in the longest run of marks. Precondition: `text` is well-formed.
std::string_view ToNormalForm(std::string_view text, NormalForm form,
                              std::string* storage);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_UNICODE_H_
