#include "base/glob.h"

#include <cstddef>

namespace stowage {

bool GlobMatches(std::string_view pattern, std::string_view text) {
  // Each star first stands for nothing. Where the rest then does not match, the
  // last star takes one character more: an earlier one never has to, because
  // whatever it could reach, the last one reaches too.
  size_t p = 0;
  size_t t = 0;
  size_t after_star = std::string_view::npos;  // npos: there was none yet
  size_t star_end = 0;  // in the text: the end of what the last star stands for
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_end = t;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace stowage
