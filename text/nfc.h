#ifndef STOWAGE_TEXT_NFC_H_
#define STOWAGE_TEXT_NFC_H_

// Unicode's normalization form C (Unicode Standard Annex 15), which tokenizers of
// Qwen's kind ask for: marks in their order, and composed with what they stand on.
//
//   std::string storage;
//   text = Nfc(text, &storage);

#include <string>
#include <string_view>

namespace stowage::text {

/// `text`, which is well-formed, itself where it is plainly normalized; else its normal
/// form in `*storage`. O(n log n) in the longest run of marks, else linear. Characters
/// that came after Unicode 9 are left as they are, as PyPI's tokenizers does.
std::string_view Nfc(std::string_view text, std::string* storage);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_NFC_H_
