#ifndef STOWAGE_BASE_GLOB_H_
#define STOWAGE_BASE_GLOB_H_

// Patterns over names, as a shell has them for files but with two signs only:
// `*` stands for any run of characters, the empty one and one with dots or
// slashes in it too, and `?` for exactly one character. All other characters
// stand for themselves, and the pattern is for the whole name, not for a part
// of it. A character is a byte. There is no way to write a literal `*` or `?`.
//
//   GlobMatches("h.*.bias", "h.0.attn.bias");  // true
//   GlobMatches("bias", "h.0.attn.bias");      // false: "*bias" would match

#include <optional>
#include <string>
#include <string_view>

namespace stowage {

/// Whether `pattern` stands for the whole of `text`. Takes at most the product
/// of the two lengths in time, and no memory.
bool GlobMatches(std::string_view pattern, std::string_view text);

/// `replacement` with what the stars of `pattern` stand for in `text` in place of
/// its own stars, the first for the first and so on; each star takes as little as
/// it can. Nothing where the pattern does not match. Precondition: the replacement
/// has at most as many stars as the pattern.
///
///   GlobRewrite("layers.*.q.*", "h.*.attn.*", "layers.3.q.bias");  // h.3.attn.bias
std::optional<std::string> GlobRewrite(std::string_view pattern,
                                       std::string_view replacement,
                                       std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_BASE_GLOB_H_
