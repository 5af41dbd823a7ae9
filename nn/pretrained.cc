#include "nn/pretrained.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "nn/gguf_form.h"
#include "nn/layers.h"

namespace stowage {

Result<PretrainedModel> PretrainedModel::Open(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(WeightsFile file, WeightsFile::Open(path));
  STOWAGE_ASSIGN_OR_RETURN(PublishedModel model, DescribeModel(file));
  if (std::holds_alternative<EncoderConfig>(model.config)) {
    return file.Fail(StrCat("is an encoder of the family ", model.family,
                            ", which predicts no next token; it is opened to "
                            "classify texts (PretrainedModel::OpenClassifier) "
                            "or to embed them (OpenEmbedder)"),
                     ErrorCode::kUnsupported);
  }
  if (model.is_bare) {
    return file.Fail(StrCat("is of the family ", model.family,
                            " without a head, which predicts no next token; it "
                            "is opened to embed texts "
                            "(PretrainedModel::OpenEmbedder)"),
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

namespace {

// Checks that a decoder attends to earlier tokens alone, as the graphs here do.
Status CheckIsCausal(const WeightsFile& file) {
  for (const auto& [key, expected] :
       {std::pair("is_causal", true),
        std::pair("use_bidirectional_attention", false)}) {
    const auto value = file.config()->Bool(key);
    if (!file.config()->Has(key) || (value.ok() && *value == expected)) {
      continue;
    }
    return file.Fail(
        StrCat("has a ", Quoted(key), " other than ",
               expected ? "true" : "false",
               "; decoders that attend to earlier tokens alone are supported"),
        ErrorCode::kUnsupported);
  }
  return {};
}

}  // namespace

Result<PretrainedModel> PretrainedModel::OpenEmbedder(
    const std::string& path, const EmbedderOptions& options) {
  STOWAGE_ASSIGN_OR_RETURN(WeightsFile file, WeightsFile::Open(path));
  STOWAGE_ASSIGN_OR_RETURN(PublishedModel model, DescribeModel(file));
  const auto refuse = [&](std::string_view what) {
    return file.Fail(what, ErrorCode::kUnsupported);
  };
  if (file.gguf() != nullptr) {
    return refuse(
        "is a GGUF file; a model that embeds texts is read from a Hugging Face "
        "folder");
  }
  if (auto* const config = std::get_if<EncoderConfig>(&model.config)) {
    config->labels.clear();
    config->dropout.classifier = 0;
    if (options.hidden_dropout) {
      config->dropout.hidden = *options.hidden_dropout;
    }
    if (options.attention_dropout) {
      config->dropout.attention = *options.attention_dropout;
    }
  } else if (std::holds_alternative<GptConfig>(model.config)) {
    return refuse(
        "is of the family gpt2, which embeds no texts here; encoders, and "
        "decoders of the families of Llama, do");
  } else {
    STOWAGE_RETURN_IF_ERROR(CheckIsCausal(file));
    for (const auto& [name, given] :
         {std::pair("hidden", options.hidden_dropout),
          std::pair("attention", options.attention_dropout)}) {
      if (!given) continue;
      return file.Fail(StrCat("is a decoder of the family ", model.family,
                              ", and a ", name, " dropout of ", *given,
                              " is given; encoders alone have one"));
    }
  }
  PretrainedModel pretrained(std::move(file), std::move(model));
  pretrained.embeds_ = true;
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

int64_t PretrainedModel::width() const {
  return std::visit([](const auto& config) { return config.width; },
                    model_.config);
}

int64_t PretrainedModel::max_seq() const {
  return std::visit([](const auto& config) { return config.max_seq; },
                    model_.config);
}

namespace {

// Calls read(tensor, its row, position in the requested rows, rows) for runs of rows that are
// contiguous in both the param and a tensor.
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

// Elements per row.
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

std::string Named(std::span<const std::string> names) {
  constexpr size_t kMaxNamed = 5;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxNamed; ++i) {
    const bool is_last = i > 0 && i + 1 == names.size();
    text += StrCat(i == 0 ? "" : is_last ? " and " : ", ", Quoted(names[i]));
  }
  if (names.size() > kMaxNamed) {
    text += StrCat(" and ", names.size() - kMaxNamed, " more");
  }
  return text;
}

namespace {

// The name of a param in GPT2LMHeadModel; older files omit the prefix.
std::string Gpt2Name(std::string_view param, bool prefixed) {
  if (param == "lm_head.weight") return std::string(param);
  const bool embedding = param == "wte" || param == "wpe";
  return StrCat(prefixed ? "transformer." : "", param,
                embedding ? ".weight" : "");
}

// The names of the head and the embedding in the file.
struct EndNames {
  std::string_view head = "lm_head.weight";
  std::vector<std::string_view> embedding = {"transformer.wte.weight",
                                             "wte.weight"};
};
EndNames EndsOf(const PublishedModel& model) {
  const auto* const llama = std::get_if<LlamaConfig>(&model.config);
  if (llama == nullptr) return {};
  return {llama->names.head, {llama->names.embedding}};
}

// Returns whether the model computes the tensor itself.
bool IsComputed(std::string_view tensor, bool gguf, bool tied,
                const PublishedModel& model) {
  if (gguf) {
    return tensor == "rope_freqs.weight" ||
           tensor == "rope_factors_long.weight" ||
           tensor == "rope_factors_short.weight";
  }
  if (std::holds_alternative<EncoderConfig>(model.config)) {
    return tensor.ends_with("embeddings.position_ids") ||
           tensor.ends_with("embeddings.token_type_ids");
  }
  if (tied && tensor == EndsOf(model).head) return true;
  const auto* const llama = std::get_if<LlamaConfig>(&model.config);
  const std::string_view attention =
      llama == nullptr ? "attn" : llama->names.attention;
  for (const std::string_view part :
       {"bias", "masked_bias", "rotary_emb.inv_freq"}) {
    if (tensor.ends_with(StrCat(".", attention, ".", part))) return true;
  }
  return tensor.ends_with(".rotary_emb.inv_freq");
}

// Returns whether two tensors of a file are equal. Reads both up to the first difference.
Result<bool> Equal(const WeightsFile& file, const WeightTensor& a,
                   const WeightTensor& b) {
  if (!a.foreign.empty() || !b.foreign.empty() || a.shape != b.shape) {
    return false;
  }
  constexpr int64_t kWindow = 1 << 16;  // numbers
  const int64_t size = a.shape.num_elements();
  std::vector<float> left, right;
  for (int64_t first = 0; first < size; first += kWindow) {
    left.resize(static_cast<size_t>(std::min(kWindow, size - first)));
    right.resize(left.size());
    STOWAGE_RETURN_IF_ERROR(file.ReadFloats(a, first, left));
    STOWAGE_RETURN_IF_ERROR(file.ReadFloats(b, first, right));
    if (left != right) return false;
  }
  return true;
}

// Returns whether the head is tied to the embedding; never for encoders.
bool IsTied(const PublishedModel& model) {
  return std::visit(
      [](const auto& config) {
        if constexpr (requires { config.tied_head; }) return config.tied_head;
        return false;
      },
      model.config);
}

}  // namespace

// Unties a head that differs from the embedding, regardless of the config.
Status PretrainedModel::FindTiedHead() {
  auto* const llama = std::get_if<LlamaConfig>(&model_.config);
  bool& tied = llama != nullptr ? llama->tied_head
                                : std::get<GptConfig>(model_.config).tied_head;
  const EndNames names = EndsOf(model_);
  const WeightTensor* const head = file_.Find(names.head);
  if (file_.gguf() != nullptr || !tied || head == nullptr) return {};
  for (const std::string_view name : names.embedding) {
    if (const WeightTensor* const embedding = file_.Find(name)) {
      STOWAGE_ASSIGN_OR_RETURN(tied, Equal(file_, *head, *embedding));
      return {};
    }
  }
  return {};
}

std::string PretrainedModel::PublishedName(std::string_view param) const {
  if (std::holds_alternative<GptConfig>(model_.config)) {
    return Gpt2Name(param, /*prefixed=*/true);
  }
  const bool is_prefixed = embeds_ && param.starts_with(Prefix());
  return std::string(param.substr(is_prefixed ? Prefix().size() : 0));
}

// The prefix of an encoder's or decoder's params, which files of a bare model omit: "bert.",
// "model.".
std::string_view PretrainedModel::Prefix() const {
  if (encoder() != nullptr) return encoder()->names.prefix;
  const std::string_view embedding =
      std::get<LlamaConfig>(model_.config).names.embedding;
  return embedding.substr(0, embedding.find('.') + 1);
}

// The tensor of a param of an encoder, or of a decoder that embeds. Files converted from
// TensorFlow name a norm's params gamma and beta.
const WeightTensor* PretrainedModel::FindTensor(std::string_view param) const {
  const std::string_view prefix = Prefix();
  std::vector<std::string> names = {std::string(param)};
  if (param.starts_with(prefix)) {
    names.emplace_back(param.substr(prefix.size()));
  }
  for (const std::string& name : names) {
    if (const WeightTensor* const tensor = file_.Find(name)) return tensor;
    for (const auto& [ours, theirs] :
         {std::pair(".LayerNorm.weight", ".LayerNorm.gamma"),
          std::pair(".LayerNorm.bias", ".LayerNorm.beta")}) {
      if (!name.ends_with(ours)) continue;
      const std::string layer =
          name.substr(0, name.size() - std::string_view(ours).size());
      const WeightTensor* const tensor = file_.Find(StrCat(layer, theirs));
      if (tensor != nullptr) return tensor;
    }
  }
  return nullptr;
}

// Returns whether an unused tensor belongs to a head for another task.
bool PretrainedModel::IsOfAnotherHead(std::string_view tensor) const {
  if (encoder() == nullptr) return tensor == EndsOf(model_).head;
  if (embeds_ && IsHeadParam(*encoder(), tensor)) return true;
  for (const std::string_view head :
       {"cls.", "lm_head.", "vocab_transform.", "vocab_layer_norm.",
        "vocab_projector.", "discriminator_predictions.",
        "generator_predictions.", "generator_lm_head.", "pooler."}) {
    if (tensor.starts_with(head)) return true;
  }
  return tensor.starts_with(StrCat(encoder()->names.prefix, "pooler."));
}

std::vector<const WeightTensor*> PretrainedModel::kept() const {
  std::vector<const WeightTensor*> tensors;
  for (const std::string& name : unread_) {
    if (!embeds_ || !PublishedName(name).starts_with("pooler.")) continue;
    const WeightTensor* const tensor = file_.Find(name);
    if (tensor->foreign.empty()) tensors.push_back(tensor);
  }
  return tensors;
}

Status PretrainedModel::MatchParams() {
  // Every graph of the model has all params.
  ModelOptions smallest = {.batch = 1, .seq = 1};
  if (embeds_) smallest.embedding.emplace();
  const auto graph = Build(ModelPurpose::kGenerate, smallest);
  if (!graph.ok()) {
    return file_.Fail(
        StrCat("describes what cannot be built: ", graph.error().message));
  }
  const auto* const llama = std::get_if<LlamaConfig>(&model_.config);
  const bool gguf = file_.gguf() != nullptr;
  const bool tied = IsTied(model_);
  // For an encoder that classifies: the file has a classification head.
  const bool has_head =
      encoder() == nullptr || embeds_ ||
      FindTensor(StrCat(encoder()->names.head_out, ".weight")) != nullptr;
  const bool prefixed = file_.Find("transformer.wte.weight") != nullptr;
  const std::vector<WeightTensor>& tensors = file_.tensors();
  std::vector<bool> used(tensors.size(), false);
  std::vector<std::string> lacking, left;
  for (const ValueId id : graph->Leaves(Role::kParam)) {
    const ValueInfo& info = graph->value(id);
    const std::string called = encoder() != nullptr ? info.name
                               : llama == nullptr
                                   ? Gpt2Name(info.name, prefixed)
                               : gguf ? GgufName(model_, info.name)
                                      : info.name;
    // BERT's pooler may exist without a classifier.
    if (!has_head && IsHeadParam(*encoder(), info.name) &&
        FindTensor(info.name) == nullptr) {
      new_params_.push_back(info.name);
      continue;
    }
    PretrainedParam param{.name = info.name, .shape = info.type.shape};
    if (gguf) param.in_file = GgufRowsOf(model_, info.name);
    const bool is_apart = !gguf && IsOfExperts(info.name);
    const Shape shape = is_apart ? Shape{info.type.shape[1], info.type.shape[2]}
                                 : info.type.shape;
    const int64_t parts = is_apart ? info.type.shape[0] : 1;
    for (int64_t i = 0; i < parts; ++i) {
      const std::string name = is_apart ? NameOfExpert(called, i) : called;
      const WeightTensor* const tensor =
          encoder() != nullptr || embeds_ ? FindTensor(name) : file_.Find(name);
      if (tensor == nullptr) {
        lacking.push_back(name);
        continue;
      }
      if (!tensor->foreign.empty() || tensor->shape != shape) {
        return file_.Fail(StrCat("has ", Quoted(name), " as ",
                                 tensor->Describe(), "; the param ",
                                 Quoted(is_apart ? name : info.name), " is ",
                                 shape.ToString(), " of floats"));
      }
      param.tensors.push_back(static_cast<size_t>(tensor - tensors.data()));
      used[param.tensors.back()] = true;
      if (tensor->type != this->tensor(param).type) {
        return file_.Fail(
            StrCat("has ", Quoted(name), " as ", tensor->Describe(),
                   " and that of expert 0 as ", this->tensor(param).Describe(),
                   "; experts must be of one type"));
      }
    }
    params_.push_back(std::move(param));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (used[i]) continue;
    const bool may_be_unread = encoder() != nullptr || embeds_;
    if (may_be_unread && IsOfAnotherHead(tensors[i].name)) {
      unread_.push_back(tensors[i].name);
    } else if (!IsComputed(tensors[i].name, gguf, tied, model_)) {
      left.push_back(tensors[i].name);
    }
  }
  if (lacking.empty() && left.empty()) return {};
  std::string message;
  if (!lacking.empty()) {
    message = StrCat("lacks ", lacking.size(),
                     " tensors of the model that it "
                     "describes: ",
                     Named(lacking));
  }
  if (!left.empty()) {
    message += StrCat(lacking.empty() ? "has " : "; it has ", left.size(),
                      " tensors that the model does not know: ", Named(left));
  }
  return file_.Fail(message);
}

}  // namespace stowage
