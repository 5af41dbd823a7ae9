#include "text/text_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "formats/json.h"
#include "text/tokenizer_json.h"

namespace stowage {
namespace {

constexpr int kMaxTemplateLevels = 64;

int64_t AddedBy(const std::vector<TextTemplate::Piece>& pieces) {
  int64_t added = 0;
  for (const TextTemplate::Piece& piece : pieces) {
    added += std::ssize(piece.tokens);
  }
  return added;
}

// The number of tokens of each of two texts to keep, `most` in all.
std::array<int64_t, 2> LongestFirst(int64_t first, int64_t second,
                                    int64_t most) {
  if (first + second <= most) return {first, second};
  int64_t shorter = std::min(first, second);
  int64_t longer = std::max(shorter, most - shorter);
  if (shorter > most) longer = shorter;
  if (shorter + longer > most) {
    shorter = most / 2;
    longer = shorter + most % 2;
  }
  return first > second ? std::array{longer, shorter}
                        : std::array{shorter, longer};
}

}  // namespace

Result<TextTemplate> TextTemplate::Parse(std::string_view tokenizer_json) {
  if (const Status json = CheckJsonText(tokenizer_json, kMaxTemplateLevels);
      !json.ok()) {
    return InvalidArgumentError("[tokenizer.json] ", json.error().message);
  }
  const auto file = nlohmann::json::parse(tokenizer_json, nullptr,
                                          /*allow_exceptions=*/false);
  if (!file.is_object()) {
    return InvalidArgumentError("[tokenizer.json] is no JSON object");
  }
  const auto processor = file.find("post_processor");
  if (processor == file.end() || processor->is_null()) return TextTemplate();
  return text::ReadTextTemplate(*processor);
}

int64_t TextTemplate::added_tokens(bool is_pair) const {
  return AddedBy(is_pair ? pair_ : single_);
}

JoinedTexts TextTemplate::Join(std::span<const int32_t> first,
                               const std::vector<int32_t>* second,
                               int64_t max_tokens) const {
  const bool is_pair = second != nullptr;
  const int64_t most = max_tokens - added_tokens(is_pair);
  STOWAGE_CHECK(most >= 0);
  std::array<std::span<const int32_t>, 2> texts = {first, {}};
  if (is_pair) texts[1] = *second;
  const std::array<int64_t, 2> kept =
      is_pair ? LongestFirst(std::ssize(texts[0]), std::ssize(texts[1]), most)
              : std::array{std::min(std::ssize(first), most), int64_t{0}};
  JoinedTexts joined;
  for (size_t i = 0; i < 2; ++i) {
    joined.is_cut = joined.is_cut || kept[i] < std::ssize(texts[i]);
    texts[i] = texts[i].first(static_cast<size_t>(kept[i]));
  }
  for (const Piece& piece : is_pair ? pair_ : single_) {
    const std::span<const int32_t> tokens =
        piece.text < 0 ? piece.tokens : texts[static_cast<size_t>(piece.text)];
    joined.tokens.insert(joined.tokens.end(), tokens.begin(), tokens.end());
    joined.types.resize(joined.tokens.size(), piece.type);
  }
  return joined;
}

}  // namespace stowage
