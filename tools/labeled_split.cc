#include "tools/labeled_split.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::tools {
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

}  // namespace stowage::tools
