#include "text/tokenizer_file.h"

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "text/gguf_tokenizer.h"
#include "text/sentence_piece.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace stowage {
namespace {

using Json = nlohmann::json;
using text::Flag;
using text::Id;
using text::Member;
using text::NameOf;
using text::TypeOf;

constexpr int kMaxLevels = 64;
constexpr int64_t kMaxMerges = 1 << 22;

// Reads vocabulary and merges while the file is parsed, and keeps them out of the tree of
// values: they are most of a file.
class VocabularyReader {
 public:
  // Whether the tree keeps the value: nlohmann's parser_callback_t.
  bool Keep(int depth, Json::parse_event_t event, Json& value);

  // The first error; "" if none.
  const std::string& error() const { return error_; }

  // After parsing:

  // By id; "" for an unused id. Errors kInvalidArgument: two tokens with one id; an id
  // far above the number of tokens.
  Result<std::vector<std::string>> Tokens();
  // By id, for a vocabulary with scores; else empty.
  std::vector<double> TakeScores() { return std::move(scores_); }
  // Each "left right".
  std::vector<std::string> TakeMerges() { return std::move(merges_); }

 private:
  bool InVocabulary() const { return section_ == "model" && part_ == "vocab"; }
  bool InMerges() const { return section_ == "model" && part_ == "merges"; }
  bool KeepOfVocabulary(int depth, Json::parse_event_t event,
                        const Json& value);
  bool KeepOfMerges(int depth, Json::parse_event_t event, const Json& value);
  bool KeepOfList(int depth, Json::parse_event_t event, const Json& value);
  void AddToken(const Json& id);
  void AddScored();
  void AddMerge(std::string merge);
  void AddPair();

  std::vector<std::pair<int32_t, std::string>> tokens_;
  std::vector<std::string> merges_;
  std::string section_, part_, token_, error_;
  bool is_list_ = false;  // the vocabulary, of pairs of a text and a score
  std::vector<double> scores_;
  std::vector<Json> entry_;  // the pair that is being parsed
  std::vector<std::string> pair_;
};

bool VocabularyReader::Keep(int depth, Json::parse_event_t event, Json& value) {
  using Event = Json::parse_event_t;
  if (!error_.empty()) return false;
  if (event == Event::key) {
    if (depth == 1) section_ = value.get<std::string>();
    if (depth == 2) part_ = value.get<std::string>();
    if (depth == 3) token_ = value.get<std::string>();
    return !(InVocabulary() && depth == 3);
  }
  if (InVocabulary()) return KeepOfVocabulary(depth, event, value);
  if (InMerges()) return KeepOfMerges(depth, event, value);
  return true;
}

bool VocabularyReader::KeepOfVocabulary(int depth, Json::parse_event_t event,
                                        const Json& value) {
  using Event = Json::parse_event_t;
  if (depth == 2 && event == Event::array_start) is_list_ = true;
  if (is_list_ && depth >= 2) return KeepOfList(depth, event, value);
  if (depth < 3) return true;
  if (event == Event::value && depth == 3) {
    AddToken(value);
  } else if (event != Event::value) {
    error_ = StrCat("the token ", Quoted(token_), " has no number as its id");
  }
  return false;
}

bool VocabularyReader::KeepOfList(int depth, Json::parse_event_t event,
                                  const Json& value) {
  using Event = Json::parse_event_t;
  if (depth == 2) return true;
  if (depth == 3 && event == Event::array_start) {
    entry_.clear();
    return true;
  }
  if (depth == 3 && event == Event::array_end) {
    AddScored();
  } else if (depth == 4 && event == Event::value && entry_.size() < 3) {
    entry_.push_back(value);
  } else {
    error_ = StrCat("token ", tokens_.size(),
                    " of the vocabulary is no pair of a text and a score");
  }
  return false;
}

void VocabularyReader::AddScored() {
  if (entry_.size() != 2 || !entry_[0].is_string() || !entry_[1].is_number()) {
    error_ = StrCat("token ", tokens_.size(),
                    " of the vocabulary is no pair of a text and a score");
  } else if (tokens_.size() >= static_cast<size_t>(kMaxTokens)) {
    error_ = StrCat("there are more than ", kMaxTokens, " tokens");
  } else {
    tokens_.emplace_back(static_cast<int32_t>(tokens_.size()),
                         entry_[0].get<std::string>());
    scores_.push_back(entry_[1].get<double>());
  }
}

bool VocabularyReader::KeepOfMerges(int depth, Json::parse_event_t event,
                                    const Json& value) {
  using Event = Json::parse_event_t;
  if (depth < 3) return true;
  if (event == Event::array_start) {
    pair_.clear();
    return true;
  }
  if (event == Event::value && depth == 4) {
    pair_.push_back(value.is_string() ? value.get<std::string>() : "");
  } else if (event == Event::value && depth == 3) {
    AddMerge(value.is_string() ? value.get<std::string>() : "");
  } else if (event == Event::array_end && depth == 3) {
    AddPair();
  } else {
    AddMerge("");
  }
  return false;
}

Result<std::vector<std::string>> VocabularyReader::Tokens() {
  std::vector<std::string> tokens;
  const int32_t ids = IdsOf(tokens_.size());
  for (auto& [id, token] : tokens_) {
    if (id >= ids) {
      return InvalidArgumentError("[tokenizer.json] the token ", Quoted(token),
                                  " has id ", id, "; expected one from 0 to ",
                                  ids - 1, " among ", tokens_.size(),
                                  " tokens");
    }
    const auto at = static_cast<size_t>(id);
    if (at >= tokens.size()) tokens.resize(at + 1);
    std::string& place = tokens[at];
    if (!place.empty() && place != token) {
      return InvalidArgumentError("[tokenizer.json] the tokens ", Quoted(place),
                                  " and ", Quoted(token), " both have id ", id);
    }
    place = std::move(token);
  }
  return tokens;
}

void VocabularyReader::AddToken(const Json& id) {
  const int64_t at =
      id.is_number_unsigned() && id.get<uint64_t>() < uint64_t{kMaxTokens}
          ? id.get<int64_t>()
          : -1;
  if (at < 0) {
    error_ = StrCat("the token ", Quoted(token_), " has id ", id.dump(),
                    "; expected a whole number from 0 to ", kMaxTokens - 1);
    return;
  }
  tokens_.emplace_back(static_cast<int32_t>(at), token_);
}

void VocabularyReader::AddMerge(std::string merge) {
  if (merge.empty()) {
    error_ = StrCat("merge ", merges_.size(),
                    " is neither a text nor a pair of texts");
  } else if (static_cast<int64_t>(merges_.size()) >= kMaxMerges) {
    error_ = StrCat("there are more than ", kMaxMerges, " merges");
  } else {
    merges_.push_back(std::move(merge));
  }
}

void VocabularyReader::AddPair() {
  const bool good = pair_.size() == 2 && !pair_[0].empty() && !pair_[1].empty();
  AddMerge(good ? StrCat(pair_[0], " ", pair_[1]) : "");
}

Status ReadAdded(const Json& list, TokenizerParts* parts) {
  for (const Json& entry : list) {
    const Json& content = Member(entry, "content");
    if (!content.is_string() || content.get<std::string>().empty()) {
      return InvalidArgumentError("[tokenizer.json] an added token has ",
                                  NameOf(content),
                                  " as its content; expected a text");
    }
    AddedToken token{.text = content.get<std::string>()};
    STOWAGE_ASSIGN_OR_RETURN(token.id,
                             Id(Member(entry, "id"), Quoted(token.text)));
    STOWAGE_ASSIGN_OR_RETURN(token.special, Flag(entry, "special", false));
    STOWAGE_ASSIGN_OR_RETURN(token.strip_left, Flag(entry, "lstrip", false));
    STOWAGE_ASSIGN_OR_RETURN(token.strip_right, Flag(entry, "rstrip", false));
    STOWAGE_ASSIGN_OR_RETURN(token.normalized,
                             Flag(entry, "normalized", !token.special));
    STOWAGE_ASSIGN_OR_RETURN(token.single_word,
                             Flag(entry, "single_word", false));
    parts->added.push_back(std::move(token));
  }
  return {};
}

// Sets the unknown token of that text.
Status FindUnknown(const Json& unknown, TokenizerParts* parts) {
  if (unknown.is_null()) return {};
  const std::string text =
      unknown.is_string() ? unknown.get<std::string>() : "";
  for (size_t id = 0; id < parts->tokens.size(); ++id) {
    if (!text.empty() && parts->tokens[id] == text) {
      parts->unknown = static_cast<int32_t>(id);
      return {};
    }
  }
  return InvalidArgumentError("[tokenizer.json] \"unk_token\" is ",
                              NameOf(unknown),
                              ", which is none of the model's tokens");
}

Status ReadBpe(const Json& model, bool by_bytes, TokenizerParts* parts) {
  STOWAGE_ASSIGN_OR_RETURN(parts->byte_fallback,
                           Flag(model, "byte_fallback", false));
  if (by_bytes && parts->byte_fallback) {
    return UnsupportedError(
        "[tokenizer.json] the model has \"byte_fallback\" beside ByteLevel, "
        "which has a token for every byte; expected one of the two");
  }
  for (const char* option :
       {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    const Json& value = Member(model, option);
    if (!value.is_null() && value != "" && value != 0.0) {
      return UnsupportedError("[tokenizer.json] the model has ", Quoted(option),
                              " ", NameOf(value), ", which is not known");
    }
  }
  parts->model = by_bytes ? TokenizerModel::kByteBpe : TokenizerModel::kBpe;
  STOWAGE_ASSIGN_OR_RETURN(parts->ignore_merges,
                           Flag(model, "ignore_merges", false));
  STOWAGE_ASSIGN_OR_RETURN(parts->fuse_unknown, Flag(model, "fuse_unk", false));
  return FindUnknown(Member(model, "unk_token"), parts);
}

Status ReadUnigram(const Json& model, TokenizerParts* parts) {
  parts->model = TokenizerModel::kUnigram;
  STOWAGE_ASSIGN_OR_RETURN(parts->byte_fallback,
                           Flag(model, "byte_fallback", false));
  const Json& unknown = Member(model, "unk_id");
  if (unknown.is_null()) return {};
  STOWAGE_ASSIGN_OR_RETURN(parts->unknown, Id(unknown, "the unknown token"));
  return {};
}

Status ReadWordPiece(const Json& model, TokenizerParts* parts) {
  parts->model = TokenizerModel::kWordPiece;
  STOWAGE_ASSIGN_OR_RETURN(
      parts->word_prefix,
      text::TextOf(model, "continuing_subword_prefix", "##"));
  STOWAGE_ASSIGN_OR_RETURN(
      parts->max_word_characters,
      text::Number(model, "max_input_chars_per_word", 100));
  return FindUnknown(Member(model, "unk_token"), parts);
}

// The type of a model; old files lack it.
std::string ModelTypeOf(const Json& model) {
  const std::string type = TypeOf(model);
  if (!type.empty()) return type;
  if (model.contains("unk_id")) return "Unigram";
  return model.contains("max_input_chars_per_word") ? "WordPiece" : "";
}

Status CheckModelType(const Json& model) {
  const std::string type = ModelTypeOf(model);
  if (type == "BPE" || type == "Unigram" || type == "WordPiece") return {};
  return UnsupportedError("[tokenizer.json] the model is ",
                          type.empty() ? "of no type" : Quoted(type),
                          "; expected BPE, Unigram or WordPiece");
}

Status ReadModel(const Json& model, bool by_bytes, TokenizerParts* parts) {
  const std::string type = ModelTypeOf(model);
  const bool is_list = type == "Unigram";
  if (is_list == parts->scores.empty()) {
    return InvalidArgumentError(
        "[tokenizer.json] the vocabulary of ", Quoted(type),
        is_list ? " is no list; expected pairs of a text and a score"
                : " is a list; expected an object of tokens and ids");
  }
  if (type == "BPE") return ReadBpe(model, by_bytes, parts);
  if (by_bytes) {
    return UnsupportedError(
        "[tokenizer.json] the pre-tokenizer is ByteLevel "
        "and the model ",
        Quoted(type), "; expected BPE");
  }
  return is_list ? ReadUnigram(model, parts) : ReadWordPiece(model, parts);
}

}  // namespace

Result<TokenizerParts> ParseTokenizerParts(std::string_view json) {
  if (const Status checked = CheckJsonText(json, kMaxLevels); !checked.ok()) {
    return InvalidArgumentError("[tokenizer.json] the file ",
                                checked.error().message);
  }
  VocabularyReader reader;
  const Json file = Json::parse(
      json,
      [&](int depth, Json::parse_event_t event, Json& value) {
        return reader.Keep(depth, event, value);
      },
      /*allow_exceptions=*/false);
  if (!reader.error().empty())
    return InvalidArgumentError("[tokenizer.json] ", reader.error());
  if (!file.is_object()) {
    return InvalidArgumentError("[tokenizer.json] the file is no JSON object");
  }
  const Json& model = Member(file, "model");
  if (!model.is_object()) {
    return InvalidArgumentError(
        "[tokenizer.json] there is no \"model\"; expected one of type BPE");
  }
  TokenizerParts parts;
  STOWAGE_ASSIGN_OR_RETURN(parts.tokens, reader.Tokens());
  parts.merges = reader.TakeMerges();
  parts.scores = reader.TakeScores();
  STOWAGE_RETURN_IF_ERROR(CheckModelType(model));
  STOWAGE_RETURN_IF_ERROR(ReadAdded(Member(file, "added_tokens"), &parts));
  STOWAGE_RETURN_IF_ERROR(
      text::ReadNormalizer(Member(file, "normalizer"), &parts));
  bool by_bytes = false;
  STOWAGE_RETURN_IF_ERROR(
      text::ReadPreTokenizer(Member(file, "pre_tokenizer"), &parts, &by_bytes));
  STOWAGE_RETURN_IF_ERROR(ReadModel(model, by_bytes, &parts));
  STOWAGE_RETURN_IF_ERROR(
      text::ReadPostProcessor(Member(file, "post_processor"), &parts));
  STOWAGE_RETURN_IF_ERROR(
      text::ReadDecoder(Member(file, "decoder"), by_bytes, &parts));
  return parts;
}

namespace {

namespace fs = std::filesystem;

// The flag in tokenizer_config.json beside the file: a SentencePiece model does not say which
// tokens surround a text.
Result<bool> IsAdded(const fs::path& folder, const char* name) {
  const fs::path path = folder / "tokenizer_config.json";
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return false;
  STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string()));
  if (const Status checked = CheckJsonText(text, kMaxLevels); !checked.ok()) {
    return InvalidArgumentError("[tokenizer_config.json] the file ",
                                checked.error().message);
  }
  return Flag(Json::parse(text), name, false);
}

Result<TokenizerParts> PartsOfModelFile(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  STOWAGE_ASSIGN_OR_RETURN(SentencePieceModel model,
                           ParseSentencePieceModel(bytes));
  const int32_t bos = model.bos, eos = model.eos;
  const fs::path folder = fs::path(path).parent_path();
  STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOf(std::move(model)));
  STOWAGE_ASSIGN_OR_RETURN(const bool adds_bos,
                           IsAdded(folder, "add_bos_token"));
  STOWAGE_ASSIGN_OR_RETURN(const bool adds_eos,
                           IsAdded(folder, "add_eos_token"));
  if (adds_bos) parts.prefix = {bos};
  if (adds_eos) parts.suffix = {eos};
  return parts;
}

// Whether it is a SentencePiece model by its name, "tokenizer.model" or "tokenizer.model.v3".
bool IsOfSentencePiece(const fs::path& path) {
  return path.filename().string().find(".model") != std::string::npos &&
         path.extension() != ".json";
}

Result<TokenizerParts> PartsOfFile(const InputFile& file,
                                   const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(file));
  if (is_gguf) {
    STOWAGE_ASSIGN_OR_RETURN(const GgufHeader header, ReadGgufHeader(file));
    STOWAGE_ASSIGN_OR_RETURN(GgufTokenizer gguf, GgufTokenizerOf(header));
    return PartsOf(std::move(gguf));
  }
  if (IsOfSentencePiece(path)) return PartsOfModelFile(path);
  STOWAGE_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return ParseTokenizerParts(json);
}

// The first existing of the tokenizer files of a folder; if there is none, the first name.
std::string FileIn(const fs::path& folder) {
  constexpr const char* kNames[] = {"tokenizer.json", "tokenizer.model",
                                    "spiece.model"};
  std::error_code none;
  for (const char* name : kNames) {
    if (fs::exists(folder / name, none)) return (folder / name).string();
  }
  return (folder / kNames[0]).string();
}

}  // namespace

std::string TokenizerFileOf(const std::string& path) {
  std::error_code none;
  const fs::path given(path);
  if (fs::is_directory(given, none)) return FileIn(given);
  if (given.extension() == ".safetensors" ||
      path.ends_with(".safetensors.index.json")) {
    return FileIn(given.parent_path());
  }
  return path;
}

Result<TokenizerParts> ReadTokenizerParts(const std::string& path) {
  const std::string name = TokenizerFileOf(path);
  STOWAGE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(name, "text"));
  return PartsOfFile(file, name);
}

Result<Tokenizer> ReadTokenizer(const std::string& path) {
  const std::string name = TokenizerFileOf(path);
  STOWAGE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(name, "text"));
  Result<TokenizerParts> parts = PartsOfFile(file, name);
  Result<Tokenizer> tokenizer = parts.ok()
                                    ? Tokenizer::Create(*std::move(parts))
                                    : Result<Tokenizer>(parts.error());
  if (tokenizer.ok()) return tokenizer;
  return file.Fail(
      StrCat("has no tokenizer that is read: ", tokenizer.error().message),
      tokenizer.error().code);
}

}  // namespace stowage
