#ifndef STOWAGE_TEXT_NORMAL_FORMS_H_
#define STOWAGE_TEXT_NORMAL_FORMS_H_

// Unicode's normalization forms (Unicode Standard Annex 15): characters decomposed, marks
// in their order, and for C and KC composed again. Those of tokenizers of Qwen's kind is
// C, of BERT's D, of T5's KC.
//
//   std::string storage;
//   text = ToNormalForm(text, NormalForm::kC, &storage);

#include <string>
#include <string_view>

namespace stowage::text {

enum class NormalForm { kC, kD, kKc, kKd };

/// `text`, which is well-formed, itself where it is plainly normalized; else its normal
/// form in `*storage`. O(n log n) in the longest run of marks, else linear. Characters
/// that came after Unicode 9 are left as they are, as PyPI's tokenizers does.
std::string_view ToNormalForm(std::string_view text, NormalForm form,
                              std::string* storage);

/// Form C.
std::string_view Nfc(std::string_view text, std::string* storage);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_NORMAL_FORMS_H_
