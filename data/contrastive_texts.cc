#include "data/contrastive_texts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

constexpr int kMaxRowDepth = 64;  // of lists and objects in a line
constexpr std::array<std::string_view, 4> kQueries = {"query", "anchor",
                                                      "question", "sentence1"};
constexpr std::array<std::string_view, 4> kPositives = {"positive", "pos",
                                                        "answer", "sentence2"};
constexpr std::array<std::string_view, 3> kNegatives = {"negative", "neg",
                                                        "negatives"};
constexpr std::string_view kNumbered = "negative_";
// Keys that change training in other programs.
constexpr std::array<std::string_view, 8> kOtherTraining = {
    "label",  "labels", "score",       "scores",
    "weight", "prompt", "instruction", "input_ids"};

template <size_t n>
bool IsAmong(const std::array<std::string_view, n>& keys,
             std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

// n of "negative_n"; absent for another key.
std::optional<int64_t> NumberOf(std::string_view key) {
  if (!key.starts_with(kNumbered)) return std::nullopt;
  key.remove_prefix(kNumbered.size());
  int64_t number = 0;
  const auto [end, code] =
      std::from_chars(key.data(), key.data() + key.size(), number);
  if (code != std::errc() || end != key.data() + key.size()) {
    return std::nullopt;
  }
  return number;
}

class RowReader {
 public:
  explicit RowReader(std::string_view origin) : origin_(origin) {}

  Status Read(const std::string& text, int64_t line) {
    line_ = line;
    if (const Status json = CheckJsonText(text, kMaxRowDepth); !json.ok()) {
      return At(json.error().message);
    }
    const Json row = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object()) return At("is no JSON object");
    ContrastiveRow read{.line = line};
    std::string query_key, positive_key;
    std::vector<std::pair<int64_t, std::string>> negatives;  // keys, by number
    for (const auto& [key, value] : row.items()) {
      if (value.is_null()) continue;
      const std::optional<int64_t> number = NumberOf(key);
      if (IsAmong(kQueries, key)) {
        STOWAGE_RETURN_IF_ERROR(TakeKey(key, &query_key));
      } else if (IsAmong(kPositives, key)) {
        STOWAGE_RETURN_IF_ERROR(TakeKey(key, &positive_key));
      } else if (number || IsAmong(kNegatives, key)) {
        negatives.emplace_back(number.value_or(-1), key);
      } else if (IsAmong(kOtherTraining, key)) {
        return At(StrCat("has ", Quoted(key),
                         ", which would change what is learnt and is not "
                         "known; expected a query, positives and negatives"));
      } else {
        ++texts_.unread_keys[key];
      }
    }
    if (query_key.empty()) {
      return At("has no query; expected query, anchor, question or sentence1");
    }
    if (positive_key.empty()) {
      return At("has no positive; expected positive, pos, answer or sentence2");
    }
    if (!row[query_key].is_string()) {
      return At(StrCat("has a ", Quoted(query_key), " that is no text"));
    }
    std::vector<std::string> queries;
    STOWAGE_RETURN_IF_ERROR(AddTexts(query_key, row[query_key], &queries));
    read.query = std::move(queries.front());
    STOWAGE_RETURN_IF_ERROR(
        AddTexts(positive_key, row[positive_key], &read.positives));
    if (read.positives.empty()) {
      return At(StrCat("has no text in ", Quoted(positive_key)));
    }
    std::ranges::stable_sort(negatives);
    for (const auto& [number, key] : negatives) {
      STOWAGE_RETURN_IF_ERROR(AddTexts(key, row[key], &read.negatives));
    }
    texts_.rows.push_back(std::move(read));
    return {};
  }

  ContrastiveTexts Take() { return std::move(texts_); }

 private:
  Error At(std::string_view message) const {
    return InvalidArgumentError("[examples] ", Quoted(origin_), ", line ",
                                line_, " ", message);
  }

  Status TakeKey(const std::string& key, std::string* taken) const {
    if (!taken->empty()) {
      return At(StrCat("has both ", Quoted(*taken), " and ", Quoted(key),
                       "; expected one of them"));
    }
    *taken = key;
    return {};
  }

  Status AddTexts(const std::string& key, const Json& value,
                  std::vector<std::string>* texts) const {
    if (!value.is_string() && !value.is_array()) {
      return At(StrCat("has a ", Quoted(key),
                       " that is neither a text nor a list of texts"));
    }
    const auto add = [&](const Json& text) -> Status {
      if (!text.is_string()) {
        return At(StrCat("has a list ", Quoted(key),
                         " with an element that is no text"));
      }
      texts->push_back(text.get<std::string>());
      if (!texts->back().empty()) return {};
      return At(StrCat("has an empty text in ", Quoted(key)));
    };
    if (value.is_string()) return add(value);
    for (const Json& text : value) STOWAGE_RETURN_IF_ERROR(add(text));
    return {};
  }

  const std::string_view origin_;
  int64_t line_ = 0;
  ContrastiveTexts texts_;
};

}  // namespace

Result<ContrastiveTexts> ReadContrastiveTexts(std::string_view text,
                                              std::string_view origin) {
  RowReader reader(origin);
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string row(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.find_first_not_of(" \t\r") == std::string::npos) continue;
    STOWAGE_RETURN_IF_ERROR(reader.Read(row, line));
  }
  ContrastiveTexts texts = reader.Take();
  if (texts.rows.empty()) {
    return InvalidArgumentError("[examples] ", Quoted(origin),
                                " has no examples; expected a JSON object a "
                                "line");
  }
  return texts;
}

namespace {

constexpr size_t kValidationEvery = 10;

// The tokens of texts, each of which is encoded once.
class TextTable {
 public:
  TextTable(const Tokenizer& tokenizer, const TextTemplate& joins,
            std::string_view origin, ContrastiveSplit* split)
      : tokenizer_(tokenizer), joins_(joins), origin_(origin), split_(*split) {}

  Result<size_t> Add(const std::string& text, int64_t line) {
    const auto [found, is_new] = numbers_.emplace(text, split_.texts.size());
    if (!is_new) return found->second;
    int64_t without_token = 0;
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<int32_t> tokens,
        tokenizer_.Encode(
            text, {.add_prefix = false, .without_token = &without_token}));
    split_.without_token += without_token;
    JoinedTexts joined = joins_.Join(tokens, nullptr, split_.seq);
    if (joined.tokens.empty()) {
      return InvalidArgumentError("[examples] ", Quoted(origin_), ", line ",
                                  line,
                                  " has a text without tokens; leave it out");
    }
    if (const int32_t type = std::ranges::max(joined.types); type != 0) {
      return InvalidArgumentError(
          "[finetune] the tokenizer gives the text on "
          "line ",
          line, " of ", Quoted(origin_), " tokens of type ", type,
          "; expected type 0, of single texts");
    }
    is_cut_.push_back(joined.is_cut);
    split_.texts.push_back(std::move(joined.tokens));
    return found->second;
  }

  bool IsCut(size_t text) const { return is_cut_[text]; }
  bool IsAnyCut(const ContrastiveSplit::Example& example) const {
    const auto is_cut = [this](size_t text) { return IsCut(text); };
    return IsCut(example.query) ||
           std::ranges::any_of(example.positives, is_cut) ||
           std::ranges::any_of(example.negatives, is_cut);
  }

 private:
  const Tokenizer& tokenizer_;
  const TextTemplate& joins_;
  const std::string_view origin_;
  ContrastiveSplit& split_;
  std::map<std::string, size_t, std::less<>> numbers_;
  std::vector<bool> is_cut_;
};

int64_t CountRepeated(const ContrastiveSplit& split) {
  std::vector<bool> is_positive(split.texts.size(), false);
  int64_t repeated = 0;
  for (const size_t i : split.train) {
    bool is_repeated = false;
    for (const size_t text : split.examples[i].positives) {
      is_repeated = is_repeated || is_positive[text];
    }
    for (const size_t text : split.examples[i].positives) {
      is_positive[text] = true;
    }
    repeated += is_repeated ? 1 : 0;
  }
  return repeated;
}

}  // namespace

Result<int64_t> NegativesOf(const ContrastiveTexts& texts,
                            std::optional<int64_t> asked,
                            std::string_view origin) {
  const auto fewest = std::ranges::min_element(
      texts.rows, {}, [](const auto& row) { return row.negatives.size(); });
  const auto count = std::ssize(fewest->negatives);
  if (asked && *asked < 0) {
    return InvalidArgumentError("[negatives] ", *asked, " is below 0");
  }
  if (!asked || *asked <= count) return asked.value_or(count);
  return InvalidArgumentError(
      "[negatives] ", Quoted(origin), ", line ", fewest->line, " has ", count,
      " negatives, and ", *asked,
      " are asked for; give fewer, or leave out rows with fewer");
}

void ContrastiveSplit::Documents(size_t example,
                                 std::optional<SplitMix64> random,
                                 std::span<size_t> documents) const {
  const Example& of = examples[example];
  const auto positives = std::ssize(of.positives);
  const int64_t first = random && positives > 1 ? random->Below(positives) : 0;
  documents[0] = of.positives[static_cast<size_t>(first)];
  // Takes each negative with the probability that it is among those still to take.
  int64_t left = std::ssize(of.negatives), wanted = negatives;
  for (size_t i = 0, to = 1; wanted > 0; ++i, --left) {
    if (random && wanted < left && random->Below(left) >= wanted) continue;
    documents[to++] = of.negatives[i];
    --wanted;
  }
}

int64_t ContrastiveSplit::LongestOf(size_t example) const {
  const Example& of = examples[example];
  int64_t longest = std::ssize(texts[of.query]);
  for (const std::vector<size_t>* const part : {&of.positives, &of.negatives}) {
    for (const size_t text : *part) {
      longest = std::max(longest, std::ssize(texts[text]));
    }
  }
  return longest;
}

Result<ContrastiveSplit> SplitContrastiveTexts(
    const ContrastiveTexts& texts, const Tokenizer& tokenizer,
    const TextTemplate& joins, const ContrastiveSplitOptions& options,
    std::string_view origin) {
  const int64_t added = joins.added_tokens(/*is_pair=*/false);
  if (added > options.seq) {
    return InvalidArgumentError(
        "[finetune] seq ", options.seq, " has no place for the ", added,
        " tokens that the tokenizer adds to texts; expected more");
  }
  ContrastiveSplit split{.seq = options.seq, .negatives = options.negatives};
  TextTable table(tokenizer, joins, origin, &split);
  std::vector<size_t> usable;
  for (const ContrastiveRow& row : texts.rows) {
    ContrastiveSplit::Example example;
    STOWAGE_ASSIGN_OR_RETURN(
        example.query, table.Add(options.query_prompt + row.query, row.line));
    const auto add = [&](const std::vector<std::string>& documents,
                         std::vector<size_t>* to) -> Status {
      for (const std::string& document : documents) {
        STOWAGE_ASSIGN_OR_RETURN(
            const size_t text,
            table.Add(options.document_prompt + document, row.line));
        to->push_back(text);
      }
      return {};
    };
    STOWAGE_RETURN_IF_ERROR(add(row.positives, &example.positives));
    if (split.negatives > 0) {
      STOWAGE_RETURN_IF_ERROR(add(row.negatives, &example.negatives));
    }
    if (options.drops && table.IsAnyCut(example)) {
      ++split.dropped;
      continue;
    }
    usable.push_back(split.examples.size());
    split.examples.push_back(std::move(example));
  }
  if (!options.drops) {
    for (size_t i = 0; i < split.texts.size(); ++i) {
      split.cut += table.IsCut(i) ? 1 : 0;
    }
  }
  if (usable.size() < 2) {
    return InvalidArgumentError(
        "[finetune] ", Quoted(origin), " has ", texts.rows.size(),
        " examples, of which ", usable.size(), " fit sequences of ",
        options.seq,
        " tokens; expected at least 2, one to learn from and one held out");
  }
  for (const size_t i : usable) {
    const bool is_last_of_few =
        usable.size() < kValidationEvery && i + 1 == usable.size();
    const bool is_held_out =
        i % kValidationEvery == kValidationEvery - 1 || is_last_of_few;
    (is_held_out ? split.held_out : split.train).push_back(i);
  }
  split.repeated = CountRepeated(split);
  return split;
}

std::vector<int64_t> LongestTexts(const ContrastiveSplit& split,
                                  const std::vector<size_t>& part) {
  std::vector<int64_t> tokens;
  for (const size_t i : part) tokens.push_back(split.LongestOf(i));
  return tokens;
}

}  // namespace stowage
