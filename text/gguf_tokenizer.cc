#include "text/gguf_tokenizer.h"

#include <limits>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace stowage {
namespace {

// llama.cpp's types of tokens.
constexpr int32_t kControl = 3, kUserDefined = 4;

Error Fail(std::string what) {
  return {ErrorCode::kInvalidArgument, StrCat("[text] ", what)};
}

Result<int32_t> To32(std::string_view key, int64_t value) {
  if (value < 0 || value > std::numeric_limits<int32_t>::max()) {
    return Fail(StrCat(key, " has ", value, "; expected 0 to ",
                       std::numeric_limits<int32_t>::max()));
  }
  return static_cast<int32_t>(value);
}

std::vector<std::string> Copies(const std::vector<std::string_view>& texts) {
  return {texts.begin(), texts.end()};
}

}  // namespace

Result<GgufTokenizer> GgufTokenizerOf(const GgufHeader& header) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string_view model,
                           header.Text("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[text] tokenizer.ggml.model is ", Quoted(model),
                        "; expected \"gpt2\", byte-level byte pair encoding")};
  }
  GgufTokenizer gguf;
  STOWAGE_ASSIGN_OR_RETURN(const std::string_view pre,
                           header.Text("tokenizer.ggml.pre"));
  gguf.pre = pre;
  STOWAGE_ASSIGN_OR_RETURN(const auto tokens,
                           header.Texts("tokenizer.ggml.tokens"));
  gguf.tokens = Copies(tokens);
  STOWAGE_ASSIGN_OR_RETURN(const auto merges,
                           header.Texts("tokenizer.ggml.merges"));
  gguf.merges = Copies(merges);
  constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                           header.Ints(kTypes));
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
  return gguf;
}

Result<TokenizerParts> PartsOf(GgufTokenizer gguf) {
  if (gguf.token_types.size() != gguf.tokens.size()) {
    return Fail(StrCat("there are ", gguf.token_types.size(), " types for ",
                       gguf.tokens.size(), " tokens; expected one for each"));
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
      return Fail(
          "a text begins with the token bos, and there is no id of it; "
          "expected "
          "bos_token_id");
    }
    parts.prefix = {*gguf.bos};
  }
  parts.tokens = std::move(gguf.tokens);
  parts.merges = std::move(gguf.merges);
  parts.nfc = gguf.pre == "qwen2";
  parts.ignore_merges = gguf.pre == "llama-bpe";
  return parts;
}

}  // namespace stowage
