#include "text/tokenizer.h"

#include <bit>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "text/bpe.h"
#include "text/piece_models.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

namespace stowage {
namespace {

using text::AddedTokens;
using text::Bpe;
using text::Normalizer;
using text::PreTokenizer;
using text::Unigram;
using text::WordPiece;

// The hash of all parts, each hashed after its length.
class PartsDigest {
 public:
  void Add(std::string_view part) {
    digest_ = Xxh64(part, Xxh64(StrCat(part.size()), digest_));
  }
  template <typename... Numbers>
  void AddNumbers(const Numbers&... numbers) {
    Add(StrCat("", StrCat(numbers, ",")...));
  }
  void Add(const AddedToken& token) {
    Add(token.text);
    AddNumbers(token.id, token.special, token.strip_left, token.strip_right,
               token.single_word, token.normalized, token.is_normal);
  }
  void Add(const PreTokenizerStep& step) {
    Add(step.pattern);
    AddNumbers(static_cast<int>(step.behavior), step.invert,
               static_cast<int>(step.kind), static_cast<int>(step.prefix));
  }
  void Add(const NormalizerStep& step) {
    Add(step.pattern);
    Add(step.content);
    AddNumbers(static_cast<int>(step.kind), step.left, step.right,
               step.rules.add_space, step.rules.collapse_spaces,
               step.rules.escape_spaces);
    Add(step.rules.charsmap);
    AddAll(step.rules.kept);
  }
  void Add(const DecoderStep& step) {
    Add(step.pattern);
    Add(step.content);
    AddNumbers(static_cast<int>(step.kind), step.left, step.right, step.first,
               step.cleanup);
  }
  void Add(int32_t id) { AddNumbers(id); }
  void Add(double score) { AddNumbers(std::bit_cast<int64_t>(score)); }
  template <typename T>
  void AddAll(const std::vector<T>& parts) {
    AddNumbers(parts.size());
    for (const T& part : parts) Add(part);
  }
  uint64_t digest() const { return digest_; }

 private:
  uint64_t digest_ = 0;
};

// Equal for equal parts, whatever the file format.
uint64_t DigestOf(const TokenizerParts& parts) {
  PartsDigest digest;
  digest.AddAll(parts.tokens);
  digest.AddAll(parts.merges);
  digest.AddAll(parts.added);
  digest.AddAll(parts.pre_tokenizer);
  digest.AddAll(parts.normalizer);
  digest.AddAll(parts.decoder);
  digest.AddAll(parts.prefix);
  digest.AddAll(parts.suffix);
  digest.AddAll(parts.scores);
  digest.AddAll(parts.apart);
  digest.AddNumbers(static_cast<int>(parts.model), parts.ignore_merges,
                    parts.unknown.value_or(-1), parts.fuse_unknown,
                    parts.byte_fallback, parts.is_single,
                    std::bit_cast<int64_t>(parts.least_score.value_or(0)),
                    parts.max_word_characters);
  digest.Add(parts.word_prefix);
  return digest.digest();
}

// Puts the added tokens among the tokens; those at new ids are never made by the model.
Status PlaceAdded(TokenizerParts* parts) {
  std::vector<std::string>* const tokens = &parts->tokens;
  const std::vector<AddedToken>& added = parts->added;
  const int32_t ids = IdsOf(tokens->size() + added.size());
  for (const AddedToken& token : added) {
    if (token.text.empty()) {
      return InvalidArgumentError("[text] the added token ", token.id,
                                  " is empty");
    }
    // Otherwise it could match within a character, and leave ill-formed text.
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
    if (place.empty()) parts->apart.push_back(token.id);
    place = token.text;
  }
  if (!parts->scores.empty()) parts->scores.resize(tokens->size());
  return {};
}

// Byte pair encoding needs merges or scores; unigram models need scores.
Status CheckScores(const TokenizerParts& parts) {
  if (parts.tokens.empty() && parts.model == TokenizerModel::kWordPiece) {
    return InvalidArgumentError(
        "[text] the vocabulary has no tokens; expected those that words begin "
        "with and go on with");
  }
  if (parts.model == TokenizerModel::kWordPiece) return {};
  if (parts.scores.empty()) {
    if (parts.model == TokenizerModel::kUnigram) {
      return InvalidArgumentError(
          "[text] the unigram model has no tokens; expected a list of them, "
          "with scores");
    }
    if (!parts.merges.empty()) return {};
    return InvalidArgumentError(
        "[text] the tokenizer has no merges; expected one of byte pair "
        "encoding, with a list of them");
  }
  if (parts.scores.size() != parts.tokens.size()) {
    return InvalidArgumentError("[text] there are ", parts.scores.size(),
                                " scores for ", parts.tokens.size(),
                                " tokens; expected one for each");
  }
  for (size_t id = 0; id < parts.scores.size(); ++id) {
    if (!std::isfinite(parts.scores[id])) {
      return InvalidArgumentError("[text] the score of token ", id, " is ",
                                  parts.scores[id],
                                  "; expected a finite number");
    }
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

// Checks that the ids that encoding adds are tokens.
Status CheckTokens(const std::vector<int32_t>& ids, const TokenizerParts& parts,
                   std::string_view what) {
  STOWAGE_RETURN_IF_ERROR(
      CheckIds(ids, static_cast<int32_t>(parts.tokens.size()), what));
  for (const int32_t id : ids) {
    if (!parts.tokens[static_cast<size_t>(id)].empty()) continue;
    return InvalidArgumentError("[text] ", what, " is ", id,
                                ", which has no text; expected a token");
  }
  return {};
}

Status CheckParts(const TokenizerParts& parts) {
  STOWAGE_RETURN_IF_ERROR(
      CheckTokens(parts.prefix, parts, "what goes before a text"));
  STOWAGE_RETURN_IF_ERROR(
      CheckTokens(parts.suffix, parts, "what goes after a text"));
  STOWAGE_RETURN_IF_ERROR(CheckIds(parts.apart,
                                   static_cast<int32_t>(parts.tokens.size()),
                                   "what no text becomes"));
  if (parts.unknown) {
    STOWAGE_RETURN_IF_ERROR(
        CheckTokens({*parts.unknown}, parts, "the unknown token"));
  }
  return text::CheckDecoder(parts.decoder);
}

using Model = std::variant<Bpe, Unigram, WordPiece>;

Result<Unigram> UnigramOf(const TokenizerParts& parts) {
  return Unigram::Create(parts.tokens, parts.scores,
                         {.unknown = parts.unknown,
                          .byte_fallback = parts.byte_fallback,
                          .is_single = parts.is_single,
                          .least = parts.least_score,
                          .apart = parts.apart});
}

Result<Bpe> BpeOf(const TokenizerParts& parts) {
  const text::BpeOptions options = {
      .ignore_merges = parts.ignore_merges,
      .unknown = parts.unknown,
      .fuse_unknown = parts.fuse_unknown,
      .characters = parts.model != TokenizerModel::kByteBpe,
      .byte_fallback = parts.byte_fallback,
      .apart = parts.apart};
  if (options.characters && !parts.scores.empty()) {
    return Bpe::ByScores(parts.tokens, parts.scores, options);
  }
  return Bpe::Create(parts.tokens, parts.merges, options);
}

Result<WordPiece> WordPieceOf(const TokenizerParts& parts) {
  return WordPiece::Create(parts.tokens,
                           {.unknown = parts.unknown,
                            .prefix = parts.word_prefix,
                            .max_characters = parts.max_word_characters,
                            .apart = parts.apart});
}

Result<Model> ModelOf(const TokenizerParts& parts) {
  if (parts.model == TokenizerModel::kUnigram) {
    STOWAGE_ASSIGN_OR_RETURN(Unigram unigram, UnigramOf(parts));
    return Model(std::move(unigram));
  }
  if (parts.model == TokenizerModel::kWordPiece) {
    STOWAGE_ASSIGN_OR_RETURN(WordPiece pieces, WordPieceOf(parts));
    return Model(std::move(pieces));
  }
  STOWAGE_ASSIGN_OR_RETURN(Bpe bpe, BpeOf(parts));
  return Model(std::move(bpe));
}

// Normalizes the added tokens that are matched in normalized text.
Status NormalizeAdded(const Normalizer& normalizer,
                      std::vector<AddedToken>* added) {
  Normalizer::Work work = normalizer.NewWork();
  for (AddedToken& token : *added) {
    if (!token.normalized || token.is_normal) continue;
    STOWAGE_ASSIGN_OR_RETURN(const std::string_view normal,
                             normalizer.Run(token.text, false, &work));
    if (normal.empty()) {
      return UnsupportedError("[text] the added token ", Quoted(token.text),
                              " is nothing when it is normalized; expected "
                              "one that a text may have");
    }
    token.text = std::string(normal);
  }
  return {};
}

}  // namespace

struct Tokenizer::Data {
  int32_t size() const {
    return std::visit([](const auto& of) { return of.size(); }, model);
  }
  std::string_view Bytes(int32_t id) const {
    return std::visit([&](const auto& of) { return of.Bytes(id); }, model);
  }
  void Encode(std::string_view word, std::vector<int32_t>* ids) const {
    std::visit([&](const auto& of) { of.Encode(word, ids); }, model);
  }
  int64_t WithoutToken(std::string_view word,
                       std::span<const int32_t> ids) const;

  Model model;
  std::optional<int32_t> unknown = std::nullopt;
  bool uses_byte_tokens = false;  // "<0x0A>" and so on
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens raw = {};         // matched in the raw text
  AddedTokens normalized = {};  // matched in the normalized text
  std::unordered_map<int32_t, AddedToken> added = {};  // by id
  std::unordered_map<std::string, int32_t> added_ids = {};
  std::vector<int32_t> prefix, suffix;
  std::vector<DecoderStep> decoder;
  uint64_t digest = 0;
};

// The number of bytes of a word that its tokens do not represent.
int64_t Tokenizer::Data::WithoutToken(std::string_view word,
                                      std::span<const int32_t> ids) const {
  const bool is_pieces = std::holds_alternative<WordPiece>(model);
  int64_t without = std::ssize(word);
  for (const int32_t id : ids) {
    if (id == unknown) continue;
    if (is_pieces) return 0;  // a word has tokens or none
    const std::string_view bytes = Bytes(id);
    const bool is_byte =
        uses_byte_tokens && text::ByteOfToken(bytes).has_value();
    without -= is_byte ? 1 : std::ssize(bytes);
  }
  return without;
}

Result<Tokenizer> Tokenizer::Create(TokenizerParts parts) {
  if (parts.tokens.size() > static_cast<size_t>(kMaxTokens)) {
    return InvalidArgumentError("[text] there are ", parts.tokens.size(),
                                " tokens; at most ", kMaxTokens, " are read");
  }
  STOWAGE_RETURN_IF_ERROR(CheckScores(parts));
  STOWAGE_RETURN_IF_ERROR(PlaceAdded(&parts));
  const uint64_t digest = DigestOf(parts);
  STOWAGE_RETURN_IF_ERROR(CheckParts(parts));
  STOWAGE_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                           PreTokenizer::Create(parts.pre_tokenizer));
  STOWAGE_ASSIGN_OR_RETURN(Normalizer normalizer,
                           Normalizer::Create(std::move(parts.normalizer)));
  STOWAGE_ASSIGN_OR_RETURN(Model model, ModelOf(parts));
  Data data{.model = std::move(model),
            .unknown = parts.unknown,
            .uses_byte_tokens = parts.byte_fallback,
            .normalizer = std::move(normalizer),
            .pre_tokenizer = std::move(pre_tokenizer),
            .prefix = std::move(parts.prefix),
            .suffix = std::move(parts.suffix),
            .decoder = std::move(parts.decoder),
            .digest = digest};
  for (const AddedToken& token : parts.added) {
    data.added_ids.emplace(token.text, token.id);
  }
  STOWAGE_RETURN_IF_ERROR(NormalizeAdded(data.normalizer, &parts.added));
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : parts.added) {
    data.added.insert_or_assign(token.id, token);
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
  Normalizer::Work work = data_->normalizer.NewWork();
  PreTokenizer::Searches searches = data_->pre_tokenizer.NewSearches();
  const std::function<void(std::string_view)> encode =
      [&](std::string_view word) {
        const size_t before = ids.size();
        data_->Encode(word, &ids);
        if (options.without_token == nullptr) return;
        *options.without_token +=
            data_->WithoutToken(word, std::span(ids).subspan(before));
      };
  const std::function<void(int32_t)> take = [&](int32_t id) {
    ids.push_back(id);
  };
  std::string well_formed;
  const std::string_view whole = text::WellFormed(text, &well_formed);
  const bool goes_on = options.after && !data_->added.contains(*options.after);
  STOWAGE_RETURN_IF_ERROR(data_->raw.Split(
      whole, options.special,
      [&](std::string_view piece) -> Status {
        const bool is_first = piece.data() == whole.data();
        STOWAGE_ASSIGN_OR_RETURN(
            const std::string_view normal,
            data_->normalizer.Run(piece, is_first && goes_on, &work));
        const auto cut = [&](std::string_view part) {
          const bool is_begin =
              is_first && !work.is_moved && part.data() == normal.data();
          return data_->pre_tokenizer.ForEachWord(
              part, {.is_begin = is_begin, .goes_on = is_begin && goes_on},
              &searches, encode);
        };
        return data_->normalized.Split(normal, options.special, cut, take);
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
  const bool is_plain = data_->decoder.empty();
  std::string text;
  std::vector<std::string> tokens;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int32_t id = ids[i];
    std::string_view bytes =
        id >= 0 && id < size() ? data_->Bytes(id) : std::string_view();
    if (const auto added = data_->added.find(id); added != data_->added.end()) {
      if (added->second.special && options.skip_special) continue;
      bytes = added->second.text;
    }
    if (bytes.empty()) {
      return InvalidArgumentError(
          "[text] number ", i, " is ", id,
          ", which is no token; expected ids from 0 to ", size() - 1);
    }
    if (is_plain) {
      text += bytes;
    } else {
      tokens.emplace_back(bytes);
    }
  }
  if (is_plain) return text;
  return text::Decode(data_->decoder, std::move(tokens));
}

std::span<const int32_t> Tokenizer::prefix() const { return data_->prefix; }

std::span<const int32_t> Tokenizer::suffix() const { return data_->suffix; }

uint64_t Tokenizer::digest() const { return data_->digest; }

int32_t Tokenizer::size() const { return data_->size(); }

std::vector<int32_t> Tokenizer::unused() const {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < size(); ++id) {
    if (!data_->added.contains(id) && data_->Bytes(id).empty()) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::optional<int32_t> Tokenizer::unknown() const { return data_->unknown; }

std::optional<int32_t> Tokenizer::FindAdded(std::string_view text) const {
  const auto found = data_->added_ids.find(std::string(text));
  if (found == data_->added_ids.end()) return std::nullopt;
  return found->second;
}

}  // namespace stowage
