#include "text/gguf_tokenizer_keys.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "text/sentence_piece_file.h"
#include "text/tokenizer_file.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kNormalToken = 1, kControlToken = 3, kAddedToken = 4,
                  kUnusedToken = 5;
constexpr float kScoreOfAdded = -1000, kScoreOfUnused = -10000;

// A special token by its name in Hugging Face's files and in GGUF's keys, whose spelling of
// "separator" is its own.
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

// Added tokens that files call ordinary ones and that are marks nevertheless, as llama.cpp's
// converter takes them.
bool LooksSpecial(std::string_view text) {
  constexpr std::string_view kOpens = "<｜", kCloses = "｜>";
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" ||
         text == "[@BOS@]" ||
         (text.starts_with("<|") && text.ends_with("|>")) ||
         (text.starts_with(kOpens) && text.ends_with(kCloses)) ||
         (text.starts_with("<unused") && text.ends_with('>'));
}

// Puts added tokens in, and unused ones where a number below `vocabulary` has none.
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

// The name by which GGUF files know these steps; of two, that of a tokenizer which ignores
// merges as this one does.
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

// --- what goes around texts, and special tokens ------------------------------

class SpecialTokens {
 public:
  explicit SpecialTokens(const GgufTokens& tokens) {
    for (size_t id = 0; id < tokens.texts.size(); ++id) {
      ids_.emplace(tokens.texts[id], static_cast<int32_t>(id));
    }
  }

  // Those that the tokenizer's files call by their texts.
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

  // Of the others, those that config.json has by their numbers.
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

  // What the tokenizer puts before or after every text, by the name of the one token that
  // GGUF files have for that.
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

// --- kinds of tokenizers ------------------------------------------------------

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

// `parts` are those of the tokenizer as ReadTokenizer takes it.
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

// Those of another GGUF file.
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
  // Of tokenizer.json, scores are in the file beside it that it was made of.
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
