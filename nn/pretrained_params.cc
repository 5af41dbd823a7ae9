// The tensors of a file that hold the params of its model.

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "nn/experts.h"
#include "nn/gguf_form.h"
#include "nn/pretrained.h"

namespace stowage {

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

// What GPT2LMHeadModel calls a param of ours; older files leave the prefix out.
std::string Gpt2Name(std::string_view param, bool prefixed) {
  if (param == "lm_head.weight") return std::string(param);
  const bool embedding = param == "wte" || param == "wpe";
  return StrCat(prefixed ? "transformer." : "", param,
                embedding ? ".weight" : "");
}

// What the file calls the head, and the embedding.
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

// Whether the model makes by itself what the tensor holds.
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

// Whether two tensors of a file hold the same numbers. Reads both up to the first that
// differs.
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

// Whether the head is the embedding; an encoder's never is.
bool IsTied(const PublishedModel& model) {
  return std::visit(
      [](const auto& config) {
        if constexpr (requires { config.tied_head; }) return config.tied_head;
        return false;
      },
      model.config);
}

}  // namespace

// A head of the file's that is not the embedding is no tied one, whatever the config says.
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
  return std::holds_alternative<GptConfig>(model_.config)
             ? Gpt2Name(param, /*prefixed=*/true)
             : std::string(param);
}

// The tensor of an encoder's param: files of a bare encoder leave the prefix out, and those
// that were made from TensorFlow's call a norm's params gamma and beta.
const WeightTensor* PretrainedModel::FindTensor(std::string_view param) const {
  const std::string_view prefix = encoder()->names.prefix;
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

// Whether a tensor that no param takes is one of those that an encoder has for other tasks.
bool PretrainedModel::IsOfAnotherHead(std::string_view tensor) const {
  for (const std::string_view head :
       {"cls.", "lm_head.", "vocab_transform.", "vocab_layer_norm.",
        "vocab_projector.", "discriminator_predictions.",
        "generator_predictions.", "generator_lm_head.", "pooler."}) {
    if (tensor.starts_with(head)) return true;
  }
  return tensor.starts_with(StrCat(encoder()->names.prefix, "pooler."));
}

Status PretrainedModel::MatchParams() {
  // Any graph of the model has all of its params.
  const auto graph = Build(ModelPurpose::kGenerate, {.batch = 1, .seq = 1});
  if (!graph.ok()) {
    return file_.Fail(
        StrCat("describes what cannot be built: ", graph.error().message));
  }
  const auto* const llama = std::get_if<LlamaConfig>(&model_.config);
  const bool gguf = file_.gguf() != nullptr;
  const bool tied = IsTied(model_);
  // Of an encoder, whether its file has a head that classifies texts.
  const bool has_head =
      encoder() == nullptr ||
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
    // BERT's pooler is there without a classifier, too.
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
          encoder() != nullptr ? FindTensor(info.name) : file_.Find(name);
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
    if (encoder() != nullptr && IsOfAnotherHead(tensors[i].name)) {
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
