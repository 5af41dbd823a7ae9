#include "text/sentence_piece_normalizer.h"

#include <utility>

#include "base/result.h"
#include "text/utf8.h"

namespace stowage::text {

Result<SentencePieceNormalizer> SentencePieceNormalizer::Create(
    const SentencePieceRules& rules) {
  SentencePieceNormalizer result;
  STOWAGE_ASSIGN_OR_RETURN(result.charsmap_, Charsmap::Parse(rules.charsmap));
  std::vector<AddedToken> kept;
  for (const std::string& text : rules.kept) {
    if (text.empty()) {
      return InvalidArgumentError(
          "[text] a user-defined piece is empty; expected a text");
    }
    kept.push_back({.text = text});
  }
  result.kept_ = AddedTokens(std::move(kept));
  result.rules_ = rules;
  return result;
}

SentencePieceNormalizer::Start SentencePieceNormalizer::Next(
    std::string_view text) const {
  if (const AddedToken* const kept = kept_.At(text)) {
    return {kept->text, kept->text.size()};
  }
  if (const auto rule = charsmap_.Longest(text)) {
    return {rule->replacement, rule->bytes};
  }
  const size_t bytes = FirstCharacter(text).bytes;
  return {text.substr(0, bytes), bytes};
}

void SentencePieceNormalizer::Run(std::string_view text, bool goes_on,
                                  std::string* out) const {
  const bool collapse = rules_.collapse_spaces;
  const std::string_view space = rules_.escape_spaces ? "▁" : " ";
  out->clear();
  while (collapse && !goes_on && !text.empty()) {
    const Start start = Next(text);
    if (start.normal != " ") break;
    text.remove_prefix(start.bytes);
  }
  if (text.empty()) return;
  if (rules_.add_space && !goes_on) *out += space;
  bool after_space = collapse && !goes_on;
  while (!text.empty()) {
    Start start = Next(text);
    text.remove_prefix(start.bytes);
    while (after_space && start.normal.starts_with(' ')) {
      start.normal.remove_prefix(1);
    }
    for (const char c : start.normal) {
      if (c == ' ') {
        *out += space;
      } else {
        *out += c;
      }
    }
    if (collapse && !start.normal.empty()) {
      after_space = start.normal.ends_with(' ');
    }
  }
  while (collapse && out->ends_with(space)) {
    out->resize(out->size() - space.size());
  }
}

}  // namespace stowage::text
