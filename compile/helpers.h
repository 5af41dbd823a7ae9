#ifndef STOWAGE_COMPILE_HELPERS_H_
#define STOWAGE_COMPILE_HELPERS_H_

// Provides the C functions that kernels call: activations, conversions of 16-bit floats, random
// numbers, and functions of vectors (vector_helpers.cc). A generated file contains only the helpers
// that it uses.
//
//   HelpersFor(text);  // "static float sigmoidf(float x) {...}\n..."

#include <string>
#include <string_view>
#include <vector>

namespace stowage::compile {

/// Returns the definitions of all helpers, including vector helpers, that the code `text` uses,
/// directly or indirectly. Each helper is defined before it is used.
std::string HelpersFor(std::string_view text);

/// Returns whether a helper exists for every vector function that `text` calls. For example, there
/// is a helper exp_x8, but no helper erf_x8.
bool HasVectorFunctions(std::string_view text);

/// Returns the functions of math.h that `text` calls, in alphabetical order.
std::vector<std::string_view> MathFunctionsIn(std::string_view text);

/// Returns the definitions of the vector types and vector functions that `text` uses, directly or
/// indirectly.
std::string VectorHelpersFor(std::string_view text);

/// Returns whether `text` contains the identifier `name` followed by a parenthesis. The name is
/// then a call and not a word in a comment.
bool Calls(std::string_view text, std::string_view name);

/// Returns `bytes` as the elements of a C array, in indented lines: "  0,127,\n  3,\n".
std::string BytesInC(std::string_view bytes);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_HELPERS_H_
