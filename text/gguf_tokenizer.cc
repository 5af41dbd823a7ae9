#include "text/gguf_tokenizer.h"

#include <limits>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/strings.h"

namespace stowage {
namespace {

// llama.cpp's types of tokens.
constexpr int32_t kControl = 3, kUserDefined = 4;

Result<int32_t> To32(std::string_view key, int64_t value) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
    return InvalidArgumentError("[text] ", key, " has ", value,
                                "; expected 0 to ",
                                std::numeric_limits<int32_t>::max());
  }
  return static_cast<int32_t>(value);
}

// The value of a key; where there is none, an error that says what it would tell.
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

}  // namespace

Result<GgufTokenizer> GgufTokenizerOf(const GgufHeader& header) {
  constexpr std::string_view kModel = "tokenizer.ggml.model",
                             kPre = "tokenizer.ggml.pre",
                             kTokens = "tokenizer.ggml.tokens",
                             kMerges = "tokenizer.ggml.merges",
                             kTypes = "tokenizer.ggml.token_type";
  STOWAGE_ASSIGN_OR_RETURN(const std::string_view model,
                           Needed(header.Text(kModel), kModel,
                                  "which says what kind of tokenizer it is"));
  if (model != "gpt2") {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[text] tokenizer.ggml.model is ", Quoted(model),
                        "; expected \"gpt2\", byte-level byte pair encoding")};
  }
  GgufTokenizer gguf;
  STOWAGE_ASSIGN_OR_RETURN(const std::string_view pre,
                           Needed(header.Text(kPre), kPre,
                                  "which says how a text is cut into words"));
  gguf.pre = pre;
  STOWAGE_ASSIGN_OR_RETURN(
      const auto tokens,
      Needed(header.Texts(kTokens), kTokens, "the list of the vocabulary"));
  gguf.tokens = Copies(tokens);
  STOWAGE_ASSIGN_OR_RETURN(
      const auto merges,
      Needed(header.Texts(kMerges), kMerges,
             "the list of merges that byte pair encoding joins bytes by"));
  gguf.merges = Copies(merges);
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                           Needed(header.Ints(kTypes), kTypes,
                                  "which says what tokens are special"));
  for (const int64_t type : types) {
    STOWAGE_ASSIGN_OR_RETURN(const int32_t narrow, To32(kTypes, type));
    gguf.token_types.push_back(narrow);
  }
  constexpr std::string_view kBos = "tokenizer.ggml.bos_token_id";
  if (header.Find(kBos)) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t bos, header.Int(kBos));
    STOWAGE_ASSIGN_OR_RETURN(gguf.bos, To32(kBos, bos));
  }
  constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
  if (header.Find(kAddBos)) {
    STOWAGE_ASSIGN_OR_RETURN(gguf.add_bos, header.Bool(kAddBos));
  }
  constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token",
                             kEos = "tokenizer.ggml.eos_token_id";
  if (header.Find(kAddEos)) {
    STOWAGE_ASSIGN_OR_RETURN(gguf.add_eos, header.Bool(kAddEos));
  }
  if (gguf.add_eos && header.Find(kEos)) {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t eos, header.Int(kEos));
    STOWAGE_ASSIGN_OR_RETURN(gguf.eos, To32(kEos, eos));
  }
  return gguf;
}

Result<TokenizerParts> PartsOf(GgufTokenizer gguf) {
  if (gguf.token_types.size() != gguf.tokens.size()) {
    return InvalidArgumentError("[text] there are ", gguf.token_types.size(),
                                " types for ", gguf.tokens.size(),
                                " tokens; expected one for each");
  }
  TokenizerParts parts;
  STOWAGE_ASSIGN_OR_RETURN(parts.pre_tokenizer, PreTokenizerSteps(gguf.pre));
  for (size_t i = 0; i < gguf.tokens.size(); ++i) {
    const int32_t type = gguf.token_types[i];
    if (type == kControl || type == kUserDefined) {
      parts.added.push_back({.text = gguf.tokens[i],
                             .id = static_cast<int32_t>(i),
                             .special = type == kControl});
    }
  }
  if (gguf.add_bos.value_or(gguf.pre == "llama-bpe")) {
    if (!gguf.bos) {
      return InvalidArgumentError(
          "[text] a text begins with the token bos, and there is no id of it; "
          "expected "
          "bos_token_id");
    }
    parts.prefix = {*gguf.bos};
  }
  if (gguf.add_eos) {
    if (!gguf.eos) {
      return InvalidArgumentError(
          "[text] a text ends with the token eos, and there is no id of it; "
          "expected "
          "eos_token_id");
    }
    parts.suffix = {*gguf.eos};
  }
  parts.tokens = std::move(gguf.tokens);
  parts.merges = std::move(gguf.merges);
  if (gguf.pre == "qwen2") {
    parts.normalizer.push_back({.kind = NormalizerKind::kNfc});
  }
  parts.ignore_merges = gguf.pre == "llama-bpe";
  return parts;
}

}  // namespace stowage
