#include <algorithm>
#include <array>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "text/jinja_parser.h"
#include "text/jinja_value.h"
#include "text/unicode.h"

namespace stowage::jinja {
namespace {

using TokenKind = Token::Kind;

constexpr std::string_view kSpace = " \t\n\v\f\r";
// The maximum tokens of a tag, which bound the depth of an expression.
constexpr size_t kMaxTagTokens = 1000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Normalizes line ends to \n, and removes one at the end.
std::string Normalized(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> Run() {
    bool line_starts = true;
    while (at_ < source_.size()) {
      const size_t tag = FindTag();
      std::string_view data = std::string_view(source_).substr(at_, tag - at_);
      if (tag < source_.size()) {
        const char kind = source_[tag + 1];
        const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
        if (sign == '-') {
          data = Strip(data, /*left=*/false);
        } else if (sign != '+' && kind != '{') {
          const size_t begin = data.rfind('\n') + 1;  // 0 without one
          if ((begin > 0 || line_starts) &&
              data.find_first_not_of(kSpace, begin) == std::string_view::npos) {
            data = data.substr(0, begin);
          }
        }
        if (!data.empty()) Add(TokenKind::kData, std::string(data));
        Advance(tag + (sign == '-' || sign == '+' ? 3 : 2));
        if (kind == '#') {
          STOWAGE_RETURN_IF_ERROR(SkipComment());
        } else {
          STOWAGE_RETURN_IF_ERROR(ReadTag(kind));
        }
        line_starts = source_[at_ - 1] == '\n';
      } else {
        if (!data.empty()) Add(TokenKind::kData, std::string(data));
        at_ = source_.size();
      }
    }
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Error Fail(std::string_view what) const {
    return InvalidArgumentError("line ", line_, ": ", what);
  }
  void Add(TokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }
  void Advance(size_t to) {
    line_ +=
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                   source_.begin() + static_cast<std::ptrdiff_t>(to), '\n');
    at_ = to;
  }
  std::string_view Rest() const {
    return std::string_view(source_).substr(at_);
  }
  size_t FindTag() const {
    size_t tag = source_.find('{', at_);
    while (tag != std::string::npos && tag + 1 < source_.size()) {
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') return tag;
      tag = source_.find('{', tag + 1);
    }
    return source_.size();
  }
  void SkipSpace() {
    Advance(std::min(source_.find_first_not_of(kSpace, at_), source_.size()));
  }
  // Consumes the end of a tag if it is next: '-' before it removes the white space after it,
  // and a block removes a line end.
  bool TakeEnd(std::string_view end) {
    const bool sign =
        Rest().starts_with('-') || (Rest().starts_with('+') && end != "}}");
    const std::string_view rest = Rest().substr(sign ? 1 : 0);
    if (!rest.starts_with(end)) return false;
    const bool strips = sign && Rest().starts_with('-');
    Advance(at_ + (sign ? 1 : 0) + end.size());
    if (strips) {
      SkipSpace();
    } else if (!sign && end != "}}" && Rest().starts_with('\n')) {
      Advance(at_ + 1);
    }
    return true;
  }
  Status SkipComment() {
    while (!TakeEnd("#}")) {
      if (at_ == source_.size()) return Fail("a comment does not end");
      Advance(at_ + 1);
    }
    return {};
  }

  Status ReadTag(char kind) {
    const bool output = kind == '{';
    const std::string_view end = output ? "}}" : "%}";
    Add(output ? TokenKind::kOutputBegin : TokenKind::kBlockBegin, "");
    std::string open;  // unclosed brackets
    const size_t first = tokens_.size();
    while (true) {
      if (tokens_.size() - first > kMaxTagTokens) {
        return UnsupportedError("line ", line_, ": a tag of more than ",
                                kMaxTagTokens, " tokens");
      }
      SkipSpace();
      if (at_ == source_.size()) return Fail("a tag does not end");
      if (open.empty() && TakeEnd(end)) {
        Add(output ? TokenKind::kOutputEnd : TokenKind::kBlockEnd, "");
        return {};
      }
      const char c = source_[at_];
      if (IsLetter(c)) {
        size_t to = at_;
        while (to < source_.size() &&
               (IsLetter(source_[to]) || IsDigit(source_[to]))) {
          ++to;
        }
        Add(TokenKind::kName, source_.substr(at_, to - at_));
        Advance(to);
      } else if (IsDigit(c)) {
        ReadNumber();
      } else if (c == '\'' || c == '"') {
        STOWAGE_RETURN_IF_ERROR(ReadString(c));
      } else {
        STOWAGE_RETURN_IF_ERROR(ReadOperator(&open));
      }
    }
  }

  void ReadNumber() {
    size_t to = at_;
    const auto digits = [&] {
      while (to < source_.size() && IsDigit(source_[to])) ++to;
    };
    digits();
    const bool real = to + 1 < source_.size() && source_[to] == '.' &&
                      IsDigit(source_[to + 1]);
    if (real) {
      ++to;
      digits();
    }
    Add(real ? TokenKind::kReal : TokenKind::kInteger,
        source_.substr(at_, to - at_));
    Advance(to);
  }

  Status ReadOperator(std::string* open) {
    constexpr std::array<std::string_view, 6> kPairs = {
        "//", "**", "==", "!=", "<=", ">="};
    constexpr std::string_view kSingles = "+-*/%~[](){}<>=.:|,";
    const auto pair =
        std::ranges::find_if(kPairs, [&](std::string_view operation) {
          return Rest().starts_with(operation);
        });
    const char c = source_[at_];
    if (pair == kPairs.end() && kSingles.find(c) == std::string_view::npos) {
      return Fail(
          StrCat("the character ", Quoted(Rest().substr(0, 1)), " in a tag"));
    }
    if (c == '(' || c == '[' || c == '{') {
      *open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (!open->ends_with(c)) {
        return Fail(
            StrCat("a ", Quoted(Rest().substr(0, 1)), " that closes nothing"));
      }
      open->pop_back();
    }
    const size_t size = pair == kPairs.end() ? 1 : 2;
    Add(TokenKind::kOperator, source_.substr(at_, size));
    Advance(at_ + size);
    return {};
  }

  // As Python reads it: an unknown escape keeps its backslash.
  Status ReadString(char quote) {
    constexpr std::string_view kEscapes = "abfnrtv", kMeant = "\a\b\f\n\r\t\v";
    std::string value;
    size_t to = at_ + 1;
    while (to < source_.size() && source_[to] != quote) {
      const char c = source_[to++];
      if (c != '\\') {
        value += c;
        continue;
      }
      if (to == source_.size()) break;
      const char escaped = source_[to++];
      const size_t known = kEscapes.find(escaped);
      if (known != std::string_view::npos) {
        value += kMeant[known];
      } else if (escaped == '\\' || escaped == '\'' || escaped == '"') {
        value += escaped;
      } else if (escaped == 'x' || escaped == 'u' || escaped == 'U') {
        const size_t digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : 8;
        char32_t code = 0;
        for (size_t i = 0; i < digits; ++i, ++to) {
          const int digit = to < source_.size() ? HexValue(source_[to]) : -1;
          if (digit < 0) return Fail("an escape of a string is cut short");
          code = code * 16 + static_cast<char32_t>(digit);
        }
        if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
          return Fail(StrCat("an escape of a string is the code ",
                             static_cast<uint64_t>(code),
                             ", which is no character"));
        }
        text::AppendUtf8(code, &value);
      } else if (IsDigit(escaped) || escaped == 'N') {
        return UnsupportedError("line ", line_, ": the escape \\",
                                std::string(1, escaped), " of a string");
      } else if (escaped != '\n') {
        value += '\\';
        value += escaped;
      }
    }
    if (to >= source_.size()) return Fail("a string does not end");
    Add(TokenKind::kString, std::move(value));
    Advance(to + 1);
    return {};
  }

  std::string source_;
  size_t at_ = 0;
  int64_t line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(Normalized(source)).Run();
}

}  // namespace stowage::jinja
