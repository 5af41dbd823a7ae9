#include "base/strings.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

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
    // U+0080 to U+009F, of which terminals take U+009B as they take ESC [.
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

}  // namespace stowage
