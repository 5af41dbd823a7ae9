#include "train/merged_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/safetensors.h"
#include "math/small_floats.h"
#include "nn/encoder.h"
#include "nn/layers.h"
#include "nn/llama.h"
#include "nn/lora.h"
#include "runtime/checkpoint.h"
#include "runtime/values.h"

namespace stowage {
namespace {

// The numbers as elements of `dtype`.
std::vector<std::byte> Stored(std::span<const float> numbers, DType dtype) {
  std::vector<std::byte> bytes(numbers.size() *
                               static_cast<size_t>(SizeOf(dtype)));
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint16_t bits = dtype == DType::kF16
                              ? math::FloatToHalf(numbers[i])
                              : math::FloatToBFloat16(numbers[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, sizeof(bits));
  }
  return bytes;
}

const ValueInfo& InfoOf(const Runner& runner, std::string_view param) {
  return runner.graph().value(*runner.graph().Find(param));
}

// The number of rows computed at a time.
constexpr int64_t kRowsOfMerged = 64;

}  // namespace

Result<MergedRows> MergedRows::Of(const FineTuning& tuning,
                                  const Runner& runner,
                                  const PretrainedParam& param) {
  MergedRows rows(tuning.base(), param);
  STOWAGE_ASSIGN_OR_RETURN(rows.lora_, ReadLoraMatrices(tuning, runner, param));
  if (!rows.is_adapted()) return rows;
  const LoraRules& rules = *tuning.options().lora;
  rows.factor_ = LoraFactor(rules);
  if (rules.dora) {
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<float> magnitudes,
        ReadFloats(runner, LoraParamsOf(param.name).magnitude));
    STOWAGE_RETURN_IF_ERROR(rows.FindScales(magnitudes));
  }
  return rows;
}

Status MergedRows::FindScales(std::span<const float> magnitudes) {
  const int64_t rows = param_->rows();
  const int64_t columns = param_->shape.num_elements() / rows;
  std::vector<double> squares(magnitudes.size());
  std::vector<float> numbers(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    STOWAGE_RETURN_IF_ERROR(Read(row, numbers));
    for (int64_t column = 0; column < columns; ++column) {
      const double number = double{numbers[static_cast<size_t>(column)]};
      squares[static_cast<size_t>(lora_.rows_are_outputs ? row : column)] +=
          number * number;
    }
  }
  std::vector<double> scales(magnitudes.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = double{magnitudes[i]} / std::sqrt(squares[i]);
  }
  scales_ = std::move(scales);
  return {};
}

Status MergedRows::Read(int64_t first, std::span<float> to) const {
  STOWAGE_RETURN_IF_ERROR(base_->ReadFloats(*param_, first, to));
  if (!is_adapted()) return {};
  const auto columns =
      static_cast<size_t>(param_->shape.num_elements() / param_->rows());
  for (size_t at = 0; at < to.size(); at += columns, ++first) {
    AddShare(first, to.subspan(at, columns));
  }
  return {};
}

void MergedRows::AddShare(int64_t row, std::span<float> numbers) const {
  lora_.AddTo(row, factor_, numbers);
  for (size_t i = 0; i < numbers.size() && !scales_.empty(); ++i) {
    const size_t out = lora_.rows_are_outputs ? static_cast<size_t>(row) : i;
    numbers[i] = static_cast<float>(scales_[out] * double{numbers[i]});
  }
}

Status SaveMerged(const FineTuning& tuning, const Runner& runner,
                  const OutputFile& file) {
  const PretrainedModel& base = tuning.base();
  STOWAGE_CHECK(tuning.options().lora.has_value() ||
                tuning.classifier() != nullptr || base.embeds());
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner));
  const DType dtype = tuning.options().dtype;
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  Bytes end = 0;
  for (const PretrainedParam& param : base.params()) {
    const std::string name = base.PublishedName(param.name);
    const bool is_apart = IsOfExperts(param.name);
    const TensorType type = {
        dtype, is_apart ? Shape{param.shape[1], param.shape[2]} : param.shape};
    for (int64_t i = 0; i < (is_apart ? param.shape[0] : 1); ++i) {
      header.tensors.push_back({.name = is_apart ? NameOfExpert(name, i) : name,
                                .type = type,
                                .begin = end,
                                .end = end + type.bytes()});
      end += type.bytes();
    }
  }
  for (const std::string& name : base.new_params()) {
    const TensorType& type = InfoOf(runner, name).type;
    header.tensors.push_back({.name = base.PublishedName(name),
                              .type = type,
                              .begin = end,
                              .end = end + type.bytes()});
    end += type.bytes();
  }
  const std::vector<const WeightTensor*> kept = base.kept();
  for (const WeightTensor* const tensor : kept) {
    const TensorType type = {dtype, tensor->shape};
    header.tensors.push_back({.name = base.PublishedName(tensor->name),
                              .type = type,
                              .begin = end,
                              .end = end + type.bytes()});
    end += type.bytes();
  }
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  return file.ReplaceBy([&](const OutputFile::WritePart& write) -> Status {
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(&length, 1))));
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(text))));
    const auto write_trained = [&](const std::string& name) {
      return ReadInParts(
          runner, InfoOf(runner, name),
          [&](Bytes, std::span<const std::byte> part) { return write(part); });
    };
    for (const PretrainedParam& param : base.params()) {
      if (tuning.IsTrained(param.name)) {
        STOWAGE_RETURN_IF_ERROR(write_trained(param.name));
        continue;
      }
      STOWAGE_ASSIGN_OR_RETURN(const MergedRows merged,
                               MergedRows::Of(tuning, runner, param));
      const int64_t rows = param.rows();
      const int64_t columns = param.shape.num_elements() / rows;
      // Vectors are read whole, since a part could split a block.
      const int64_t most = param.shape.rank() == 1 ? rows : kRowsOfMerged;
      std::vector<float> numbers;
      for (int64_t first = 0; first < rows; first += most) {
        numbers.resize(
            static_cast<size_t>(std::min(most, rows - first) * columns));
        STOWAGE_RETURN_IF_ERROR(merged.Read(first, numbers));
        STOWAGE_RETURN_IF_ERROR(write(Stored(numbers, dtype)));
      }
    }
    for (const std::string& name : base.new_params()) {
      STOWAGE_RETURN_IF_ERROR(write_trained(name));
    }
    for (const WeightTensor* const tensor : kept) {
      std::vector<float> numbers(
          static_cast<size_t>(tensor->shape.num_elements()));
      STOWAGE_RETURN_IF_ERROR(base.file().ReadFloats(*tensor, 0, numbers));
      STOWAGE_RETURN_IF_ERROR(write(Stored(numbers, dtype)));
    }
    return {};
  });
}

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

// The folder of a model that was opened by the folder or a file in it.
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

// Sets the labels of a classifier.
void SetLabels(const EncoderConfig& encoder, Json* config) {
  Json names = Json::object(), numbers = Json::object();
  for (size_t i = 0; i < encoder.labels.size(); ++i) {
    names[StrCat(i)] = encoder.labels[i];
    numbers[encoder.labels[i]] = i;
  }
  config->erase("num_labels");  // implied by the names
  (*config)["id2label"] = std::move(names);
  (*config)["label2id"] = std::move(numbers);
  (*config)["problem_type"] = "single_label_classification";
}

// Sets the dropouts of training; `of_head` if there is a head.
void SetDropouts(const EncoderConfig& encoder, bool of_head, Json* config) {
  const bool is_distilled = encoder.names.family == "distilbert";
  const EncoderDropout& dropout = encoder.dropout;
  (*config)[is_distilled ? "dropout" : "hidden_dropout_prob"] = dropout.hidden;
  (*config)[is_distilled ? "attention_dropout"
                         : "attention_probs_dropout_prob"] = dropout.attention;
  if (!of_head) return;
  (*config)[is_distilled ? "seq_classif_dropout" : "classifier_dropout"] =
      dropout.classifier;
}

// The base's config.json with the settings of the tuned model.
std::string ConfigOf(const FineTuning& tuning, const std::string& base) {
  Json config = Json::parse(base);
  const EncoderConfig* const encoder = tuning.base().encoder();
  const EncoderConfig* const classifier = tuning.classifier();
  config["architectures"] = {
      encoder == nullptr
          ? BareArchitecture(*FindLlamaFamily(tuning.base().model().family))
          : StrCat(
                encoder->names.architecture,
                classifier != nullptr ? "ForSequenceClassification" : "Model")};
  if (classifier != nullptr) SetLabels(*classifier, &config);
  if (encoder != nullptr) {
    SetDropouts(*encoder, classifier != nullptr, &config);
  }
  // transformers 5 reads both names, earlier versions the first.
  const bool is_new = config.contains("dtype");
  config.erase(is_new ? "torch_dtype" : "dtype");
  config[is_new ? "dtype" : "torch_dtype"] = TorchName(tuning.options().dtype);
  return config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string ModelFolderWeightsPath(const std::string& folder) {
  return folder.empty() ? "" : In(folder, kWeightsName);
}

Result<ModelFolder> ModelFolder::Claim(const std::string& folder,
                                       const PretrainedModel& base,
                                       const std::string& tokenizer,
                                       const std::vector<FileText>& settings) {
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
                 StrCat("[model] cannot make the folder ", Quoted(folder), ": ",
                        failed.message())};
  }
  STOWAGE_ASSIGN_OR_RETURN(OutputFile weights,
                           OutputFile::Claim(In(folder, kWeightsName)));
  STOWAGE_ASSIGN_OR_RETURN(OutputFile config,
                           OutputFile::Claim(In(folder, kConfigName)));
  ModelFolder files(std::move(weights), std::move(config), std::move(text));
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
  for (const auto& [name, content] : settings) {
    fs::create_directories((fs::path(folder) / name).parent_path(), failed);
    STOWAGE_ASSIGN_OR_RETURN(OutputFile to,
                             OutputFile::Claim(In(folder, name)));
    files.settings_.emplace_back(std::move(to), content);
  }
  return files;
}

Status SaveModelFolder(const FineTuning& tuning, const Runner& runner,
                       const ModelFolder& folder) {
  STOWAGE_RETURN_IF_ERROR(SaveMerged(tuning, runner, folder.weights_));
  for (const auto& [source, file] : folder.copies_) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(source));
    STOWAGE_RETURN_IF_ERROR(file.Replace(bytes));
  }
  for (const auto& [file, content] : folder.settings_) {
    STOWAGE_RETURN_IF_ERROR(file.Replace(content));
  }
  // Written last: without it, no program takes the folder for a model.
  return folder.config_.Replace(ConfigOf(tuning, folder.config_text_));
}

}  // namespace stowage
