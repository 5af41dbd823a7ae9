#include "text/sentence_piece_normalizer.h"

#include <utility>

#include "base/result.h"
#include "text/unicode.h"

namespace stowage::text {
namespace {

// Little-endian.
uint32_t UnitAt(std::string_view bytes, size_t at) {
  uint32_t unit = 0;
  for (size_t i = 0; i < 4; ++i) {
    unit |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return unit;
}

// The fields of a unit of the double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t ValueOf(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t LabelOf(uint32_t unit) { return unit & 0x800000FFu; }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << (unit >> 6 & 8); }

}  // namespace

Result<Charsmap> Charsmap::Parse(std::string_view blob) {
  Charsmap charsmap;
  if (blob.empty()) return charsmap;
  const size_t bytes = blob.size() < 4 ? 0 : UnitAt(blob, 0);
  if (bytes == 0 || bytes % 4 != 0 || bytes > blob.size() - 4) {
    return InvalidArgumentError(
        "[text] a precompiled charsmap of ", blob.size(),
        " bytes has an array of ", bytes,
        "; expected whole units of 4 bytes, and as many as there are");
  }
  charsmap.units_.resize(bytes / 4);
  for (size_t i = 0; i < charsmap.units_.size(); ++i) {
    charsmap.units_[i] = UnitAt(blob, 4 + 4 * i);
  }
  charsmap.replacements_ = blob.substr(4 + bytes);
  std::string storage;
  const std::string_view whole = charsmap.replacements_;
  if (WellFormed(whole, &storage) != whole) {
    return InvalidArgumentError(
        "[text] the replacements of a precompiled charsmap are no UTF-8");
  }
  return charsmap;
}

std::optional<Charsmap::Rule> Charsmap::Find(std::string_view text,
                                             bool shortest) const {
  std::optional<Rule> found;
  if (units_.empty()) return found;
  size_t at = OffsetOf(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || LabelOf(units_[at]) != byte) break;
    const bool has_leaf = HasLeaf(units_[at]);
    at ^= OffsetOf(units_[at]);
    if (!has_leaf || at >= units_.size()) continue;
    const size_t begin = ValueOf(units_[at]);
    if (begin >= replacements_.size()) continue;
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    // Rules that end or begin in the middle of a character do not count.
    const bool is_whole =
        i + 1 == text.size() ||
        (static_cast<unsigned char>(text[i + 1]) & 0xC0u) != 0x80u;
    if (!is_whole || !FirstCharacter(rest).well_formed) continue;
    found = {i + 1, rest.substr(0, rest.find('\0'))};
    if (shortest) break;
  }
  return found;
}

std::optional<Charsmap::Rule> Charsmap::Longest(std::string_view text) const {
  return Find(text, false);
}

std::optional<Charsmap::Rule> Charsmap::Shortest(std::string_view text) const {
  return Find(text, true);
}

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
