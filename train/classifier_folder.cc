#include "train/classifier_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "nn/encoder.h"
#include "train/merged_weights.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kWeightsName = "model.safetensors";
constexpr std::string_view kConfigName = "config.json";
// Files of a tokenizer that transformers reads beside tokenizer.json.
constexpr std::string_view kBesideTokenizer[] = {"tokenizer_config.json",
                                                 "special_tokens_map.json",
                                                 "added_tokens.json",
                                                 "vocab.txt",
                                                 "vocab.json",
                                                 "merges.txt",
                                                 "sentencepiece.bpe.model"};

std::string In(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

// The folder of a model that was opened by it or by a file in it.
fs::path FolderOf(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? fs::path(path)
                                         : fs::path(path).parent_path();
}

std::string_view TorchName(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    default:
      return "float32";
  }
}

// The base's config with what is the classifier's.
std::string ClassifierConfig(const std::string& base,
                             const EncoderConfig& encoder, DType dtype) {
  Json config = Json::parse(base);
  config["architectures"] = {
      StrCat(encoder.names.architecture, "ForSequenceClassification")};
  Json names = Json::object(), numbers = Json::object();
  for (size_t i = 0; i < encoder.labels.size(); ++i) {
    names[StrCat(i)] = encoder.labels[i];
    numbers[encoder.labels[i]] = i;
  }
  config.erase("num_labels");  // which is as many as there are names
  config["id2label"] = std::move(names);
  config["label2id"] = std::move(numbers);
  config["problem_type"] = "single_label_classification";
  const bool is_distilled = encoder.names.family == "distilbert";
  config[is_distilled ? "dropout" : "hidden_dropout_prob"] =
      encoder.dropout.hidden;
  config[is_distilled ? "attention_dropout" : "attention_probs_dropout_prob"] =
      encoder.dropout.attention;
  config[is_distilled ? "seq_classif_dropout" : "classifier_dropout"] =
      encoder.dropout.classifier;
  // Both names are read by transformers 5, the first alone by earlier ones.
  const bool is_new = config.contains("dtype");
  config.erase(is_new ? "torch_dtype" : "dtype");
  config[is_new ? "dtype" : "torch_dtype"] = TorchName(dtype);
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string ClassifierWeightsPath(const std::string& folder) {
  return folder.empty() ? "" : In(folder, kWeightsName);
}

Result<ClassifierFolder> ClassifierFolder::Claim(const std::string& folder,
                                                 const PretrainedModel& base,
                                                 const std::string& tokenizer) {
  STOWAGE_CHECK(base.encoder() != nullptr);
  const fs::path source = FolderOf(base.file().path());
  STOWAGE_ASSIGN_OR_RETURN(std::string text,
                           ReadFile((source / kConfigName).string()));
  if (!Json::parse(text, nullptr, /*allow_exceptions=*/false).is_object()) {
    return base.file().Fail("has a config.json that is no JSON object");
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return Error{ErrorCode::kIo,
                 StrCat("[classifier] cannot make the folder ", Quoted(folder),
                        ": ", failed.message())};
  }
  STOWAGE_ASSIGN_OR_RETURN(OutputFile weights,
                           OutputFile::Claim(In(folder, kWeightsName)));
  STOWAGE_ASSIGN_OR_RETURN(OutputFile config,
                           OutputFile::Claim(In(folder, kConfigName)));
  ClassifierFolder files(std::move(weights), std::move(config),
                         std::move(text));
  const auto copy = [&](const fs::path& from, std::string_view name) -> Status {
    STOWAGE_ASSIGN_OR_RETURN(OutputFile to,
                             OutputFile::Claim(In(folder, name)));
    STOWAGE_RETURN_IF_ERROR(NoteInput(from.string()));
    files.copies_.emplace_back(from.string(), std::move(to));
    return {};
  };
  STOWAGE_RETURN_IF_ERROR(copy(tokenizer, "tokenizer.json"));
  const fs::path beside = fs::path(tokenizer).parent_path();
  for (const std::string_view name : kBesideTokenizer) {
    if (!fs::exists(beside / name, failed)) continue;
    STOWAGE_RETURN_IF_ERROR(copy(beside / name, name));
  }
  return files;
}

Status SaveClassifier(const FineTuning& tuning, const Runner& runner,
                      const ClassifierFolder& folder) {
  STOWAGE_RETURN_IF_ERROR(SaveMerged(tuning, runner, folder.weights_));
  for (const auto& [source, file] : folder.copies_) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source));
    STOWAGE_RETURN_IF_ERROR(file.Replace(bytes));
  }
  // Last: without it, no program takes the folder for a model.
  return folder.config_.Replace(ClassifierConfig(
      folder.config_text_, *tuning.base().encoder(), tuning.options().dtype));
}

}  // namespace stowage
