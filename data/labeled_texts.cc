#include "data/labeled_texts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

constexpr int kMaxRowLevels = 64;  // of lists and objects in a line
constexpr std::array<std::string_view, 3> kKeys = {"text", "text_pair",
                                                   "label"};
// Keys that change training in other programs.
constexpr std::array<std::string_view, 6> kMeantKeys = {
    "labels", "label_ids", "weight", "weights", "sample_weight", "input_ids"};

std::optional<int64_t> LabelNumber(std::string_view label) {
  int64_t number = 0;
  const auto [end, code] =
      std::from_chars(label.data(), label.data() + label.size(), number);
  if (code != std::errc() || end != label.data() + label.size() || number < 0) {
    return std::nullopt;
  }
  return number;
}

class TableReader {
 public:
  TableReader(std::string_view origin, LabeledTexts* texts)
      : origin_(origin), texts_(*texts) {}

  Status ReadJsonLines(std::string_view text) {
    for (int64_t line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view row = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      STOWAGE_RETURN_IF_ERROR(ReadObject(row, line));
    }
    return {};
  }

  Status ReadTable(std::string_view text, char delimiter) {
    DelimitedText table(text, delimiter);
    std::vector<std::string> header, fields;
    const auto next = [&](std::vector<std::string>* row) -> Result<bool> {
      auto is_there = table.Next(row);
      if (is_there.ok()) return is_there;
      return Invalid(StrCat(Quoted(origin_), " ", is_there.error().message));
    };
    STOWAGE_ASSIGN_OR_RETURN(bool is_there, next(&header));
    if (!is_there) return {};
    STOWAGE_RETURN_IF_ERROR(CheckHeader(header));
    while (true) {
      STOWAGE_ASSIGN_OR_RETURN(is_there, next(&fields));
      if (!is_there) return {};
      if (fields.size() != header.size()) {
        return At(table.line(),
                  StrCat("has ", fields.size(), " fields; the header has ",
                         header.size()));
      }
      LabeledText row{.line = table.line()};
      for (size_t i = 0; i < header.size(); ++i) {
        if (header[i] == "text") row.text = std::move(fields[i]);
        if (header[i] == "text_pair") row.pair = std::move(fields[i]);
        if (header[i] == "label") row.label = std::move(fields[i]);
      }
      row.is_number = LabelNumber(row.label).has_value();
      STOWAGE_RETURN_IF_ERROR(Add(std::move(row)));
    }
  }

 private:
  static Error Invalid(std::string_view message,
                       ErrorCode code = ErrorCode::kInvalidArgument) {
    return {code, StrCat("[examples] ", message)};
  }
  Error At(int64_t line, std::string_view message,
           ErrorCode code = ErrorCode::kInvalidArgument) const {
    return Invalid(StrCat(Quoted(origin_), ", line ", line, " ", message),
                   code);
  }

  Status CheckKey(std::string_view key, int64_t line) const {
    if (std::ranges::find(kMeantKeys, key) == kMeantKeys.end()) return {};
    return At(line, StrCat("has ", Quoted(key),
                           ", which would change what is learnt and is not "
                           "known; expected text, text_pair and label"));
  }

  Status CheckHeader(const std::vector<std::string>& header) {
    std::set<std::string_view> seen;
    for (const std::string& name : header) {
      STOWAGE_RETURN_IF_ERROR(CheckKey(name, 1));
      if (!seen.insert(name).second) {
        return At(1, StrCat("has the column ", Quoted(name), " twice"));
      }
      if (std::ranges::find(kKeys, name) == kKeys.end()) {
        unread_columns_.push_back(name);
      }
    }
    for (const std::string_view name : {"text", "label"}) {
      if (seen.contains(name)) continue;
      return At(1, StrCat("has no column ", Quoted(name),
                          "; expected a header with text, label and, of pairs, "
                          "text_pair"));
    }
    return {};
  }

  Status ReadObject(std::string_view line_text, int64_t line) {
    const std::string text(line_text);
    if (const Status json = CheckJsonText(text, kMaxRowLevels); !json.ok()) {
      return At(line, json.error().message);
    }
    const Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return At(line, "is no JSON object");
    LabeledText row{.line = line};
    for (const auto& [key, value] : object.items()) {
      if (value.is_null()) continue;
      STOWAGE_RETURN_IF_ERROR(CheckKey(key, line));
      if (key == "label") {
        STOWAGE_RETURN_IF_ERROR(ReadLabel(value, &row));
      } else if (key == "text" || key == "text_pair") {
        if (!value.is_string()) {
          return At(line, StrCat("has a ", Quoted(key), " that is no text"));
        }
        if (key == "text") row.text = value.get<std::string>();
        if (key == "text_pair") row.pair = value.get<std::string>();
      } else {
        ++texts_.unread_keys[key];
      }
    }
    for (const char* const key : {"text", "label"}) {
      if (object.contains(key) && !object[key].is_null()) continue;
      return At(line, StrCat("has no ", Quoted(key),
                             "; expected text, label and, of pairs, "
                             "text_pair"));
    }
    return Add(std::move(row));
  }

  Status ReadLabel(const Json& label, LabeledText* row) const {
    if (label.is_string()) {
      row->label = label.get<std::string>();
      return {};
    }
    if (label.is_array()) {
      return At(row->line,
                "has a list as its \"label\", which several labels at once "
                "are; one label a text is supported",
                ErrorCode::kUnsupported);
    }
    if (label.is_number_float()) {
      return At(row->line,
                StrCat("has a \"label\" of ", label.dump(),
                       ", which a regression has; names and whole numbers are "
                       "supported"),
                ErrorCode::kUnsupported);
    }
    row->label = label.dump(-1, ' ', true);
    row->is_number = label.is_number_integer() && LabelNumber(row->label);
    if (row->is_number) return {};
    return At(row->line, StrCat("has a \"label\" of ", row->label,
                                "; expected a name, or a whole number from 0"));
  }

  Status Add(LabeledText row) {
    if (row.label.empty()) {
      return At(row.line, "has an empty label; expected a name or a number");
    }
    for (const std::string& column : unread_columns_) {
      ++texts_.unread_keys[column];
    }
    texts_.rows.push_back(std::move(row));
    return {};
  }

  const std::string_view origin_;
  LabeledTexts& texts_;
  std::vector<std::string> unread_columns_;
};

}  // namespace

std::optional<TableFormat> TableFormatOf(std::string_view path) {
  if (EndsWithAnyCase(path, ".jsonl")) return TableFormat::kJsonLines;
  if (EndsWithAnyCase(path, ".csv")) return TableFormat::kCsv;
  if (EndsWithAnyCase(path, ".tsv")) return TableFormat::kTsv;
  return std::nullopt;
}

Result<LabeledTexts> ReadLabeledTexts(std::string_view text,
                                      std::string_view origin,
                                      TableFormat format) {
  LabeledTexts texts;
  TableReader reader(origin, &texts);
  STOWAGE_RETURN_IF_ERROR(
      format == TableFormat::kJsonLines
          ? reader.ReadJsonLines(text)
          : reader.ReadTable(text, format == TableFormat::kCsv ? ',' : '\t'));
  if (texts.rows.empty()) {
    return InvalidArgumentError("[examples] ", Quoted(origin),
                                " has no examples");
  }
  return texts;
}

Result<std::vector<std::string>> LabelNames(const LabeledTexts& texts,
                                            std::string_view origin) {
  std::set<std::string> names;
  const LabeledText* number = nullptr;
  const LabeledText* name = nullptr;
  for (const LabeledText& row : texts.rows) {
    names.insert(row.label);
    (row.is_number ? number : name) = &row;
  }
  if (names.size() < 2) {
    return InvalidArgumentError(
        "[examples] ", Quoted(origin), " has one label alone, ",
        Quoted(*names.begin()), "; expected at least 2");
  }
  if (name != nullptr && number != nullptr) {
    return InvalidArgumentError(
        "[examples] ", Quoted(origin), " has the label ", Quoted(name->label),
        " on line ", name->line, " and the number ", number->label, " on line ",
        number->line, "; expected names alone or numbers alone");
  }
  if (name != nullptr)
    return std::vector<std::string>(names.begin(), names.end());
  std::set<int64_t> numbers;
  for (const std::string& label : names) numbers.insert(*LabelNumber(label));
  int64_t next = 0;
  for (const int64_t label : numbers) {
    if (label != next) {
      return InvalidArgumentError("[examples] ", Quoted(origin),
                                  " has labels up to ", *numbers.rbegin(),
                                  ", and never ", next,
                                  "; expected each number, or names");
    }
    ++next;
  }
  std::vector<std::string> called;
  for (const int64_t label : numbers) called.push_back(StrCat("LABEL_", label));
  return called;
}

Result<std::vector<int32_t>> FindLabels(const LabeledTexts& texts,
                                        const std::vector<std::string>& names,
                                        std::string_view origin) {
  std::map<std::string_view, int32_t> by_name;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!by_name.emplace(names[i], static_cast<int32_t>(i)).second) {
      return InvalidArgumentError("[examples] two labels of the model are ",
                                  Quoted(names[i]),
                                  "; expected names that "
                                  "differ");
    }
  }
  std::vector<int32_t> labels;
  for (const LabeledText& row : texts.rows) {
    const auto found = by_name.find(row.label);
    const std::optional<int64_t> number =
        row.is_number ? LabelNumber(row.label) : std::nullopt;
    if (found != by_name.end()) {
      labels.push_back(found->second);
    } else if (number && *number < std::ssize(names)) {
      labels.push_back(static_cast<int32_t>(*number));
    } else {
      return InvalidArgumentError(
          "[examples] ", Quoted(origin), ", line ", row.line, " has the label ",
          Quoted(row.label), "; expected one of ", names.size(),
          ": a number below, or a name as ", Quoted(names[0]));
    }
  }
  return labels;
}

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

// Reads a quoted field, from its first quote to the one that ends it.
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

namespace {

constexpr size_t kHeldOutEvery = 10;

Result<JoinedTexts> TokensOfRow(const LabeledText& row,
                                const Tokenizer& tokenizer,
                                const TextTemplate& joins, int64_t seq,
                                std::string_view origin, int64_t* lost) {
  if (joins.added_tokens(row.pair.has_value()) > seq) {
    return InvalidArgumentError(
        "[finetune] seq ", seq, " has no place for the ",
        joins.added_tokens(row.pair.has_value()),
        " tokens that the tokenizer adds to texts; expected more");
  }
  const auto encode =
      [&](const std::string& text) -> Result<std::vector<int32_t>> {
    int64_t without_token = 0;
    auto tokens = tokenizer.Encode(
        text, {.add_prefix = false, .without_token = &without_token});
    *lost += without_token;
    return tokens;
  };
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> first, encode(row.text));
  std::optional<std::vector<int32_t>> second;
  if (row.pair) {
    STOWAGE_ASSIGN_OR_RETURN(second, encode(*row.pair));
  }
  JoinedTexts joined = joins.Join(first, second ? &*second : nullptr, seq);
  if (!joined.tokens.empty()) return joined;
  return InvalidArgumentError("[examples] ", Quoted(origin), ", line ",
                              row.line,
                              " has a text without tokens; leave it out");
}

}  // namespace

Result<LabeledSplit> SplitLabeledTexts(const LabeledTexts& texts,
                                       std::vector<int32_t> labels,
                                       const Tokenizer& tokenizer,
                                       const TextTemplate& joins,
                                       const LabeledSplitOptions& options,
                                       std::string_view origin) {
  LabeledSplit split{.seq = options.seq, .labels = std::move(labels)};
  std::vector<size_t> usable;
  for (const LabeledText& row : texts.rows) {
    STOWAGE_ASSIGN_OR_RETURN(JoinedTexts joined,
                             TokensOfRow(row, tokenizer, joins, options.seq,
                                         origin, &split.without_token));
    const int32_t type = std::ranges::max(joined.types);
    if (options.types > 0 && type >= options.types) {
      return InvalidArgumentError(
          "[finetune] the tokenizer gives the pair on line ", row.line, " of ",
          Quoted(origin), " tokens of type ", type, ", and the model has ",
          options.types, " token types; give the --tokenizer of this model");
    }
    const bool is_dropped = joined.is_cut && options.drops;
    split.cut += joined.is_cut && !is_dropped ? 1 : 0;
    split.dropped += is_dropped ? 1 : 0;
    if (!is_dropped) usable.push_back(split.texts.size());
    split.texts.push_back(std::move(joined));
  }
  if (usable.size() < 2) {
    return InvalidArgumentError(
        "[finetune] ", Quoted(origin), " has ", texts.rows.size(),
        " texts, of which ", usable.size(), " fit sequences of ", options.seq,
        " tokens; expected at least 2, one to learn from and one held out");
  }
  for (size_t i = 0; i < usable.size(); ++i) {
    const bool is_last_of_few =
        usable.size() < kHeldOutEvery && i + 1 == usable.size();
    const bool is_held_out =
        i % kHeldOutEvery == kHeldOutEvery - 1 || is_last_of_few;
    (is_held_out ? split.held_out : split.train).push_back(usable[i]);
  }
  return split;
}

std::vector<int64_t> TextLengths(const LabeledSplit& split,
                                 const std::vector<size_t>& part) {
  std::vector<int64_t> tokens;
  for (const size_t i : part) {
    tokens.push_back(std::ssize(split.texts[i].tokens));
  }
  return tokens;
}

}  // namespace stowage
