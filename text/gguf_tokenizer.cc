#include "text/gguf_tokenizer.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "text/sentence_piece.h"

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

namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model",
                           kPre = "tokenizer.ggml.pre",
                           kTokens = "tokenizer.ggml.tokens",
                           kMerges = "tokenizer.ggml.merges",
                           kTypes = "tokenizer.ggml.token_type",
                           kScores = "tokenizer.ggml.scores";

// The id under the key; nothing where there is none.
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

// Those of SentencePiece's.
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

// What is of one model and not of the other.
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

// What every text begins or ends with.
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
    if (type == kControl || type == kUserDefined) {
      parts.added.push_back({.text = gguf.tokens[i],
                             .id = static_cast<int32_t>(i),
                             .special = type == kControl});
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

}  // namespace stowage
