#include "base/glob.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace stowage {

namespace {

// Matches, and calls begin(place in the text) at each star, and end(place) whenever
// the end of the last one moves.
template <typename Begin, typename End>
bool Match(std::string_view pattern, std::string_view text, Begin begin,
           End end) {
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
      begin(t);
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++star_end;
      end(t);
    } else {
      return false;
    }
  }
  for (; p < pattern.size() && pattern[p] == '*'; ++p) begin(t);
  return p == pattern.size();
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  return Match(
      pattern, text, [](size_t) {}, [](size_t) {});
}

std::optional<std::string> GlobRewrite(std::string_view pattern,
                                       std::string_view replacement,
                                       std::string_view text) {
  std::vector<std::pair<size_t, size_t>> stars;
  const bool matches = Match(
      pattern, text, [&](size_t begin) { stars.emplace_back(begin, begin); },
      [&](size_t end) { stars.back().second = end; });
  if (!matches) return std::nullopt;
  std::string out;
  size_t star = 0;
  for (const char c : replacement) {
    if (c != '*') {
      out += c;
      continue;
    }
    STOWAGE_CHECK(star < stars.size());
    const auto [begin, end] = stars[star++];
    out += text.substr(begin, end - begin);
  }
  return out;
}

}  // namespace stowage
