#include "text/tokenizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/errors.h"
#include "base/hash.h"
#include "base/strings.h"
#include "text/bpe.h"
#include "text/utf8.h"

namespace stowage {
namespace {

using text::AddedTokens;
using text::Bpe;
using text::PreTokenizer;

// Gives the added tokens places among the tokens.
Status PlaceAdded(const std::vector<AddedToken>& added,
                  std::vector<std::string>* tokens) {
  const int32_t ids = IdsOf(tokens->size() + added.size());
  for (const AddedToken& token : added) {
    if (token.text.empty()) {
      return InvalidArgumentError("[text] the added token ", token.id,
                                  " is empty");
    }
    // Else it could be found within a character, and leave the patterns what is none.
    std::string well_formed;
    if (text::WellFormed(token.text, &well_formed) != token.text) {
      return InvalidArgumentError(
          "[text] the added token ", token.id,
          " is no UTF-8; expected the text that it stands for");
    }
    if (token.id < 0 || token.id >= ids) {
      return InvalidArgumentError(
          "[text] the added token ", Quoted(token.text), " has id ", token.id,
          "; expected one from 0 to ", ids - 1, " among ",
          tokens->size() + added.size(), " tokens");
    }
    const auto id = static_cast<size_t>(token.id);
    if (id >= tokens->size()) tokens->resize(id + 1);
    std::string& place = (*tokens)[id];
    if (!place.empty() && place != token.text) {
      return InvalidArgumentError("[text] the added token ", Quoted(token.text),
                                  " has id ", token.id, ", which is that of ",
                                  Quoted(place));
    }
    place = token.text;
  }
  return {};
}

Status CheckIds(const std::vector<int32_t>& ids, int32_t size,
                std::string_view what) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= size) {
      return InvalidArgumentError("[text] ", what, " is token ", id, " of ",
                                  size, " tokens");
    }
  }
  return {};
}

}  // namespace

namespace {

uint64_t DigestOf(const TokenizerParts& parts) {
  uint64_t digest = 0;
  const auto add = [&](std::string_view part) { digest = Xxh64(part, digest); };
  const auto add_numbers = [&](const auto&... numbers) {
    add(StrCat("", StrCat(numbers, ",")...));
  };
  add_numbers(parts.tokens.size(), parts.merges.size(), parts.added.size());
  for (const std::string& token : parts.tokens) add(token);
  for (const std::string& merge : parts.merges) add(merge);
  for (const AddedToken& token : parts.added) {
    add(token.text);
    add_numbers(token.id, token.special, token.strip_left, token.strip_right,
                token.normalized);
  }
  for (const PreTokenizerStep& step : parts.pre_tokenizer) {
    add(step.pattern);
    add_numbers(static_cast<int>(step.behavior), step.invert);
  }
  add_numbers(parts.nfc, parts.ignore_merges, parts.unknown.value_or(-1),
              parts.fuse_unknown);
  for (const auto* const around : {&parts.prefix, &parts.suffix}) {
    add_numbers(around->size());
    for (const int32_t id : *around) add_numbers(id);
  }
  return digest;
}

}  // namespace

struct Tokenizer::Data {
  Bpe bpe;
  PreTokenizer pre_tokenizer;
  AddedTokens raw;         // looked for in the text as it is
  AddedTokens normalized;  // and in the normalized text
  std::unordered_map<int32_t, AddedToken> added;  // by id
  std::unordered_map<std::string, int32_t> added_ids;
  std::vector<int32_t> prefix, suffix;
  bool nfc = false;
  uint64_t digest = 0;
};

Result<Tokenizer> Tokenizer::Create(TokenizerParts parts) {
  if (parts.tokens.size() > static_cast<size_t>(kMaxTokens)) {
    return InvalidArgumentError("[text] there are ", parts.tokens.size(),
                                " tokens; at most ", kMaxTokens, " are read");
  }
  if (parts.merges.empty()) {
    return InvalidArgumentError(
        "[text] the tokenizer has no merges; expected one of byte pair "
        "encoding, with "
        "a list of them");
  }
  STOWAGE_RETURN_IF_ERROR(PlaceAdded(parts.added, &parts.tokens));
  const uint64_t digest = DigestOf(parts);
  const auto size = static_cast<int32_t>(parts.tokens.size());
  STOWAGE_RETURN_IF_ERROR(
      CheckIds(parts.prefix, size, "what goes before a text"));
  STOWAGE_RETURN_IF_ERROR(
      CheckIds(parts.suffix, size, "what goes after a text"));
  if (parts.unknown) {
    STOWAGE_RETURN_IF_ERROR(
        CheckIds({*parts.unknown}, size, "the unknown token"));
  }
  STOWAGE_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                           PreTokenizer::Create(parts.pre_tokenizer));
  STOWAGE_ASSIGN_OR_RETURN(Bpe bpe,
                           Bpe::Create(parts.tokens, parts.merges,
                                       {.ignore_merges = parts.ignore_merges,
                                        .unknown = parts.unknown,
                                        .fuse_unknown = parts.fuse_unknown}));
  Data data{.bpe = std::move(bpe),
            .pre_tokenizer = std::move(pre_tokenizer),
            .raw = {},
            .normalized = {},
            .added = {},
            .added_ids = {},
            .prefix = std::move(parts.prefix),
            .suffix = std::move(parts.suffix),
            .nfc = parts.nfc,
            .digest = digest};
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : parts.added) {
    data.added_ids.emplace(token.text, token.id);
    data.added.insert_or_assign(token.id, token);
    if (token.normalized && parts.nfc) {
      std::string storage;
      token.text = std::string(text::Nfc(token.text, &storage));
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  data.raw = AddedTokens(std::move(raw));
  data.normalized = AddedTokens(std::move(normalized));
  return Tokenizer(std::make_shared<const Data>(std::move(data)));
}

Result<std::vector<int32_t>> Tokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  if (options.add_prefix) ids = data_->prefix;
  PreTokenizer::Searches searches = data_->pre_tokenizer.NewSearches();
  const std::function<void(std::string_view)> encode =
      [&](std::string_view word) { data_->bpe.Encode(word, &ids); };
  const std::function<void(int32_t)> take = [&](int32_t id) {
    ids.push_back(id);
  };
  const std::function<Status(std::string_view)> cut =
      [&](std::string_view piece) {
        return data_->pre_tokenizer.ForEachWord(piece, &searches, encode);
      };
  std::string well_formed, normal;
  STOWAGE_RETURN_IF_ERROR(data_->raw.Split(
      text::WellFormed(text, &well_formed), options.special,
      [&](std::string_view piece) {
        if (data_->nfc) piece = text::Nfc(piece, &normal);
        return data_->normalized.Split(piece, options.special, cut, take);
      },
      take));
  if (options.add_prefix) {
    ids.insert(ids.end(), data_->suffix.begin(), data_->suffix.end());
  }
  return ids;
}

Result<int64_t> Tokenizer::Count(std::string_view text,
                                 const EncodeOptions& options) const {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                           Encode(text, options));
  return static_cast<int64_t>(ids.size());
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids,
                                      const DecodeOptions& options) const {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int32_t id = ids[i];
    if (const auto added = data_->added.find(id); added != data_->added.end()) {
      if (!added->second.special || !options.skip_special) {
        text += added->second.text;
      }
      continue;
    }
    const std::string_view bytes =
        id >= 0 && id < size() ? data_->bpe.Bytes(id) : std::string_view();
    if (bytes.empty()) {
      return InvalidArgumentError(
          "[text] number ", i, " is ", id,
          ", which is no token; expected ids from 0 to ", size() - 1);
    }
    text += bytes;
  }
  return text;
}

std::span<const int32_t> Tokenizer::prefix() const { return data_->prefix; }

std::span<const int32_t> Tokenizer::suffix() const { return data_->suffix; }

uint64_t Tokenizer::digest() const { return data_->digest; }

int32_t Tokenizer::size() const { return data_->bpe.size(); }

std::vector<int32_t> Tokenizer::unused() const {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size(); ++id) {
    if (!data_->added.contains(id) && data_->bpe.Bytes(id).empty()) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::optional<int32_t> Tokenizer::FindAdded(std::string_view text) const {
  const auto found = data_->added_ids.find(std::string(text));
  if (found == data_->added_ids.end()) return std::nullopt;
  return found->second;
}

}  // namespace stowage
