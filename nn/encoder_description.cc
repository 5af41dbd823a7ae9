// Reads the config.json of an encoder.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "nn/config_values.h"
#include "nn/encoder.h"
#include "nn/model_description.h"

namespace stowage {
namespace {

constexpr int64_t kMaxLabels = 1 << 20;

class EncoderDescription : public ConfigValues {
 public:
  EncoderDescription(const WeightsFile& file, const EncoderNames& names)
      : ConfigValues(file), names_(names) {}

  Result<PublishedModel> Describe(bool has_head) const {
    EncoderConfig config{.name = std::string(names_.family), .names = names_};
    STOWAGE_RETURN_IF_ERROR(FindSizes(&config));
    STOWAGE_RETURN_IF_ERROR(FindActivation(&config));
    STOWAGE_RETURN_IF_ERROR(
        OneOf("position_embedding_type", "absolute", {"absolute"}));
    STOWAGE_RETURN_IF_ERROR(MustBe("is_decoder", false));
    STOWAGE_RETURN_IF_ERROR(MustBe("add_cross_attention", false));
    STOWAGE_RETURN_IF_ERROR(MustBe("sinusoidal_pos_embds", false));
    if (has_head) {
      STOWAGE_RETURN_IF_ERROR(OneOf("problem_type",
                                    "single_label_classification",
                                    {"single_label_classification"}));
      STOWAGE_ASSIGN_OR_RETURN(config.labels, Labels());
    }
    STOWAGE_RETURN_IF_ERROR(FindDropout(&config.dropout));
    STOWAGE_ASSIGN_OR_RETURN(
        config.init_deviation,
        RealOr("initializer_range", config.init_deviation));
    STOWAGE_RETURN_IF_ERROR(
        CheckPositive("\"initializer_range\"", config.init_deviation));
    return PublishedModel{std::string(names_.family), std::move(config)};
  }

 private:
  bool is_distilled() const { return names_.family == "distilbert"; }

  Status FindSizes(EncoderConfig* config) const {
    const bool distilled = is_distilled();
    STOWAGE_ASSIGN_OR_RETURN(
        config->layers, Size(distilled ? "n_layers" : "num_hidden_layers"));
    STOWAGE_RETURN_IF_ERROR(CheckLayers(config->layers));
    STOWAGE_ASSIGN_OR_RETURN(
        config->heads, Size(distilled ? "n_heads" : "num_attention_heads"));
    STOWAGE_ASSIGN_OR_RETURN(config->width,
                             Size(distilled ? "dim" : "hidden_size"));
    STOWAGE_ASSIGN_OR_RETURN(
        config->hidden, Size(distilled ? "hidden_dim" : "intermediate_size"));
    STOWAGE_ASSIGN_OR_RETURN(config->vocabulary, Size("vocab_size"));
    STOWAGE_ASSIGN_OR_RETURN(const int64_t rows,
                             Size("max_position_embeddings"));
    if (names_.prefix == "roberta.") {
      const auto padding = ValueOr(config_.Int("pad_token_id"), int64_t{1});
      if (!padding.ok()) return In(padding.error());
      config->first_position = *padding + 1;
      if (*padding < 0 || *padding + 1 >= rows) {
        return file_.Fail(StrCat("has a \"pad_token_id\" of ", *padding,
                                 "; expected 0 to ", rows - 2,
                                 ", as positions begin behind it"));
      }
    }
    config->max_seq = rows - config->first_position;
    if (distilled) return {};
    STOWAGE_ASSIGN_OR_RETURN(config->types, SizeOr("type_vocab_size", 2));
    STOWAGE_ASSIGN_OR_RETURN(config->eps, RealOr("layer_norm_eps", 1e-12));
    STOWAGE_RETURN_IF_ERROR(CheckPositive("\"layer_norm_eps\"", config->eps));
    if (names_.family == "electra") {
      STOWAGE_ASSIGN_OR_RETURN(config->embedding_width,
                               SizeOr("embedding_size", config->width));
    }
    return {};
  }

  Status FindActivation(EncoderConfig* config) const {
    const char* const name = is_distilled() ? "activation" : "hidden_act";
    STOWAGE_RETURN_IF_ERROR(
        OneOf(name, "gelu",
              {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"}));
    const auto value = ValueOr(config_.Text(name), std::string("gelu"));
    if (!value.ok()) return In(value.error());
    config->activation = *value == "gelu"   ? EncoderActivation::kGeluErf
                         : *value == "relu" ? EncoderActivation::kRelu
                         : *value == "silu" ? EncoderActivation::kSilu
                                            : EncoderActivation::kGeluTanh;
    return {};
  }

  // transformers has two where the file says nothing, and takes one for a regression.
  Result<std::vector<std::string>> Labels() const {
    std::vector<std::string> labels;
    for (int64_t i = 0; config_.Has(StrCat("id2label.", i)); ++i) {
      const auto name = config_.Text(StrCat("id2label.", i));
      if (!name.ok()) return In(name.error());
      labels.push_back(*name);
    }
    if (labels.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(const int64_t count, SizeOr("num_labels", 2));
      if (count > kMaxLabels) {
        return Unsupported(StrCat("a \"num_labels\" of ", count,
                                  "; expected at most ", kMaxLabels));
      }
      for (int64_t i = 0; i < count; ++i) {
        labels.push_back(StrCat("LABEL_", i));
      }
    }
    if (labels.size() >= 2) return labels;
    return Unsupported(
        "one label, which is a regression; classification of two labels or "
        "more is supported");
  }

  Status FindDropout(EncoderDropout* dropout) const {
    const bool distilled = is_distilled();
    const auto rate = [&](std::string_view name,
                          double otherwise) -> Result<double> {
      STOWAGE_ASSIGN_OR_RETURN(const double found, RealOr(name, otherwise));
      if (found >= 0 && found < 1) return found;
      return file_.Fail(StrCat("has a ", Quoted(name), " of ", found,
                               "; expected 0 or above, and below 1"));
    };
    STOWAGE_ASSIGN_OR_RETURN(
        dropout->hidden,
        rate(distilled ? "dropout" : "hidden_dropout_prob", 0.1));
    STOWAGE_ASSIGN_OR_RETURN(
        dropout->attention,
        rate(distilled ? "attention_dropout" : "attention_probs_dropout_prob",
             0.1));
    STOWAGE_ASSIGN_OR_RETURN(dropout->classifier,
                             distilled
                                 ? rate("seq_classif_dropout", 0.2)
                                 : rate("classifier_dropout", dropout->hidden));
    return {};
  }

  const EncoderNames& names_;
};

}  // namespace

std::vector<std::string> EncoderArchitectures() {
  std::vector<std::string> names;
  for (const EncoderNames& family : EncoderFamilies()) {
    names.emplace_back(family.architecture);
  }
  return names;
}

std::optional<Result<PublishedModel>> DescribeEncoder(
    const WeightsFile& file, std::string_view architecture) {
  for (const EncoderNames& names : EncoderFamilies()) {
    if (!architecture.starts_with(names.architecture)) continue;
    const std::string_view kind =
        architecture.substr(names.architecture.size());
    const bool has_head = kind == "ForSequenceClassification";
    for (const std::string_view other :
         {"Model", "ForMaskedLM", "ForPreTraining"}) {
      if (kind == other || has_head) {
        return EncoderDescription(file, names).Describe(has_head);
      }
    }
  }
  return std::nullopt;
}

}  // namespace stowage
