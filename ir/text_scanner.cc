#include "ir/text_scanner.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "base/strings.h"

namespace stowage {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool IsNameChar(char c) {
  return IsLetter(c) || IsDigit(c) || c == '.' || c == ':' || c == '/' ||
         c == '-';
}

void AppendHex(char c, std::string* out) {
  const auto byte = static_cast<unsigned char>(c);
  *out += kHexDigits[byte >> 4];
  *out += kHexDigits[byte & 15];
}

// The length of the UTF-8 character that begins `text`; 0 if there is none (RFC 3629).
size_t CharacterLength(std::string_view text) {
  const auto at = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xc2   ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  // Neither overlong, nor a surrogate, nor beyond U+10FFFF.
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (length > 0 && (at(1) < low || at(1) > high)) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

std::string QuotedText(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const size_t length = CharacterLength(text.substr(i));
    if (length > 1) {
      out += text.substr(i, length);
      i += length - 1;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f || length == 0) {
      out += "\\x";
      AppendHex(c, &out);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// A colon at the end would read as the one before a type, and `output` opens an
// output line.
std::string NameText(std::string_view name) {
  const bool plain = !name.empty() && IsLetter(name.front()) &&
                     std::ranges::all_of(name, IsNameChar) &&
                     name.back() != ':' && name != "output";
  return plain ? std::string(name) : QuotedText(name);
}

std::string FloatText(double value) {
  std::string text = StrCat(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string BytesText(std::string_view bytes) {
  std::string out = "0x";
  out.reserve(2 + 2 * bytes.size());
  for (const char c : bytes) AppendHex(c, &out);
  return out;
}

Error TextScanner::Fail(size_t pos, std::string_view message,
                        ErrorCode code) const {
  const std::string_view before = text_.substr(0, pos);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t newline = before.rfind('\n');
  const size_t column =
      newline == std::string_view::npos ? pos + 1 : pos - newline;
  return Error{code,
               StrCat("[ir] line ", line, ", column ", column, ": ", message)};
}

Error TextScanner::Expected(std::string_view what) const {
  std::string found = "the end of the text";
  if (!IsOver()) {
    const char c = Here();
    found =
        c == '\n' ? "the end of the line" : QuotedText(std::string_view(&c, 1));
  }
  return Fail(pos_, StrCat("expected ", what, ", found ", found));
}

void TextScanner::SkipBlanks() {
  while (Here() == ' ' || Here() == '\t' || Here() == '\r') ++pos_;
}

void TextScanner::SkipBlankLines() {
  SkipBlanks();
  while (Here() == '\n') {
    ++pos_;
    SkipBlanks();
  }
}

char TextScanner::Peek() {
  SkipBlanks();
  return Here();
}

size_t TextScanner::pos() {
  SkipBlanks();
  return pos_;
}

bool TextScanner::AtLetter() { return IsLetter(Peek()); }

bool TextScanner::Accept(char c) {
  SkipBlanks();
  if (IsOver() || Here() != c) return false;
  ++pos_;
  return true;
}

bool TextScanner::AcceptHere(std::string_view word) {
  if (!text_.substr(pos_).starts_with(word)) return false;
  pos_ += word.size();
  return true;
}

Status TextScanner::Expect(char c) {
  if (Accept(c)) return {};
  return Expected(QuotedText(std::string_view(&c, 1)));
}

Status TextScanner::ExpectLineEnd() {
  SkipBlanks();
  if (!IsOver() && Here() != '\n') return Expected("the end of the line");
  SkipBlankLines();
  return {};
}

Result<std::string> TextScanner::ReadQuoted() {
  SkipBlanks();
  const size_t start = pos_;
  if (Here() != '"') return Expected("a quoted name");
  std::string out;
  for (++pos_; !IsOver() && Here() != '\n'; ++pos_) {
    const char c = Here();
    if (c == '"') {
      ++pos_;
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    ++pos_;
    if (Here() == '"' || Here() == '\\') {
      out += Here();
    } else if (Here() == 'n') {
      out += '\n';
    } else {
      const std::string_view hex = text_.substr(std::min(pos_, text_.size()));
      const size_t high =
          hex.size() < 3 ? std::string_view::npos : kHexDigits.find(hex[1]);
      const size_t low =
          hex.size() < 3 ? std::string_view::npos : kHexDigits.find(hex[2]);
      if (Here() != 'x' || high == std::string_view::npos ||
          low == std::string_view::npos) {
        return Fail(pos_ - 1,
                    "unknown escape; there are \\\", \\\\, \\n and \\x with "
                    "two hexadecimal digits");
      }
      out += static_cast<char>(high << 4 | low);
      pos_ += 2;
    }
  }
  return Fail(start, "this quoted name has no end on its line");
}

Result<TextScanner::Name> TextScanner::ReadName(std::string_view what) {
  SkipBlanks();
  Name name{.text = {}, .quoted = Here() == '"', .pos = pos_};
  if (name.quoted) {
    STOWAGE_ASSIGN_OR_RETURN(name.text, ReadQuoted());
    return name;
  }
  if (!IsLetter(Here())) return Expected(what);
  const size_t start = pos_;
  while (!IsOver() && IsNameChar(Here())) ++pos_;
  while (text_[pos_ - 1] == ':') --pos_;
  name.text = std::string(text_.substr(start, pos_ - start));
  return name;
}

std::string_view TextScanner::PeekNumber() {
  SkipBlanks();
  const std::string_view rest = text_.substr(pos_);
  const auto end = std::ranges::find_if_not(rest, [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '.' || c == '+' || c == '-';
  });
  return {rest.begin(), end};
}

std::string_view TextScanner::TakeNumber() {
  const std::string_view number = PeekNumber();
  pos_ += number.size();
  return number;
}

Result<int64_t> TextScanner::ReadInt() {
  SkipBlanks();
  const size_t start = pos_;
  if (Here() != '-' && !IsDigit(Here())) return Expected("an integer");
  const std::string_view number = TakeNumber();
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) {
    return Fail(start, StrCat(number, " does not fit 64 bits"));
  }
  if (error != std::errc() || end != number.data() + number.size()) {
    return Fail(start, StrCat(Quoted(number), " is not an integer"));
  }
  return value;
}

Result<double> TextScanner::ReadFloat() {
  SkipBlanks();
  const size_t start = pos_;
  const std::string_view number = TakeNumber();
  if (number.empty()) return Expected("a number");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (number == "inf") return kInfinity;
  if (number == "-inf") return -kInfinity;
  if (number == "nan") return kNan;
  if (number == "-nan") return std::copysign(kNan, -1.0);
  double value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc::result_out_of_range) {
    return Fail(start, StrCat(number, " does not fit a double"));
  }
  if (error != std::errc() || end != number.data() + number.size() ||
      !std::isfinite(value)) {
    return Fail(start, StrCat(Quoted(number), " is not a number"));
  }
  return value;
}

Result<std::string> TextScanner::ReadBytes() {
  const size_t start = pos_;
  while (!IsOver() && kHexDigits.find(Here()) != std::string_view::npos) ++pos_;
  const std::string_view hex = text_.substr(start, pos_ - start);
  if (hex.size() % 2 != 0) {
    return Fail(start, StrCat("bytes need two hexadecimal digits each; here "
                              "are ",
                              hex.size(), " digits"));
  }
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(kHexDigits.find(hex[i]) << 4 |
                               kHexDigits.find(hex[i + 1]));
  }
  return bytes;
}

}  // namespace stowage
