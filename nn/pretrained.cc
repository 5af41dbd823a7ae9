#include "nn/pretrained.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage {

Result<PretrainedModel> PretrainedModel::Open(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(WeightsFile file, WeightsFile::Open(path));
  STOWAGE_ASSIGN_OR_RETURN(PublishedModel model, DescribeModel(file));
  if (std::holds_alternative<EncoderConfig>(model.config)) {
    return file.Fail(StrCat("is an encoder of the family ", model.family,
                            ", which predicts no next token; it is opened to "
                            "classify texts (PretrainedModel::OpenClassifier)"),
                     ErrorCode::kUnsupported);
  }
  PretrainedModel pretrained(std::move(file), std::move(model));
  STOWAGE_RETURN_IF_ERROR(pretrained.FindTiedHead());
  STOWAGE_RETURN_IF_ERROR(pretrained.MatchParams());
  return pretrained;
}

Result<PretrainedModel> PretrainedModel::OpenClassifier(
    const std::string& path, const ClassifierOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(WeightsFile file, WeightsFile::Open(path));
  STOWAGE_ASSIGN_OR_RETURN(PublishedModel model, DescribeModel(file));
  auto* const config = std::get_if<EncoderConfig>(&model.config);
  if (config == nullptr) {
    return file.Fail(StrCat("is a language model of the family ", model.family,
                            "; encoders alone classify texts"),
                     ErrorCode::kUnsupported);
  }
  const std::vector<std::string>& labels = options.labels;
  if (config->labels.empty() && labels.size() < 2) {
    return file.Fail(StrCat("has no head that classifies texts, and ",
                            labels.size(),
                            " labels are given; expected at least 2"));
  }
  if (config->labels.empty()) config->labels = labels;
  if (!labels.empty() && labels != config->labels) {
    return file.Fail(StrCat("classifies texts as ", Named(config->labels),
                            ", and the labels ", Named(labels), " are given"));
  }
  for (const auto& [rate, given] :
       {std::pair(&config->dropout.hidden, options.hidden_dropout),
        std::pair(&config->dropout.attention, options.attention_dropout),
        std::pair(&config->dropout.classifier, options.classifier_dropout)}) {
    if (given) *rate = *given;
  }
  PretrainedModel pretrained(std::move(file), std::move(model));
  STOWAGE_RETURN_IF_ERROR(pretrained.MatchParams());
  return pretrained;
}

Result<Graph> PretrainedModel::Build(ModelPurpose purpose,
                                     const ModelOptions& options) const {
  if (encoder() != nullptr) return BuildEncoder(*encoder(), purpose, options);
  if (const auto* const llama = std::get_if<LlamaConfig>(&model_.config)) {
    return BuildLlama(*llama, purpose, options);
  }
  return BuildGpt(std::get<GptConfig>(model_.config), purpose, options);
}

int64_t PretrainedModel::vocabulary() const {
  return std::visit([](const auto& config) { return config.vocabulary; },
                    model_.config);
}

int64_t PretrainedModel::max_seq() const {
  return std::visit([](const auto& config) { return config.max_seq; },
                    model_.config);
}

namespace {

// Calls read(tensor, row of it, position in the rows asked for, rows) for runs of rows that
// stand together in the param and in a tensor.
template <typename Read>
Status EachRun(const PretrainedParam& param, int64_t first, int64_t rows,
               Read read) {
  const int64_t of_tensor = param.rows() / std::ssize(param.tensors);
  for (int64_t at = 0; at < rows;) {
    const int64_t row = first + at;
    const size_t tensor = param.tensors[static_cast<size_t>(row / of_tensor)];
    const bool in_order = param.in_file.in_order();
    const int64_t run =
        in_order ? std::min(rows - at, of_tensor - row % of_tensor) : 1;
    const int64_t in_file =
        in_order ? row % of_tensor : param.in_file.RowOfFile(row, of_tensor);
    STOWAGE_RETURN_IF_ERROR(read(tensor, in_file, at, run));
    at += run;
  }
  return {};
}

// Numbers of a row.
int64_t RowSize(const PretrainedParam& param) {
  return param.shape.num_elements() / param.rows();
}

}  // namespace

int64_t RowsOf(const Shape& shape) {
  return shape.rank() == 1 ? shape[0] : shape.num_elements() / shape.back();
}

Status PretrainedModel::ReadFloats(const PretrainedParam& param,
                                   int64_t first_row,
                                   std::span<float> to) const {
  const int64_t size = RowSize(param);
  STOWAGE_CHECK(std::ssize(to) % size == 0);
  STOWAGE_RETURN_IF_ERROR(EachRun(
      param, first_row, std::ssize(to) / size,
      [&](size_t tensor, int64_t row, int64_t at, int64_t rows) {
        return file_.ReadFloats(file_.tensors()[tensor], row * size,
                                to.subspan(static_cast<size_t>(at * size),
                                           static_cast<size_t>(rows * size)));
      }));
  if (param.in_file.added != 0) {
    for (float& number : to) number -= param.in_file.added;
  }
  return {};
}

Status PretrainedModel::ReadBytes(const PretrainedParam& param,
                                  int64_t first_row,
                                  std::span<std::byte> to) const {
  const Bytes size = bytes(param) / param.rows();
  STOWAGE_CHECK(std::ssize(to) % size == 0 && param.in_file.added == 0);
  return EachRun(param, first_row, std::ssize(to) / size,
                 [&](size_t tensor, int64_t row, int64_t at, int64_t rows) {
                   return file_.ReadBytes(
                       file_.tensors()[tensor], row * size,
                       to.subspan(static_cast<size_t>(at * size),
                                  static_cast<size_t>(rows * size)));
                 });
}

}  // namespace stowage
