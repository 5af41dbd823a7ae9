#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "tools/tuning.h"

namespace stowage::tools {

namespace {

namespace fs = std::filesystem;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The folder of the files of a model or a tokenizer; "" for a GGUF file, which contains them.
std::optional<fs::path> FolderOfFile(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return fs::path(path);
  const fs::path file(path);
  if (file.extension() == ".json" || file.extension() == ".safetensors") {
    return file.parent_path();
  }
  return {};
}

// The values of a file in the folder; none if it is missing.
Result<JsonValues> ReadJson(const std::optional<fs::path>& folder,
                            const char* name) {
  if (!folder || !Exists(*folder / name)) return JsonValues();
  STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                           ReadFile((*folder / name).string()));
  auto values = JsonValues::Parse(text);
  if (values.ok()) return values;
  return InvalidArgumentError("[finetune] ", Quoted((*folder / name).string()),
                              " is damaged: ", values.error().message);
}

// The special tokens by their names in templates, collected as by transformers.
Result<ChatTemplate::Tokens> TokensOf(const std::optional<fs::path>& folder) {
  constexpr std::array<const char*, 7> kNames = {
      "bos_token", "eos_token", "unk_token", "sep_token",
      "pad_token", "cls_token", "mask_token"};
  STOWAGE_ASSIGN_OR_RETURN(const JsonValues config,
                           ReadJson(folder, "tokenizer_config.json"));
  JsonValues map;
  if (!config.HasBelow("added_tokens_decoder")) {
    STOWAGE_ASSIGN_OR_RETURN(map, ReadJson(folder, "special_tokens_map.json"));
  }
  ChatTemplate::Tokens tokens;
  for (const char* const name : kNames) {
    for (const JsonValues* const file : {&std::as_const(map), &config}) {
      auto text = file->Text(name);
      if (!text.ok()) text = file->Text(StrCat(name, ".content"));
      if (!text.ok()) continue;
      tokens.emplace_back(name, *text);
      break;
    }
  }
  return tokens;
}

// The special tokens of a GGUF file, by their ids.
ChatTemplate::Tokens TokensOf(const GgufHeader& header,
                              const Tokenizer& tokenizer) {
  constexpr std::array<std::array<std::string_view, 2>, 4> kNames = {
      {{"bos_token", "bos_token_id"},
       {"eos_token", "eos_token_id"},
       {"unk_token", "unknown_token_id"},
       {"pad_token", "padding_token_id"}}};
  ChatTemplate::Tokens tokens;
  for (const auto& [name, key] : kNames) {
    const auto id = header.Int(StrCat("tokenizer.ggml.", key));
    if (!id.ok() || *id < 0 || *id >= tokenizer.size()) continue;
    const int32_t token = static_cast<int32_t>(*id);
    const auto text = tokenizer.Decode({&token, 1});
    if (text.ok()) tokens.emplace_back(name, *text);
  }
  return tokens;
}

// A template given alone, in a list of named ones, or in an object.
Result<std::string> TemplateIn(const JsonValues& values) {
  const auto alone = values.Text("chat_template");
  if (alone.ok()) return alone;
  const auto named = values.Text("chat_template.default");
  if (named.ok()) return named;
  std::string names;
  for (int i = 0;; ++i) {
    const auto name = values.Text(StrCat("chat_template.", i, ".name"));
    if (!name.ok()) break;
    if (*name == "default") {
      return values.Text(StrCat("chat_template.", i, ".template"));
    }
    names += StrCat(names.empty() ? "" : ", ", Quoted(*name));
  }
  if (names.empty() && alone.error().code == ErrorCode::kInvalidArgument) {
    return Error{ErrorCode::kUnsupported,
                 "the model has a \"chat_template\" that is neither a text nor "
                 "a list of named ones"};
  }
  if (names.empty()) return alone;
  return Error{ErrorCode::kUnsupported,
               StrCat("the model has a list of chat templates, ", names,
                      ", and none of them is \"default\"")};
}

// Error kNotFound if there is none.
Result<std::string> TemplateOf(const std::optional<fs::path>& folder) {
  if (folder && Exists(*folder / "chat_template.jinja")) {
    return ReadFile((*folder / "chat_template.jinja").string());
  }
  Error none{ErrorCode::kNotFound, "the model has no chat template"};
  for (const char* const name :
       {"tokenizer_config.json", "chat_template.json"}) {
    STOWAGE_ASSIGN_OR_RETURN(const JsonValues values, ReadJson(folder, name));
    auto text = TemplateIn(values);
    if (text.ok()) return text;
    if (text.error().code == ErrorCode::kUnsupported) none = text.error();
  }
  return none;
}

Result<std::string> FindTemplate(const WeightsFile& weights,
                                 const std::optional<fs::path>& tokenizer) {
  if (weights.gguf() != nullptr) {
    const auto text = weights.gguf()->Text("tokenizer.chat_template");
    if (text.ok()) return std::string(*text);
  }
  auto text = TemplateOf(FolderOfFile(weights.path()));
  if (text.ok()) return text;
  auto other = TemplateOf(tokenizer);
  return other.ok() ? other : text;
}

// Adds an id that ends texts; the first becomes ModelText::end. Ignores ids below 0.
void AddEnd(int64_t id, const std::string& from, int64_t vocabulary,
            ModelText* text) {
  if (id < 0 || id >= kMaxTokens) return;
  const auto token = static_cast<int32_t>(id);
  if (!text->end) {
    text->end = token;
    text->end_from = from;
  }
  if (id < vocabulary) text->ends.push_back(token);
}

// Adds the ids of "eos_token_id" in a file, one or a list. Error kInvalidArgument: not an id.
Status AddEnds(const std::string& from, const JsonValues& values,
               int64_t vocabulary, ModelText* text) {
  const auto add = [&](const std::string& name) -> Status {
    const auto id = values.Int(name);
    if (!id.ok() || *id >= kMaxTokens) {
      return InvalidArgumentError(
          "[tokens] ", Quoted(from), " has an ", Quoted(name),
          id.ok() ? StrCat(" of ", *id) : " that is no whole number",
          "; expected a token below ", vocabulary, ", or -1 for none");
    }
    AddEnd(*id, from, vocabulary, text);
    return {};
  };
  if (values.Has("eos_token_id")) return add("eos_token_id");
  for (int64_t i = 0;; ++i) {
    const std::string name = StrCat("eos_token_id.", i);
    if (!values.Has(name)) return {};
    STOWAGE_RETURN_IF_ERROR(add(name));
  }
}

// Adds the token after an answer, which may not be among the ends of texts.
std::optional<int32_t> EndOfAnswer(const ChatTemplate& chat,
                                   const Tokenizer& tokenizer) {
  const auto after = chat.AfterAnswer();
  if (!after.ok()) return {};
  const auto tokens =
      tokenizer.Encode(*after, {.special = true, .add_prefix = false});
  if (!tokens.ok() || tokens->empty()) return {};
  const auto text = tokenizer.Decode(std::span(*tokens).first(1));
  if (!text.ok()) return {};
  return tokenizer.FindAdded(*text);
}

}  // namespace

Result<ModelText> ReadModelText(const WeightsFile& weights,
                                const Tokenizer& tokenizer,
                                const std::string& tokenizer_path,
                                int64_t vocabulary) {
  ModelText text;
  const auto folder = FolderOfFile(weights.path());
  const auto tokenizer_folder = FolderOfFile(tokenizer_path);
  ChatTemplate::Tokens tokens;
  if (weights.gguf() != nullptr) {
    const auto end = weights.gguf()->Int("tokenizer.ggml.eos_token_id");
    if (end.ok()) AddEnd(*end, weights.path(), vocabulary, &text);
    tokens = TokensOf(*weights.gguf(), tokenizer);
  }
  if (tokenizer_folder) {
    STOWAGE_ASSIGN_OR_RETURN(auto named, TokensOf(tokenizer_folder));
    if (!named.empty()) tokens = std::move(named);
  }
  if (weights.config() != nullptr) {
    STOWAGE_RETURN_IF_ERROR(
        AddEnds("config.json", *weights.config(), vocabulary, &text));
  }
  STOWAGE_ASSIGN_OR_RETURN(const JsonValues generation,
                           ReadJson(folder, "generation_config.json"));
  STOWAGE_RETURN_IF_ERROR(
      AddEnds("generation_config.json", generation, vocabulary, &text));
  for (const auto& [name, token] : tokens) {
    if (name != "eos_token") continue;
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<int32_t> ids,
        tokenizer.Encode(token, {.special = true, .add_prefix = false}));
    if (ids.size() != 1) {
      return InvalidArgumentError(
          "[finetune] the \"eos_token\" ", Quoted(token), " of ",
          Quoted(tokenizer_path),
          " is no token of the tokenizer; expected one that "
          "it has, as texts end with it");
    }
    text.end = ids.front();
    text.end_from = tokenizer_path;
    text.ends.push_back(ids.front());
  }
  const auto jinja = FindTemplate(weights, tokenizer_folder);
  if (!jinja.ok()) {
    if (jinja.error().code == ErrorCode::kInvalidArgument) return jinja.error();
    text.no_chat = jinja.error().message;
    return text;
  }
  text.jinja = *jinja;
  auto chat = ChatTemplate::Parse(*jinja, std::move(tokens));
  if (!chat.ok()) {
    text.no_chat = chat.error().message;
    return text;
  }
  if (const auto end = EndOfAnswer(*chat, tokenizer)) {
    text.ends.push_back(*end);
  }
  text.chat = *std::move(chat);
  return text;
}

}  // namespace stowage::tools
