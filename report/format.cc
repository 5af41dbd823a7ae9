#include "report/format.h"

#include "base/strings.h"

namespace stowage {
namespace {

std::string Cut(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  if (width <= 3) return std::string(text.substr(0, width));
  return StrCat(text.substr(0, width - 3), "...");
}

}  // namespace

std::string PadRight(std::string_view text, size_t width) {
  std::string out = Cut(text, width);
  out.resize(width, ' ');
  return out;
}

std::string PadLeft(std::string_view text, size_t width) {
  const std::string out = Cut(text, width);
  return std::string(width - out.size(), ' ') + out;
}

std::string Interval(packing::Time lower, packing::Time upper) {
  return StrCat("[", lower, ", ", upper, ")");
}

std::string WithCommas(int64_t value) {
  const std::string digits = StrCat(value);
  const size_t first = value < 0 ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string XmlEscaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

}  // namespace stowage
