#include "text/delimited_text.h"

#include <algorithm>

#include "base/result.h"

namespace stowage {
namespace {

bool AtLineEnd(std::string_view text) {
  return text.empty() || text.front() == '\n' || text.starts_with("\r\n");
}

}  // namespace

DelimitedText::DelimitedText(std::string_view text, char delimiter)
    : rest_(text), delimiter_(delimiter) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (rest_.starts_with(kByteOrderMark)) {
    rest_.remove_prefix(kByteOrderMark.size());
  }
}

// A field from its first quote to the one that ends it.
Status DelimitedText::ReadQuoted(std::string* field) {
  const int64_t begin = line_;
  rest_.remove_prefix(1);
  while (true) {
    const size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) {
      return InvalidArgumentError("has a quoted field that begins on line ",
                                  begin, " and has no end");
    }
    const std::string_view part = rest_.substr(0, quote);
    field->append(part);
    line_ += std::ranges::count(part, '\n');
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) return {};
    field->push_back('"');
    rest_.remove_prefix(1);
  }
}

Result<bool> DelimitedText::Next(std::vector<std::string>* fields) {
  fields->clear();
  while (!rest_.empty() && AtLineEnd(rest_)) {
    rest_.remove_prefix(rest_.find('\n') + 1);
    ++line_;
  }
  if (rest_.empty()) return false;
  row_line_ = line_;
  while (true) {
    std::string& field = fields->emplace_back();
    if (rest_.starts_with('"')) {
      STOWAGE_RETURN_IF_ERROR(ReadQuoted(&field));
      if (!AtLineEnd(rest_) && rest_.front() != delimiter_) {
        return InvalidArgumentError(
            "has characters behind the quote that ends field ", fields->size(),
            " on line ", line_, "; expected the next field or row");
      }
    } else {
      size_t end = 0;
      while (!AtLineEnd(rest_.substr(end)) && rest_[end] != delimiter_) ++end;
      field = rest_.substr(0, end);
      rest_.remove_prefix(end);
    }
    if (AtLineEnd(rest_)) break;
    rest_.remove_prefix(1);
  }
  if (!rest_.empty()) {
    rest_.remove_prefix(rest_.find('\n') + 1);
    ++line_;
  }
  return true;
}

}  // namespace stowage
