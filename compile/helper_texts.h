#ifndef STOWAGE_COMPILE_HELPER_TEXTS_H_
#define STOWAGE_COMPILE_HELPER_TEXTS_H_

// The C text of helpers (compile/helpers.h). One may call those above it, and those of
// NumberFunctions may call those of NumberFormats.

#include <span>
#include <string_view>

namespace stowage::compile {

struct HelperText {
  std::string_view name;  // with @ if it is for both number types
  std::string_view text;
};

std::span<const HelperText> NumberFormats();
std::span<const HelperText> NumberFunctions();

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_HELPER_TEXTS_H_
