#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "text/sentence_piece.h"
#include "text/tokenizer_file.h"

namespace stowage {
namespace {

// llama.cpp's types of tokens.
constexpr int32_t kNormalToken = 1, kControlToken = 3, kAddedToken = 4,
                  kUnusedToken = 5;

Result<int32_t> To32(std::string_view key, int64_t value) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
    return InvalidArgumentError("[text] ", key, " has ", value,
                                "; expected 0 to ",
                                std::numeric_limits<int32_t>::max());
  }
  return static_cast<int32_t>(value);
}

// The value of a key; if it is missing, an error that says what the key is for.
template <typename T>
Result<T> Needed(Result<T> value, std::string_view key, std::string_view what) {
  if (value.ok() || value.error().code != ErrorCode::kNotFound) return value;
  return Error{ErrorCode::kNotFound,
               StrCat("[text] there is no ", Quoted(key), ", ", what,
                      "; take a tokenizer.json of the same model instead")};
}

std::vector<std::string> Copies(const std::vector<std::string_view>& texts) {
  return {texts.begin(), texts.end()};
}

constexpr std::string_view kModel = "tokenizer.ggml.model",
                           kPre = "tokenizer.ggml.pre",
                           kTokens = "tokenizer.ggml.tokens",
                           kMerges = "tokenizer.ggml.merges",
                           kTypes = "tokenizer.ggml.token_type",
                           kScores = "tokenizer.ggml.scores";

// The id of the key; absent if the key is.
Result<std::optional<int32_t>> OptionalId(const GgufHeader& header,
                                          std::string_view key) {
  if (!header.Find(key)) return std::optional<int32_t>();
  STOWAGE_ASSIGN_OR_RETURN(const int64_t id, header.Int(key));
  STOWAGE_ASSIGN_OR_RETURN(const int32_t narrow, To32(key, id));
  return std::optional<int32_t>(narrow);
}

Result<bool> BoolOr(const GgufHeader& header, std::string_view key,
                    bool absent) {
  if (!header.Find(key)) return absent;
  return header.Bool(key);
}

// Whether it is one of SentencePiece's models.
bool IsOfPieces(std::string_view model) {
  return model == "llama" || model == "t5";
}

// The bytes of an array of numbers.
Result<std::string> BytesAt(const GgufHeader& header, std::string_view key) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                           header.Ints(key));
  std::string bytes;
  bytes.reserve(numbers.size());
  for (const int64_t number : numbers) {
    if (number < -128 || number > 255) {
      return InvalidArgumentError("[text] ", key, " has ", number,
                                  "; expected bytes");
    }
    bytes += static_cast<char>(number);
  }
  return bytes;
}

Status ReadPieces(const GgufHeader& header, GgufTokenizer* gguf) {
  const bool is_llama = gguf->model == "llama";
  STOWAGE_ASSIGN_OR_RETURN(gguf->scores, Needed(header.Reals(kScores), kScores,
                                                "by which tokens are chosen"));
  STOWAGE_ASSIGN_OR_RETURN(
      gguf->add_space,
      BoolOr(header, "tokenizer.ggml.add_space_prefix", is_llama));
  if (is_llama) return {};
  STOWAGE_ASSIGN_OR_RETURN(
      gguf->collapse_spaces,
      BoolOr(header, "tokenizer.ggml.remove_extra_whitespaces", false));
  constexpr std::string_view kCharsmap = "tokenizer.ggml.precompiled_charsmap";
  if (!header.Find(kCharsmap)) return {};
  STOWAGE_ASSIGN_OR_RETURN(gguf->charsmap, BytesAt(header, kCharsmap));
  return {};
}

// Reads the keys that only one of the models has.
Status ReadModelOf(const GgufHeader& header, GgufTokenizer* gguf) {
  if (IsOfPieces(gguf->model)) return ReadPieces(header, gguf);
  STOWAGE_ASSIGN_OR_RETURN(const std::string_view pre,
                           Needed(header.Text(kPre), kPre,
                                  "which says how a text is cut into words"));
  gguf->pre = pre;
  STOWAGE_ASSIGN_OR_RETURN(
      const auto merges,
      Needed(header.Texts(kMerges), kMerges,
             "the list of merges that byte pair encoding joins bytes by"));
  gguf->merges = Copies(merges);
  return {};
}

// Adds the token that begins or ends every text.
Status AddEnd(std::string_view does, std::string_view name,
              std::optional<int32_t> id, std::vector<int32_t>* ids) {
  if (!id) {
    return InvalidArgumentError("[text] a text ", does, " with the token ",
                                name, ", and there is no id of it; expected ",
                                name, "_token_id");
  }
  *ids = {*id};
  return {};
}

Result<TokenizerParts> PartsOfGpt2(GgufTokenizer gguf) {
  if (gguf.token_types.size() != gguf.tokens.size()) {
    return InvalidArgumentError("[text] there are ", gguf.token_types.size(),
                                " types for ", gguf.tokens.size(),
                                " tokens; expected one for each");
  }
  TokenizerParts parts;
  STOWAGE_ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizerSteps(gguf.pre));
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    const int32_t type = gguf.token_types[i];
    if (type == kControlToken || type == kAddedToken) {
      parts.added.push_back({.text = gguf.tokens[i],
                             .id = static_cast<int32_t>(i),
                             .special = type == kControlToken});
    }
  }
  parts.tokens = std::move(gguf.tokens);
  parts.merges = std::move(gguf.merges);
  if (gguf.pre == "qwen2") {
    parts.normalizer.push_back({.kind = NormalizerKind::kNfc});
  }
  parts.ignore_merges = IgnoresMerges(gguf.pre);
  return parts;
}

bool HasBytes(const std::vector<int32_t>& types) {
  const auto byte = static_cast<int32_t>(PieceType::kByte);
  return std::find(types.begin(), types.end(), byte) != types.end();
}

Result<TokenizerParts> PartsOfPieces(GgufTokenizer gguf) {
  SentencePieceModel model{.is_unigram = gguf.model == "t5", .is_raw = true};
  model.pieces = std::move(gguf.tokens);
  model.scores = std::move(gguf.scores);
  model.types = std::move(gguf.token_types);
  model.byte_fallback = HasBytes(model.types);
  model.rules = {.charsmap = std::move(gguf.charsmap),
                 .add_space = gguf.add_space,
                 .collapse_spaces = gguf.collapse_spaces};
  return PartsOf(std::move(model));
}

}  // namespace

Result<GgufTokenizer> GgufTokenizerOf(const GgufHeader& header) {
  GgufTokenizer gguf;
  STOWAGE_ASSIGN_OR_RETURN(const std::string_view model,
                           Needed(header.Text(kModel), kModel,
                                  "which says what kind of tokenizer it is"));
  gguf.model = model;
  if (model != "gpt2" && !IsOfPieces(model)) {
    return UnsupportedError(
        "[text] tokenizer.ggml.model is ", Quoted(model),
        "; expected \"gpt2\", byte-level byte pair "
        "encoding, or \"llama\" or \"t5\", SentencePiece's");
  }
  STOWAGE_RETURN_IF_ERROR(ReadModelOf(header, &gguf));
  STOWAGE_ASSIGN_OR_RETURN(
      const auto tokens,
      Needed(header.Texts(kTokens), kTokens, "the list of the vocabulary"));
  gguf.tokens = Copies(tokens);
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                           Needed(header.Ints(kTypes), kTypes,
                                  "which says what tokens are special"));
  for (const int64_t type : types) {
    STOWAGE_ASSIGN_OR_RETURN(const int32_t narrow, To32(kTypes, type));
    gguf.token_types.push_back(narrow);
  }
  STOWAGE_ASSIGN_OR_RETURN(gguf.bos,
                           OptionalId(header, "tokenizer.ggml.bos_token_id"));
  constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
  if (header.Find(kAddBos)) {
    STOWAGE_ASSIGN_OR_RETURN(gguf.add_bos, header.Bool(kAddBos));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      gguf.add_eos,
      BoolOr(header, "tokenizer.ggml.add_eos_token", model == "t5"));
  if (gguf.add_eos) {
    STOWAGE_ASSIGN_OR_RETURN(gguf.eos,
                             OptionalId(header, "tokenizer.ggml.eos_token_id"));
  }
  return gguf;
}

Result<TokenizerParts> PartsOf(GgufTokenizer gguf) {
  const bool is_pieces = IsOfPieces(gguf.model);
  const bool adds_bos =
      gguf.add_bos.value_or(gguf.model == "llama" || IgnoresMerges(gguf.pre));
  const bool adds_eos = gguf.add_eos;
  const std::optional<int32_t> bos = gguf.bos, eos = gguf.eos;
  STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts,
                           is_pieces ? PartsOfPieces(std::move(gguf))
                                     : PartsOfGpt2(std::move(gguf)));
  if (adds_bos) {
    STOWAGE_RETURN_IF_ERROR(AddEnd("begins", "bos", bos, &parts.prefix));
  }
  if (adds_eos) {
    STOWAGE_RETURN_IF_ERROR(AddEnd("ends", "eos", eos, &parts.suffix));
  }
  return parts;
}

namespace {

namespace fs = std::filesystem;

constexpr float kScoreOfAdded = -1000, kScoreOfUnused = -10000;

// A special token's name in Hugging Face's files and in GGUF's keys, which spell "seperator".
struct SpecialName {
  std::string_view name, key;
};
constexpr SpecialName kSpecialNames[] = {
    {"bos", "bos"},       {"eos", "eos"},     {"unk", "unknown"},
    {"sep", "seperator"}, {"pad", "padding"}, {"mask", "mask"}};

struct GgufTokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types = {};
  std::vector<float> scores = {};  // of pieces
};

// Whether llama.cpp's converter takes an added token for special though the file does not.
bool LooksSpecial(std::string_view text) {
  constexpr std::string_view kOpens = "<｜", kCloses = "｜>";
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" ||
         text == "[@BOS@]" ||
         (text.starts_with("<|") && text.ends_with("|>")) ||
         (text.starts_with(kOpens) && text.ends_with(kCloses)) ||
         (text.starts_with("<unused") && text.ends_with('>'));
}

// Adds the added tokens, and unused tokens for ids below `vocabulary` without one.
void Complete(const std::vector<AddedToken>& added, int64_t vocabulary,
              GgufTokens* tokens) {
  size_t size = std::max(tokens->texts.size(), static_cast<size_t>(vocabulary));
  for (const AddedToken& token : added) {
    size = std::max(size, static_cast<size_t>(token.id) + 1);
  }
  tokens->texts.resize(size);
  tokens->types.resize(size, kNormalToken);
  if (!tokens->scores.empty()) tokens->scores.resize(size, kScoreOfAdded);
  for (const AddedToken& token : added) {
    const auto id = static_cast<size_t>(token.id);
    tokens->texts[id] = token.text;
    tokens->types[id] =
        token.special || LooksSpecial(token.text) ? kControlToken : kAddedToken;
  }
  for (size_t id = 0; id < size; ++id) {
    if (!tokens->texts[id].empty()) continue;
    tokens->texts[id] = StrCat("[PAD", id, "]");
    tokens->types[id] = kUnusedToken;
    if (!tokens->scores.empty()) tokens->scores[id] = kScoreOfUnused;
  }
}

bool IsSame(const PreTokenizerStep& a, const PreTokenizerStep& b) {
  return a.kind == b.kind && a.pattern == b.pattern &&
         a.behavior == b.behavior && a.invert == b.invert;
}

// The name of these steps in GGUF; of two, the one that agrees in ignoring merges.
std::optional<std::string_view> NameOfSteps(
    const std::vector<PreTokenizerStep>& steps, bool ignore_merges) {
  std::optional<std::string_view> found;
  for (const std::string_view name :
       {"gpt-2", "llama-bpe", "dbrx", "qwen2", "smollm", "tekken", "gpt-4o"}) {
    const auto named = PreTokenizerSteps(name);
    if (!named.ok() || !std::ranges::equal(*named, steps, IsSame)) continue;
    if (!found || IgnoresMerges(name) == ignore_merges) found = name;
  }
  return found;
}

Error HasNoForm(std::string_view what) {
  return UnsupportedError("[text] ", what,
                          ", which has no form in GGUF files; write "
                          "safetensors, beside which tokenizer.json stays");
}

// Finds the special tokens, and the tokens around every text.
class SpecialTokens {
 public:
  explicit SpecialTokens(const GgufTokens& tokens) {
    for (size_t id = 0; id < tokens.texts.size(); ++id) {
      ids_.emplace(tokens.texts[id], static_cast<int32_t>(id));
    }
  }

  // Special tokens that the tokenizer's files name by their texts.
  Status ReadNames(const fs::path& folder) {
    for (const char* const name :
         {"tokenizer_config.json", "special_tokens_map.json"}) {
      STOWAGE_ASSIGN_OR_RETURN(const JsonValues values,
                               ReadValues(folder / name));
      for (const SpecialName& special : kSpecialNames) {
        const std::string key = StrCat(special.name, "_token");
        auto text = values.Text(key);
        if (!text.ok()) text = values.Text(key + ".content");
        if (!text.ok()) continue;
        const auto id = ids_.find(*text);
        if (id != ids_.end()) found_.try_emplace(special.name, id->second);
      }
    }
    return {};
  }

  // Other special tokens, which config.json names by their ids.
  Status ReadNumbers(const fs::path& folder) {
    STOWAGE_ASSIGN_OR_RETURN(const JsonValues config,
                             ReadValues(folder / "config.json"));
    for (const SpecialName& special : kSpecialNames) {
      const auto id = config.Int(StrCat(special.name, "_token_id"));
      if (id.ok() && *id >= 0 && *id < std::ssize(ids_)) {
        found_.try_emplace(special.name, static_cast<int32_t>(*id));
      }
    }
    return {};
  }

  // Sets the token before or after every text; GGUF has one of each, `name`.
  Status Surround(std::string_view does, std::string_view name,
                  std::span<const int32_t> ids, GgufMetadata* keys) {
    keys->Set(StrCat("tokenizer.ggml.add_", name, "_token"), !ids.empty());
    if (ids.empty()) return {};
    const auto [found, is_new] = found_.try_emplace(name, ids.front());
    if (ids.size() == 1 && found->second == ids.front()) return {};
    return HasNoForm(StrCat("every text ", does, " with ", ids.size(),
                            " tokens, the first of which has the number ",
                            ids.front(), ", and ", name, " is ",
                            found->second));
  }

  void Store(GgufMetadata* keys) const {
    for (const SpecialName& special : kSpecialNames) {
      const auto id = found_.find(special.name);
      if (id == found_.end()) continue;
      keys->Set(StrCat("tokenizer.ggml.", special.key, "_token_id"),
                static_cast<uint32_t>(id->second));
    }
  }

 private:
  static Result<JsonValues> ReadValues(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return JsonValues();
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string()));
    return JsonValues::Parse(text);
  }

  std::map<std::string, int32_t, std::less<>> ids_;
  std::map<std::string_view, int32_t> found_;
};

Status AddSpecials(const TokenizerParts& parts, const GgufTokens& tokens,
                   const fs::path& folder, GgufMetadata* keys) {
  SpecialTokens specials(tokens);
  STOWAGE_RETURN_IF_ERROR(specials.ReadNames(folder));
  STOWAGE_RETURN_IF_ERROR(
      specials.Surround("begins", "bos", parts.prefix, keys));
  STOWAGE_RETURN_IF_ERROR(specials.Surround("ends", "eos", parts.suffix, keys));
  STOWAGE_RETURN_IF_ERROR(specials.ReadNumbers(folder));
  specials.Store(keys);
  return {};
}

void SetTexts(std::string_view key, const std::vector<std::string>& texts,
              GgufMetadata* keys) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  keys->SetArray<std::string_view>(key, views);
}

Result<GgufMetadata> KeysOfByteBpe(TokenizerParts parts, int64_t vocabulary,
                                   const fs::path& folder) {
  const auto pre = NameOfSteps(parts.pre_tokenizer, parts.ignore_merges);
  if (!pre) {
    std::string patterns;
    for (const PreTokenizerStep& step : parts.pre_tokenizer) {
      patterns +=
          StrCat(patterns.empty() ? "" : ", then ", Quoted(step.pattern));
    }
    return HasNoForm(StrCat("the pre-tokenizer cuts at ", patterns,
                            ", which is none of gpt-2, llama-bpe, dbrx, qwen2, "
                            "smollm, tekken and gpt-4o"));
  }
  const bool is_nfc = parts.normalizer.size() == 1 &&
                      parts.normalizer[0].kind == NormalizerKind::kNfc;
  if (is_nfc != (*pre == "qwen2") || (!is_nfc && !parts.normalizer.empty())) {
    return HasNoForm(StrCat("the normalizer has ", parts.normalizer.size(),
                            " steps, and the pre-tokenizer is that of ", *pre));
  }
  if (parts.ignore_merges != IgnoresMerges(*pre)) {
    return HasNoForm(StrCat("\"ignore_merges\" is ", parts.ignore_merges,
                            ", and the pre-tokenizer is that of ", *pre));
  }
  GgufTokens tokens{.texts = std::move(parts.tokens)};
  Complete(parts.added, vocabulary, &tokens);
  GgufMetadata keys;
  keys.Set("tokenizer.ggml.model", "gpt2");
  keys.Set("tokenizer.ggml.pre", *pre);
  SetTexts("tokenizer.ggml.tokens", tokens.texts, &keys);
  keys.SetArray<int32_t>("tokenizer.ggml.token_type", tokens.types);
  SetTexts("tokenizer.ggml.merges", parts.merges, &keys);
  STOWAGE_RETURN_IF_ERROR(AddSpecials(parts, tokens, folder, &keys));
  return keys;
}

// `parts` are those that ReadTokenizer makes.
Result<GgufMetadata> KeysOfPieces(SentencePieceModel model,
                                  const TokenizerParts& parts,
                                  int64_t vocabulary, const fs::path& folder) {
  if (model.is_unigram) return HasNoForm("the tokenizer is a unigram model");
  if (!model.rules.charsmap.empty() || model.rules.collapse_spaces) {
    return HasNoForm("the SentencePiece model normalizes texts");
  }
  GgufTokens tokens{.texts = std::move(model.pieces),
                    .types = std::move(model.types),
                    .scores = {model.scores.begin(), model.scores.end()}};
  std::vector<AddedToken> added;
  for (const AddedToken& token : parts.added) {
    // Pieces have their types already.
    if (token.id >= std::ssize(tokens.texts)) added.push_back(token);
  }
  Complete(added, vocabulary, &tokens);
  GgufMetadata keys;
  keys.Set("tokenizer.ggml.model", "llama");
  keys.Set("tokenizer.ggml.pre", "default");
  SetTexts("tokenizer.ggml.tokens", tokens.texts, &keys);
  keys.SetArray<float>("tokenizer.ggml.scores", tokens.scores);
  keys.SetArray<int32_t>("tokenizer.ggml.token_type", tokens.types);
  keys.Set("tokenizer.ggml.add_space_prefix", model.rules.add_space);
  STOWAGE_RETURN_IF_ERROR(AddSpecials(parts, tokens, folder, &keys));
  return keys;
}

// The tokenizer's keys of another GGUF file.
GgufMetadata KeysOfGguf(const GgufHeader& header) {
  GgufMetadata keys = GgufMetadata::Of(header);
  for (const auto& [key, value] : header.values()) {
    if (!key.starts_with("tokenizer.")) keys.Remove(key);
  }
  return keys;
}

Result<GgufMetadata> KeysOfFile(const std::string& name, int64_t vocabulary) {
  STOWAGE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(name, "text"));
  STOWAGE_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(file));
  if (is_gguf) {
    STOWAGE_ASSIGN_OR_RETURN(const GgufHeader header, ReadGgufHeader(file));
    return KeysOfGguf(header);
  }
  STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, ReadTokenizerParts(name));
  const fs::path folder = fs::path(name).parent_path();
  if (parts.model == TokenizerModel::kByteBpe) {
    return KeysOfByteBpe(std::move(parts), vocabulary, folder);
  }
  if (parts.model == TokenizerModel::kWordPiece) {
    return HasNoForm("the tokenizer is WordPiece");
  }
  // tokenizer.json has no scores; the SentencePiece model beside it has.
  std::error_code ignored;
  fs::path pieces = name;
  if (pieces.extension() == ".json") pieces = folder / "tokenizer.model";
  if (!fs::is_regular_file(pieces, ignored)) {
    return UnsupportedError(
        "[text] a GGUF file has the scores of SentencePiece's byte pair "
        "encoding, which are in ",
        Quoted(pieces.string()), ", and that is not there; put it there");
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(pieces.string()));
  STOWAGE_ASSIGN_OR_RETURN(SentencePieceModel model,
                           ParseSentencePieceModel(bytes));
  return KeysOfPieces(std::move(model), parts, vocabulary, folder);
}

}  // namespace

Result<GgufMetadata> GgufTokenizerKeys(const std::string& path,
                                       const GgufTokenizerContext& context) {
  const std::string name = TokenizerFileOf(path);
  Result<GgufMetadata> keys = KeysOfFile(name, context.vocabulary);
  if (!keys.ok()) {
    return Error{keys.error().code,
                 StrCat("[gguf] the tokenizer in ", Quoted(name), ": ",
                        keys.error().message)};
  }
  if (!context.chat_template.empty()) {
    keys->Set("tokenizer.chat_template", context.chat_template);
  }
  return keys;
}

}  // namespace stowage
