#include "text/tokenizer_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "base/input_file.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/json_text.h"
#include "text/gguf_tokenizer.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxMerges = 1 << 22;
constexpr int kMaxLevels = 64;

// Takes vocabulary and merges as they come by, so that no tree is made of them: they
// are nearly all of a file.
class TokenizerReader {
 public:
  // Whether to keep the value in the tree: nlohmann's parser_callback_t.
  bool Keep(int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (!error_.empty()) return false;
    if (event == Event::key) {
      if (depth == 1) section_ = value.get<std::string>();
      if (depth == 2) part_ = value.get<std::string>();
      if (depth == 3) token_ = value.get<std::string>();
      return !(InVocabulary() && depth == 3);
    }
    // Of a Unigram model the vocabulary is a list, of which nothing is read.
    if (InVocabulary() && depth == 2 && event == Event::array_start) {
      is_list_ = true;
    }
    if (InVocabulary() && is_list_ && depth >= 2) return false;
    if (InVocabulary() && depth >= 3) {
      if (event == Event::value && depth == 3) {
        AddToken(value);
      } else if (event != Event::value && depth >= 3) {
        error_ =
            StrCat("the token ", Quoted(token_), " has no number as its id");
      }
      return false;
    }
    if (InMerges() && depth >= 3) {
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
    return true;
  }

  /// By id, once all is read.
  Result<std::vector<std::string>> Tokens() {
    std::vector<std::string> tokens;
    const int32_t ids = IdsOf(tokens_.size());
    for (auto& [id, token] : tokens_) {
      if (id >= ids) {
        return InvalidArgumentError("[tokenizer.json] the token ",
                                    Quoted(token), " has id ", id,
                                    "; expected one from 0 to ", ids - 1,
                                    " among ", tokens_.size(), " tokens");
      }
      const auto at = static_cast<size_t>(id);
      if (at >= tokens.size()) tokens.resize(at + 1);
      std::string& place = tokens[at];
      if (!place.empty() && place != token) {
        return InvalidArgumentError("[tokenizer.json] the tokens ",
                                    Quoted(place), " and ", Quoted(token),
                                    " both have id ", id);
      }
      place = std::move(token);
    }
    return tokens;
  }
  std::vector<std::string> merges;
  const std::string& error() const { return error_; }

 private:
  bool InVocabulary() const { return section_ == "model" && part_ == "vocab"; }
  bool InMerges() const { return section_ == "model" && part_ == "merges"; }

  void AddToken(const Json& id) {
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
  void AddMerge(std::string merge) {
    if (merge.empty()) {
      error_ = StrCat("merge ", merges.size(),
                      " is neither a text nor a pair of texts");
    } else if (static_cast<int64_t>(merges.size()) >= kMaxMerges) {
      error_ = StrCat("there are more than ", kMaxMerges, " merges");
    } else {
      merges.push_back(std::move(merge));
    }
  }
  void AddPair() {
    const bool good =
        pair_.size() == 2 && !pair_[0].empty() && !pair_[1].empty();
    AddMerge(good ? StrCat(pair_[0], " ", pair_[1]) : "");
  }

  std::vector<std::pair<int32_t, std::string>> tokens_;
  std::string section_, part_, token_, error_;
  bool is_list_ = false;  // the vocabulary
  std::vector<std::string> pair_;
};

// The member, or null where there is none.
const Json& Member(const Json& object, const char* name) {
  static const Json* const null = new Json;
  if (!object.is_object()) return *null;
  const auto found = object.find(name);
  return found == object.end() ? *null : *found;
}

// A value's "type"; empty without.
std::string TypeOf(const Json& object) {
  const Json& type = Member(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

// What a value is called in errors.
std::string Name(const Json& value) {
  if (!TypeOf(value).empty()) return Quoted(TypeOf(value));
  std::string text = value.dump(-1, ' ', true);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

Result<bool> Flag(const Json& object, const char* name, bool absent) {
  const Json& value = Member(object, name);
  if (value.is_null()) return absent;
  if (!value.is_boolean()) {
    return InvalidArgumentError("[tokenizer.json] ", Quoted(name), " is ",
                                Name(value), "; expected true or false");
  }
  return value.get<bool>();
}

Result<int32_t> Id(const Json& value, std::string_view what) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() >= uint64_t{kMaxTokens}) {
    return InvalidArgumentError(
        "[tokenizer.json] the id of ", what, " is ", Name(value),
        "; expected a whole number from 0 to ", kMaxTokens - 1);
  }
  return value.get<int32_t>();
}

// `sequence`'s members when `value` is a Sequence of them, else `value` alone.
std::vector<const Json*> InSequence(const Json& value, const char* members) {
  if (value.is_null()) return {};
  if (TypeOf(value) != "Sequence") return {&value};
  std::vector<const Json*> all;
  for (const Json& member : Member(value, members)) all.push_back(&member);
  return all;
}

Status ReadAdded(const Json& list, TokenizerParts* parts) {
  for (const Json& entry : list) {
    const Json& content = Member(entry, "content");
    if (!content.is_string() || content.get<std::string>().empty()) {
      return InvalidArgumentError("[tokenizer.json] an added token has ",
                                  Name(content),
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
    STOWAGE_ASSIGN_OR_RETURN(const bool single_word,
                             Flag(entry, "single_word", false));
    if (single_word) {
      return UnsupportedError("[tokenizer.json] the added token ",
                              Quoted(token.text),
                              " has \"single_word\", which is not known");
    }
    parts->added.push_back(std::move(token));
  }
  return {};
}

Status ReadNormalizer(const Json& normalizer, TokenizerParts* parts) {
  for (const Json* one : InSequence(normalizer, "normalizers")) {
    if (TypeOf(*one) != "NFC") {
      return UnsupportedError("[tokenizer.json] the normalizer ", Name(*one),
                              " is not known; expected NFC or none");
    }
    parts->nfc = true;
  }
  return {};
}

Result<SplitBehavior> Behavior(const Json& value) {
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return UnsupportedError("[tokenizer.json] the behavior ", Name(value),
                          " of a Split is not known; expected Isolated, "
                          "Removed, MergedWithPrevious, MergedWithNext or "
                          "Contiguous");
}

// A pattern that matches `text` alone.
std::string Literally(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}#-&~ ").find(c) !=
        std::string_view::npos) {
      pattern += '\\';
    }
    pattern += c;
  }
  return pattern;
}

Result<PreTokenizerStep> ReadSplit(const Json& split) {
  PreTokenizerStep step;
  const Json& pattern = Member(split, "pattern");
  const Json& regex = Member(pattern, "Regex");
  const Json& literal = Member(pattern, "String");
  if (regex.is_string()) {
    step.pattern = regex.get<std::string>();
  } else if (literal.is_string()) {
    step.pattern = Literally(literal.get<std::string>());
  }
  if (step.pattern.empty()) {
    return InvalidArgumentError("[tokenizer.json] the pattern of a Split is ",
                                Name(pattern),
                                "; expected a Regex or a String");
  }
  STOWAGE_ASSIGN_OR_RETURN(step.behavior, Behavior(Member(split, "behavior")));
  STOWAGE_ASSIGN_OR_RETURN(step.invert, Flag(split, "invert", false));
  return step;
}

Status ReadPreTokenizer(const Json& pre_tokenizer, TokenizerParts* parts) {
  std::vector<PreTokenizerStep>& steps = parts->pre_tokenizer;
  bool by_bytes = false;
  for (const Json* one : InSequence(pre_tokenizer, "pretokenizers")) {
    const std::string type = TypeOf(*one);
    if (by_bytes) {
      return UnsupportedError("[tokenizer.json] the pre-tokenizer ", Name(*one),
                              " stands after ByteLevel; expected it last");
    }
    if (type == "Split") {
      STOWAGE_ASSIGN_OR_RETURN(PreTokenizerStep step, ReadSplit(*one));
      steps.push_back(std::move(step));
    } else if (type == "Digits") {
      STOWAGE_ASSIGN_OR_RETURN(const bool individual,
                               Flag(*one, "individual_digits", false));
      steps.push_back({R"(\p{N})", individual ? SplitBehavior::kIsolated
                                              : SplitBehavior::kContiguous});
    } else if (type == "ByteLevel") {
      by_bytes = true;
      STOWAGE_ASSIGN_OR_RETURN(const bool space,
                               Flag(*one, "add_prefix_space", true));
      STOWAGE_ASSIGN_OR_RETURN(const bool regex, Flag(*one, "use_regex", true));
      if (space) steps.push_back({});
      if (regex) steps.push_back({kGpt2Pattern});
    } else {
      return UnsupportedError("[tokenizer.json] the pre-tokenizer ", Name(*one),
                              " is not known; expected ByteLevel, Split, "
                              "Digits or a Sequence of them");
    }
  }
  if (!by_bytes) {
    return UnsupportedError(
        "[tokenizer.json] there is no pre-tokenizer ByteLevel; expected byte "
        "pair encoding of "
        "bytes");
  }
  return {};
}

// What TemplateProcessing puts around a text.
Status ReadTemplate(const Json& processor, TokenizerParts* parts) {
  bool after = false;
  for (const Json& piece : Member(processor, "single")) {
    if (!Member(piece, "Sequence").is_null()) {
      after = true;
      continue;
    }
    const Json& name = Member(Member(piece, "SpecialToken"), "id");
    if (!name.is_string()) {
      return InvalidArgumentError("[tokenizer.json] a template has the piece ",
                                  Name(piece),
                                  "; expected a SpecialToken or a Sequence");
    }
    const Json& ids = Member(Member(Member(processor, "special_tokens"),
                                    name.get<std::string>().c_str()),
                             "ids");
    if (!ids.is_array()) {
      return InvalidArgumentError("[tokenizer.json] the template's token ",
                                  Name(name),
                                  " is not among its special_tokens");
    }
    for (const Json& entry : ids) {
      STOWAGE_ASSIGN_OR_RETURN(const int32_t id, Id(entry, Name(name)));
      (after ? parts->suffix : parts->prefix).push_back(id);
    }
  }
  if (!after)
    return InvalidArgumentError(
        "[tokenizer.json] a template has no Sequence; expected one");
  return {};
}

Status ReadPostProcessor(const Json& processor, TokenizerParts* parts) {
  for (const Json* one : InSequence(processor, "processors")) {
    const std::string type = TypeOf(*one);
    if (type == "TemplateProcessing") {
      STOWAGE_RETURN_IF_ERROR(ReadTemplate(*one, parts));
    } else if (type != "ByteLevel") {  // which is about offsets alone
      return UnsupportedError("[tokenizer.json] the post-processor ",
                              Name(*one),
                              " is not known; expected TemplateProcessing or "
                              "ByteLevel");
    }
  }
  return {};
}

Status ReadModel(const Json& model, TokenizerParts* parts) {
  std::string type = TypeOf(model);
  // Files that name no type are of old; Unigram models alone have this.
  if (type.empty() && model.contains("unk_id")) type = "Unigram";
  if (type != "BPE") {
    return UnsupportedError("[tokenizer.json] the model is ",
                            type.empty() ? "of no type" : Quoted(type),
                            "; expected BPE");
  }
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix",
                             "byte_fallback", "dropout"}) {
    const Json& value = Member(model, option);
    if (!value.is_null() && value != "" && value != false && value != 0.0) {
      return UnsupportedError("[tokenizer.json] the model has ", Quoted(option),
                              " ", Name(value), ", which is not known");
    }
  }
  STOWAGE_ASSIGN_OR_RETURN(parts->ignore_merges,
                           Flag(model, "ignore_merges", false));
  STOWAGE_ASSIGN_OR_RETURN(parts->fuse_unknown, Flag(model, "fuse_unk", false));
  const Json& unknown = Member(model, "unk_token");
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
                              Name(unknown),
                              ", which is none of the model's tokens");
}

}  // namespace

Result<TokenizerParts> ParseTokenizerParts(std::string_view json) {
  if (const Status checked = CheckJsonText(json, kMaxLevels); !checked.ok()) {
    return InvalidArgumentError("[tokenizer.json] the file ",
                                checked.error().message);
  }
  TokenizerReader reader;
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
  parts.merges = std::move(reader.merges);
  STOWAGE_RETURN_IF_ERROR(ReadModel(model, &parts));
  STOWAGE_RETURN_IF_ERROR(ReadAdded(Member(file, "added_tokens"), &parts));
  STOWAGE_RETURN_IF_ERROR(ReadNormalizer(Member(file, "normalizer"), &parts));
  STOWAGE_RETURN_IF_ERROR(
      ReadPreTokenizer(Member(file, "pre_tokenizer"), &parts));
  STOWAGE_RETURN_IF_ERROR(
      ReadPostProcessor(Member(file, "post_processor"), &parts));
  const Json& decoder = Member(file, "decoder");
  if (TypeOf(decoder) != "ByteLevel") {
    return UnsupportedError("[tokenizer.json] the decoder is ", Name(decoder),
                            "; expected ByteLevel");
  }
  return parts;
}

namespace {

Result<TokenizerParts> PartsOfFile(const InputFile& file,
                                   const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const bool is_gguf, IsGguf(file));
  if (!is_gguf) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
    return ParseTokenizerParts(json);
  }
  STOWAGE_ASSIGN_OR_RETURN(const GgufHeader header, ReadGgufHeader(file));
  STOWAGE_ASSIGN_OR_RETURN(GgufTokenizer gguf, GgufTokenizerOf(header));
  return PartsOf(std::move(gguf));
}

Result<Tokenizer> TokenizerOfFile(const InputFile& file,
                                  const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(TokenizerParts parts, PartsOfFile(file, path));
  return Tokenizer::Create(std::move(parts));
}

}  // namespace

Result<Tokenizer> ReadTokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path given(path);
  std::string name = path;
  if (fs::is_directory(given, none)) {
    name = (given / "tokenizer.json").string();
  } else if (given.extension() == ".safetensors") {
    name = (given.parent_path() / "tokenizer.json").string();
  }
  STOWAGE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(name, "text"));
  Result<Tokenizer> tokenizer = TokenizerOfFile(file, name);
  if (tokenizer.ok()) return tokenizer;
  return file.Fail(
      StrCat("has no tokenizer that is read: ", tokenizer.error().message),
      tokenizer.error().code);
}

}  // namespace stowage
