#ifndef STOWAGE_TEXT_UNICODE_H_
#define STOWAGE_TEXT_UNICODE_H_

// Properties of characters, as PyPI's `tokenizers` has them: each of the version of
// Unicode that the part of it uses (text/make_unicode_tables.py).
//
//   if (IsPunctuation(code)) ...
//   AppendUtf8(LowerCase(code), &out);

#include <cstddef>
#include <string_view>

namespace stowage::text {

/// Whether `\w` matches it: letters, marks, digits and connectors.
bool IsWordCharacter(char32_t code);
/// Punctuation as BERT has it: also all of ASCII that is no letter, digit or space.
bool IsPunctuation(char32_t code);
/// Control characters, formats and what is for private use; not tab and line ends.
bool IsControl(char32_t code);
bool IsNonspacingMark(char32_t code);
/// Nonspacing, spacing and enclosing marks.
bool IsMark(char32_t code);
/// The ideographs that BERT puts spaces around.
bool IsIdeograph(char32_t code);

/// How many bytes the grapheme cluster at the start of `text` has, which is well-formed
/// and not empty: extended ones of Unicode Standard Annex 29, but that conjuncts, syllables
/// of Hangul and flags are taken apart.
size_t ClusterSize(std::string_view text);

/// The lower case of a character, itself where it has none. That of U+0130, which is "i"
/// and a mark, is U+0130.
char32_t LowerCase(char32_t code);

/// What the character decomposes to for form KD, where that is more than for form D;
/// else nothing.
std::u32string_view CompatibleParts(char32_t code);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_UNICODE_H_
