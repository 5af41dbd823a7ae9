#ifndef STOWAGE_COMPILE_HELPERS_H_
#define STOWAGE_COMPILE_HELPERS_H_

// The C functions that kernels call: activations, 16-bit floats, random numbers, and those of
// vectors (vector_helpers.cc). A generated file has those that it uses.
//
//   HelpersFor(text);  // "static float sigmoidf(float x) {...}\n..."

#include <string>
#include <string_view>
#include <vector>

namespace stowage::compile {

/// The definitions of all helpers that `text` mentions, and that these mention, in order.
std::string HelpersFor(std::string_view text);

/// Whether all functions of vectors that `text` calls are among the helpers: "exp_x8(x)" is,
/// "erf_x8(x)" is not.
bool HasVectorFunctions(std::string_view text);

/// The functions of math.h that `text` calls, in alphabetical order.
std::vector<std::string_view> MathFunctionsIn(std::string_view text);

/// The types and functions of vectors that `text` mentions, and that these mention.
std::string VectorHelpersFor(std::string_view text);

/// Whether `text` has the name in front of a parenthesis: a call, not a word of a comment.
bool Calls(std::string_view text, std::string_view name);

/// The elements of an array of bytes, in lines: "  0,127,\n  3,\n".
std::string BytesInC(std::string_view bytes);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_HELPERS_H_
