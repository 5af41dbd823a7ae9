#ifndef STOWAGE_COMPILE_HELPERS_H_
#define STOWAGE_COMPILE_HELPERS_H_

// The C functions that kernels call: activations, 16-bit floats, random numbers. A generated
// file has those that it uses; their text is in helper_texts.cc.
//
//   HelpersFor(text);  // "static float sigmoidf(float x) {...}\n..."

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stowage::compile {

/// The definitions of all helpers that `text` mentions, and that these mention, in order.
std::string HelpersFor(std::string_view text);

/// The functions of math.h that `text` calls, in alphabetical order.
std::vector<std::string_view> MathFunctionsIn(std::string_view text);

/// The elements of an array of bytes, in lines: "  0,127,\n  3,\n".
std::string BytesInC(std::string_view bytes);

/// The text of one C function. It may call functions above it in its list, and those of
/// NumberFunctions may call those of NumberFormats.
struct HelperText {
  std::string_view name;  // with @ if it is for both number types
  std::string_view text;
};

std::span<const HelperText> NumberFormats();
std::span<const HelperText> NumberFunctions();

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_HELPERS_H_
