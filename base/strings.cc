#include "base/strings.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/result.h"

namespace stowage {
namespace internal {

void AppendTo(std::string* out, std::string_view text) { out->append(text); }
void AppendTo(std::string* out, char c) { out->push_back(c); }
void AppendTo(std::string* out, bool value) {
  out->append(value ? "true" : "false");
}

namespace {
template <typename T>
void AppendNumber(std::string* out, T value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  out->append(buffer, end);
}
}  // namespace

void AppendTo(std::string* out, int64_t value) { AppendNumber(out, value); }
void AppendTo(std::string* out, uint64_t value) { AppendNumber(out, value); }
void AppendTo(std::string* out, double value) { AppendNumber(out, value); }

}  // namespace internal

bool EndsWithAnyCase(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() &&
         std::equal(ending.begin(), ending.end(),
                    text.end() - static_cast<ptrdiff_t>(ending.size()),
                    [](char small, char c) {
                      return c == small ||
                             (c >= 'A' && c <= 'Z' && c - 'A' + 'a' == small);
                    });
}

std::string Fixed(double value, int decimals) {
  char
      buffer[400];  // the longest finite double has 309 digits before the point
  std::snprintf(buffer, sizeof(buffer), "%.*f", decimals, value);
  return buffer;
}

std::string WithoutControls(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  const auto escape = [&](unsigned char byte) {
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F: terminals treat U+009B as ESC [.
    const bool is_c1 = byte == 0xc2 && i + 1 < text.size() &&
                       static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                       static_cast<unsigned char>(text[i + 1]) <= 0x9f;
    if (is_c1) {
      escape(byte);
      escape(static_cast<unsigned char>(text[++i]));
    } else if ((byte >= 0x20 && byte != 0x7f) || byte == '\n' || byte == '\t') {
      out += text[i];
    } else {
      escape(byte);
    }
  }
  return out;
}

std::string Quoted(std::string_view name) {
  return StrCat('"', WithoutControls(name), '"');
}

namespace {

// Returns whether the pattern matches. Calls begin(position in the text) at each star, and
// end(position) whenever the end of the last star's match moves.
template <typename Begin, typename End>
bool Match(std::string_view pattern, std::string_view text, Begin begin,
           End end) {
  // Each star first matches nothing. On a mismatch the last star takes one more character;
  // an earlier star never has to, since the last one reaches all that it could.
  size_t p = 0;
  size_t t = 0;
  size_t after_star = std::string_view::npos;  // npos: none yet
  size_t star_end = 0;  // the end of the last star's match
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
