#include "train/sentence_transformer.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <variant>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kModulesFile = "modules.json";
constexpr std::string_view kTransformerFile = "sentence_bert_config.json";
constexpr std::string_view kModelFile = "config_sentence_transformers.json";
constexpr std::string_view kEmbedding = "sentence_embedding";

// pooling_mode_... of versions before 6, and their names since.
constexpr std::pair<std::string_view, std::string_view> kModes[] = {
    {"cls_token", "cls"},
    {"max_tokens", "max"},
    {"mean_tokens", "mean"},
    {"mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
    {"weightedmean_tokens", "weightedmean"},
    {"lasttoken", "lasttoken"}};

// A file of settings, each of which must be known.
class Settings {
 public:
  // Absent if there is no such file.
  static Result<std::optional<Settings>> Open(const fs::path& path) {
    std::error_code failed;
    if (!fs::exists(path, failed)) return std::optional<Settings>();
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string()));
    Settings settings(path.string());
    auto values = JsonValues::Parse(text);
    if (!values.ok()) return settings.Fail(values.error().message);
    settings.values_ = *std::move(values);
    return std::optional(std::move(settings));
  }

  const JsonValues& values() const { return values_; }

  Error Fail(std::string_view message,
             ErrorCode code = ErrorCode::kInvalidArgument) const {
    return {code, StrCat("[embed] ", Quoted(path_), " ", message)};
  }
  Error Unsupported(std::string_view key, std::string_view expected) const {
    return Fail(StrCat("has ", Quoted(key), " ", TextOf(key), "; ", expected,
                       " is supported"),
                ErrorCode::kUnsupported);
  }

  // An error for a value under another top-level key, unless it is null or false.
  Status CheckKeys(std::initializer_list<std::string_view> known) const {
    for (const auto& [path, value] : values_.values()) {
      const std::string_view key =
          std::string_view(path).substr(0, path.find('.'));
      const bool is_off =
          std::holds_alternative<std::monostate>(value) ||
          (std::holds_alternative<bool>(value) && !std::get<bool>(value));
      if (is_off || std::ranges::find(known, key) != known.end()) continue;
      return Fail(StrCat("has ", Quoted(path), ", which is not supported"),
                  ErrorCode::kUnsupported);
    }
    return {};
  }

  // An error for another text than the expected one; absent and null are that one, too.
  Status MustBe(std::string_view key, std::string_view expected) const {
    if (!values_.Has(key)) return {};
    const auto text = values_.Text(key);
    if (text.ok() && *text == expected) return {};
    return Unsupported(key, Quoted(expected));
  }

  Status MustBeFalse(std::string_view key) const {
    if (!values_.Has(key)) return {};
    const auto value = values_.Bool(key);
    if (value.ok() && !*value) return {};
    return Unsupported(key, "false");
  }

 private:
  explicit Settings(std::string path) : path_(std::move(path)) {}

  std::string TextOf(std::string_view key) const {
    if (const auto text = values_.Text(key); text.ok()) return Quoted(*text);
    if (const auto number = values_.Real(key); number.ok()) {
      return StrCat(*number);
    }
    const auto flag = values_.Bool(key);
    return flag.ok() ? (*flag ? "true" : "false") : "of another kind";
  }

  std::string path_;
  JsonValues values_;
};

class Reader {
 public:
  Reader(fs::path folder, int64_t width)
      : folder_(std::move(folder)), width_(width) {}

  Result<SentenceTransformer> Read() {
    STOWAGE_RETURN_IF_ERROR(ReadModules());
    STOWAGE_RETURN_IF_ERROR(ReadTransformer());
    STOWAGE_RETURN_IF_ERROR(ReadModel());
    return std::move(read_);
  }

 private:
  Status ReadModules() {
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<Settings> modules,
                             Settings::Open(folder_ / kModulesFile));
    if (!modules) return {};
    constexpr std::string_view kOrder[] = {"Transformer", "Pooling",
                                           "Normalize"};
    size_t count = 0;
    for (; modules->values().HasBelow(StrCat(count)); ++count) {
      const auto type = modules->values().Text(StrCat(count, ".type"));
      if (!type.ok()) return modules->Fail(type.error().message);
      const std::string kind = type->substr(type->rfind('.') + 1);
      if (count >= std::size(kOrder) || kind != kOrder[count]) {
        return modules->Fail(
            StrCat("has ", Quoted(*type), " as module ", count,
                   "; models of Transformer, Pooling and, as the last, "
                   "Normalize are supported"),
            ErrorCode::kUnsupported);
      }
      if (modules->values().HasBelow(StrCat(count, ".kwargs"))) {
        return modules->Fail(StrCat("has \"kwargs\" of module ", count,
                                    ", which are not supported"),
                             ErrorCode::kUnsupported);
      }
      const auto path = modules->values().Text(StrCat(count, ".path"));
      if (!path.ok()) return modules->Fail(path.error().message);
      STOWAGE_RETURN_IF_ERROR(ReadModule(count, *path, *modules));
    }
    if (count < 2) {
      return modules->Fail(
          StrCat("has ", count, " modules; expected Transformer and Pooling"));
    }
    read_.normalizes = count == std::size(kOrder);
    return {};
  }

  Status ReadModule(size_t number, const std::string& path,
                    const Settings& modules) {
    if (number == 0) {
      if (path.empty()) return {};
      return modules.Fail(StrCat("has the Transformer in ", Quoted(path),
                                 "; one in the folder itself is supported"),
                          ErrorCode::kUnsupported);
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<Settings> settings,
                             Settings::Open(folder_ / path / "config.json"));
    if (number == 1) {
      if (!settings) {
        return modules.Fail(StrCat("has a Pooling in ", Quoted(path),
                                   ", which has no config.json"));
      }
      return ReadPooling(*settings);
    }
    if (!settings) return {};
    STOWAGE_RETURN_IF_ERROR(
        settings->CheckKeys({"module_input_name", "module_output_name"}));
    STOWAGE_RETURN_IF_ERROR(settings->MustBe("module_input_name", kEmbedding));
    return settings->MustBe("module_output_name", kEmbedding);
  }

  Status ReadPooling(const Settings& settings) {
    const JsonValues& values = settings.values();
    std::vector<std::string> modes;
    if (values.Has("pooling_mode")) {
      const auto mode = values.Text("pooling_mode");
      if (!mode.ok()) return settings.Fail(mode.error().message);
      modes.push_back(*mode);
    }
    for (size_t i = 0; values.Has(StrCat("pooling_mode.", i)); ++i) {
      const auto mode = values.Text(StrCat("pooling_mode.", i));
      if (!mode.ok()) return settings.Fail(mode.error().message);
      modes.push_back(*mode);
    }
    const bool is_new = !modes.empty();
    for (const auto& [former, mode] : kModes) {
      const auto is_on = values.Bool(StrCat("pooling_mode_", former));
      if (!is_new && is_on.ok() && *is_on) modes.emplace_back(mode);
    }
    STOWAGE_RETURN_IF_ERROR(settings.CheckKeys(
        {"pooling_mode", "pooling_mode_cls_token", "pooling_mode_max_tokens",
         "pooling_mode_mean_tokens", "pooling_mode_mean_sqrt_len_tokens",
         "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken",
         "include_prompt", "word_embedding_dimension", "embedding_dimension"}));
    if (modes.empty()) modes = {"mean"};
    std::string all;
    for (const std::string& mode : modes) {
      all += StrCat(all.empty() ? "" : " and ", mode);
    }
    read_.pooling = FindPooling(modes.front());
    if (modes.size() > 1 || !read_.pooling) {
      return settings.Fail(
          StrCat("pools by ", all, "; mean, cls or lasttoken is supported"),
          ErrorCode::kUnsupported);
    }
    if (values.Has("include_prompt")) {
      const auto pools = values.Bool("include_prompt");
      if (!pools.ok()) return settings.Fail(pools.error().message);
      read_.pools_prompts = *pools;
    }
    for (const char* const key :
         {"word_embedding_dimension", "embedding_dimension"}) {
      if (!values.Has(key)) continue;
      const auto width = values.Int(key);
      if (!width.ok()) return settings.Fail(width.error().message);
      if (*width == width_) continue;
      return settings.Fail(StrCat("has a ", Quoted(key), " of ", *width,
                                  "; the model's vectors have ", width_,
                                  " elements"));
    }
    return {};
  }

  Status ReadTransformer() {
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<Settings> settings,
                             Settings::Open(folder_ / kTransformerFile));
    if (!settings) return {};
    STOWAGE_RETURN_IF_ERROR(settings->CheckKeys(
        {"max_seq_length", "do_lower_case", "transformer_task",
         "modality_config", "module_output_name", "unpad_inputs"}));
    STOWAGE_RETURN_IF_ERROR(settings->MustBeFalse("do_lower_case"));
    STOWAGE_RETURN_IF_ERROR(
        settings->MustBe("transformer_task", "feature-extraction"));
    STOWAGE_RETURN_IF_ERROR(
        settings->MustBe("module_output_name", "token_embeddings"));
    STOWAGE_RETURN_IF_ERROR(
        settings->MustBe("modality_config.text.method", "forward"));
    STOWAGE_RETURN_IF_ERROR(settings->MustBe(
        "modality_config.text.method_output_name", "last_hidden_state"));
    if (!settings->values().Has("max_seq_length")) return {};
    const auto longest = settings->values().Int("max_seq_length");
    if (!longest.ok()) return settings->Fail(longest.error().message);
    if (*longest < 1) {
      return settings->Fail(StrCat("has a \"max_seq_length\" of ", *longest,
                                   "; expected at least 1"));
    }
    read_.max_seq = *longest;
    return {};
  }

  Status ReadModel() {
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<Settings> settings,
                             Settings::Open(folder_ / kModelFile));
    if (!settings) return {};
    STOWAGE_RETURN_IF_ERROR(settings->CheckKeys(
        {"__version__", "requirements", "model_type", "prompts",
         "default_prompt_name", "similarity_fn_name"}));
    STOWAGE_RETURN_IF_ERROR(
        settings->MustBe("model_type", "SentenceTransformer"));
    const JsonValues& values = settings->values();
    constexpr std::string_view kPrompts = "prompts.";
    for (const auto& [path, value] : values.values()) {
      if (!path.starts_with(kPrompts) || !values.Has(path)) continue;
      const auto prompt = values.Text(path);
      if (!prompt.ok()) return settings->Fail(prompt.error().message);
      read_.prompts[path.substr(kPrompts.size())] = *prompt;
    }
    if (values.Has("default_prompt_name")) {
      const auto name = values.Text("default_prompt_name");
      if (!name.ok()) return settings->Fail(name.error().message);
      if (!read_.prompts.contains(*name)) {
        return settings->Fail(StrCat("has the \"default_prompt_name\" ",
                                     Quoted(*name),
                                     ", and no prompt of that name"));
      }
      read_.default_prompt = *name;
    }
    if (!values.Has("similarity_fn_name")) return {};
    const auto similarity = values.Text("similarity_fn_name");
    if (!similarity.ok()) return settings->Fail(similarity.error().message);
    if (*similarity == "dot" || *similarity == "dot_product") {
      read_.similarity = Similarity::kDot;
    } else if (*similarity != "cosine") {
      return settings->Unsupported("similarity_fn_name", "cosine or dot");
    }
    return {};
  }

  const fs::path folder_;
  const int64_t width_;
  SentenceTransformer read_;
};

std::string FirstPrompt(const SentenceTransformer& settings,
                        std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const auto found = settings.prompts.find(name);
    if (found != settings.prompts.end()) return found->second;
  }
  const auto found = settings.prompts.find(settings.default_prompt);
  return found == settings.prompts.end() ? "" : found->second;
}

std::string Written(const OrderedJson& json) {
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

std::string SentenceTransformer::QueryPrompt() const {
  return FirstPrompt(*this, {"query"});
}

std::string SentenceTransformer::DocumentPrompt() const {
  return FirstPrompt(*this, {"document", "passage", "corpus"});
}

Result<SentenceTransformer> ReadSentenceTransformer(const std::string& path,
                                                    int64_t width) {
  std::error_code failed;
  const fs::path folder = fs::is_directory(path, failed)
                              ? fs::path(path)
                              : fs::path(path).parent_path();
  return Reader(folder, width).Read();
}

std::vector<FileText> SentenceTransformerFiles(
    const SentenceTransformer& settings, int64_t width) {
  const auto module = [](int number, const char* name, const char* folder) {
    return OrderedJson{{"idx", number},
                       {"name", StrCat(number)},
                       {"path", folder},
                       {"type", StrCat("sentence_transformers.models.", name)}};
  };
  OrderedJson modules = {module(0, "Transformer", ""),
                         module(1, "Pooling", "1_Pooling")};
  if (settings.normalizes) {
    modules.push_back(module(2, "Normalize", "2_Normalize"));
  }
  OrderedJson pooling = {{"word_embedding_dimension", width}};
  for (const auto& [former, mode] : kModes) {
    pooling[StrCat("pooling_mode_", former)] =
        mode == PoolingName(*settings.pooling);
  }
  pooling["include_prompt"] = settings.pools_prompts;
  OrderedJson transformer = OrderedJson::object();
  if (settings.max_seq) transformer["max_seq_length"] = *settings.max_seq;
  transformer["do_lower_case"] = false;
  const OrderedJson model = {
      {"model_type", "SentenceTransformer"},
      {"prompts", settings.prompts},
      {"default_prompt_name", settings.default_prompt.empty()
                                  ? OrderedJson()
                                  : OrderedJson(settings.default_prompt)},
      {"similarity_fn_name",
       settings.similarity == Similarity::kCosine ? "cosine" : "dot"}};
  return {{std::string(kModulesFile), Written(modules)},
          {"1_Pooling/config.json", Written(pooling)},
          {std::string(kTransformerFile), Written(transformer)},
          {std::string(kModelFile), Written(model)}};
}

}  // namespace stowage
