#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "tools/options.h"

namespace stowage::tools {
namespace {

bool IsBare(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '-';
}

// The character of a one-letter escape sequence.
std::optional<char> Escaped(char c) {
  constexpr std::string_view kLetters = "btnfr\"\\";
  constexpr std::string_view kMeanings = "\b\t\n\f\r\"\\";
  const size_t at = kLetters.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return kMeanings[at];
}

// A decimal number in the syntax of options: without underscores and a leading plus; absent if it
// is another text.
std::optional<std::string> PlainNumber(std::string_view token) {
  std::string plain;
  for (size_t i = 0; i < token.size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < token.size() &&
             std::isdigit(static_cast<unsigned char>(token[at])) != 0;
    };
    if (token[i] == '_') {
      if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
      continue;
    }
    if (i == 0 && token[i] == '+') continue;
    plain += token[i];
  }
  double value = 0;
  const char* const end = plain.data() + plain.size();
  const auto parsed = std::from_chars(plain.data(), end, value);
  if (parsed.ec == std::errc::invalid_argument || parsed.ptr != end) {
    return std::nullopt;
  }
  return plain;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Result<std::vector<ConfigEntry>> Parse() {
    while (true) {
      SkipLines();
      if (rest_.empty()) return std::move(entries_);
      STOWAGE_RETURN_IF_ERROR(rest_.starts_with('[') ? ParseTable()
                                                     : ParseEntry());
      SkipBlanks();
      if (!rest_.empty() && rest_.front() != '\n') {
        return Fail(StrCat("expected the end of the line instead of ",
                           Quoted(rest_.substr(0, rest_.find('\n')))));
      }
    }
  }

 private:
  Error Fail(std::string_view message) const {
    return {ErrorCode::kInvalidArgument,
            StrCat("[config] line ", line_, ": ", message)};
  }

  // Skips spaces, and a comment up to the end of the line.
  void SkipBlanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' ||
                              rest_.starts_with("\r\n"))) {
      rest_.remove_prefix(1);
    }
    if (rest_.starts_with('#')) {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    }
  }
  void SkipLines() {
    SkipBlanks();
    while (rest_.starts_with('\n')) {
      rest_.remove_prefix(1);
      ++line_;
      SkipBlanks();
    }
  }
  bool Take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Status ParseTable() {
    if (rest_.starts_with("[[")) {
      return Fail("arrays of tables are not read; write [NAME]");
    }
    Take('[');
    STOWAGE_ASSIGN_OR_RETURN(table_, ParseKey());
    if (Take(']')) return {};
    return Fail(StrCat("expected ] behind the table's name ", Quoted(table_)));
  }

  Status ParseEntry() {
    ConfigEntry entry{.table = table_, .line = line_};
    STOWAGE_ASSIGN_OR_RETURN(entry.key, ParseKey());
    if (!Take('=')) {
      return Fail(StrCat("expected = behind the key ", Quoted(entry.key)));
    }
    SkipBlanks();
    STOWAGE_RETURN_IF_ERROR(ParseValues(&entry));
    for (const ConfigEntry& other : entries_) {
      if (other.table != entry.table || other.key != entry.key) continue;
      return Fail(StrCat("key ", Quoted(entry.key),
                         " is there twice, first in "
                         "line ",
                         other.line));
    }
    entries_.push_back(std::move(entry));
    return {};
  }

  // Parses a bare or quoted key, and the spaces around it.
  Result<std::string> ParseKey() {
    SkipBlanks();
    std::string key;
    if (rest_.starts_with('"') || rest_.starts_with('\'')) {
      STOWAGE_ASSIGN_OR_RETURN(key, ParseString());
    } else {
      const auto end = std::ranges::find_if_not(rest_, IsBare);
      key = std::string(rest_.begin(), end);
      rest_.remove_prefix(key.size());
    }
    if (key.empty()) {
      return Fail(StrCat("expected a key instead of ",
                         Quoted(rest_.substr(0, rest_.find('\n')))));
    }
    SkipBlanks();
    if (rest_.starts_with('.')) {
      return Fail(StrCat("dotted keys are not read; write [", key,
                         "] and the key below it"));
    }
    return key;
  }

  Status ParseValues(ConfigEntry* entry) {
    if (!Take('[')) return ParseValue(entry);
    entry->is_array = true;
    while (true) {
      SkipLines();
      if (Take(']')) return {};
      if (rest_.starts_with('[')) {
        return Fail("arrays in arrays are not read");
      }
      STOWAGE_RETURN_IF_ERROR(ParseValue(entry));
      SkipLines();
      if (Take(',')) continue;
      if (!rest_.starts_with(']')) {
        return Fail(
            StrCat("expected , or ] in the array of ", Quoted(entry->key)));
      }
    }
  }

  Status ParseValue(ConfigEntry* entry) {
    if (rest_.starts_with('"') || rest_.starts_with('\'')) {
      STOWAGE_ASSIGN_OR_RETURN(std::string text, ParseString());
      entry->values.push_back(std::move(text));
      return {};
    }
    const size_t size =
        std::min(rest_.find_first_of(" \t\r\n#,]"), rest_.size());
    const std::string_view token = rest_.substr(0, size);
    entry->is_boolean = token == "true" || token == "false";
    const std::optional<std::string> value =
        entry->is_boolean ? std::string(token) : PlainNumber(token);
    if (!value) {
      return Fail(StrCat("the value of ", Quoted(entry->key), " is ",
                         Quoted(token),
                         "; expected a string in quotes, a number in decimal, "
                         "true, false, or an array of these"));
    }
    entry->values.push_back(*value);
    rest_.remove_prefix(size);
    return {};
  }

  // Parses a string in double quotes, with escapes, or in single quotes, without.
  Result<std::string> ParseString() {
    if (rest_.starts_with("\"\"\"") || rest_.starts_with("'''")) {
      return Fail("strings of several lines are not read");
    }
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    std::string text;
    while (!rest_.empty() && rest_.front() != '\n') {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == quote) return text;
      if (c != '\\' || quote == '\'') {
        text += c;
        continue;
      }
      const std::optional<char> escaped =
          rest_.empty() ? std::nullopt : Escaped(rest_.front());
      if (!escaped) {
        return Fail(StrCat("the escape ",
                           Quoted(StrCat("\\", rest_.substr(0, 1))),
                           " is not read; expected one of \\b \\t \\n \\f \\r "
                           "\\\" \\\\, or a string in single quotes"));
      }
      text += *escaped;
      rest_.remove_prefix(1);
    }
    return Fail(StrCat("a string has no end: ", Quoted(text)));
  }

  std::string_view rest_;
  int64_t line_ = 1;
  std::string table_;
  std::vector<ConfigEntry> entries_;
};

}  // namespace

Result<std::vector<ConfigEntry>> ParseConfig(std::string_view text) {
  return Parser(text).Parse();
}

}  // namespace stowage::tools
