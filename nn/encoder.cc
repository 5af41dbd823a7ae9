#include "nn/encoder.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "nn/model_description.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

constexpr EncoderNames kEncoders[] = {
    {.family = "bert",
     .architecture = "Bert",
     .prefix = "bert.",
     .head_dense = "bert.pooler.dense",
     .head_out = "classifier",
     .drops_head_in = false},
    {.family = "roberta", .architecture = "Roberta", .prefix = "roberta."},
    {.family = "xlm-roberta",
     .architecture = "XLMRoberta",
     .prefix = "roberta."},
    {.family = "distilbert",
     .architecture = "DistilBert",
     .prefix = "distilbert.",
     .layers = "transformer.layer.",
     .query = "attention.q_lin",
     .key = "attention.k_lin",
     .value = "attention.v_lin",
     .out = "attention.out_lin",
     .attention_norm = "sa_layer_norm",
     .up = "ffn.lin1",
     .down = "ffn.lin2",
     .mlp_norm = "output_layer_norm",
     .head_dense = "pre_classifier",
     .head_out = "classifier",
     .head_activation = EncoderActivation::kRelu,
     .drops_attention_out = false,
     .drops_head_in = false},
    {.family = "electra",
     .architecture = "Electra",
     .prefix = "electra.",
     .head_activation = EncoderActivation::kGeluErf},
};

Value Activate(Value x, EncoderActivation activation) {
  switch (activation) {
    case EncoderActivation::kGeluErf:
      return GeluErf(x);
    case EncoderActivation::kGeluTanh:
      return GeluTanh(x);
    case EncoderActivation::kRelu:
      return Relu(x);
    case EncoderActivation::kSilu:
      return Silu(x);
    case EncoderActivation::kTanh:
      return Tanh(x);
  }
  return x;
}

int64_t EmbeddingWidth(const EncoderConfig& config) {
  return config.embedding_width == 0 ? config.width : config.embedding_width;
}

// The lowest finite number of the type.
double Lowest(DType dtype) {
  if (dtype == DType::kF16) return -65504;
  return std::numeric_limits<float>::lowest() / 2;  // bf16 rounds to it, too
}

// The dropouts of the graph; with inputs "seed" and "step" if it has any.
Dropouts DropoutsOf(GraphBuilder& g, const EncoderDropout& rates, bool has_head,
                    ModelPurpose purpose) {
  const bool has_any = rates.hidden > 0 || rates.attention > 0 ||
                       (has_head && rates.classifier > 0);
  if (purpose != ModelPurpose::kTrain || !has_any) return {};
  const Value seed = g.Input("seed", DType::kI64, {});
  return Dropouts(seed, g.Input("step", DType::kI64, {}), rates.hidden);
}

class EncoderNet {
 public:
  // For `texts` sequences, each of a length of `lengths` (texts).
  EncoderNet(GraphBuilder& g, const EncoderConfig& config, ModelPurpose purpose,
             const ModelOptions& options, int64_t texts, Value lengths,
             Dropouts* dropouts)
      : g_(g),
        config_(config),
        purpose_(purpose),
        options_(options),
        texts_(texts),
        lengths_(lengths),
        dropouts_(*dropouts) {}

  // tokens (texts, T) -> (texts, T, width), the result of the blocks.
  Value Encode(Value tokens) const {
    Value x = Embed(tokens);
    for (int64_t i = 0; i < config_.layers; ++i) x = Block(x, i);
    return x;
  }

  // x (texts, T, width) -> (texts, labels), by the first token.
  Value Head(Value x) const {
    const EncoderNames& names = config_.names;
    const double rate = config_.dropout.classifier;
    Value first = Reshape(Slice(x, 1, 0, 1), {texts_, config_.width});
    if (names.drops_head_in) first = dropouts_.ApplyAt(RateOf(rate), first);
    const Value dense = Activate(Dense(first, names.head_dense, config_.width),
                                 names.head_activation);
    return Dense(dropouts_.ApplyAt(RateOf(rate), dense), names.head_out,
                 std::ssize(config_.labels));
  }

 private:
  // The sums of all embeddings of a token: (texts, T, width).
  Value Embed(Value tokens) const {
    const int64_t width = EmbeddingWidth(config_);
    const auto name = [&](std::string_view what) {
      return StrCat(config_.names.prefix, "embeddings.", what);
    };
    Value x = Embedding(tokens, name("word_embeddings.weight"),
                        config_.vocabulary, width, options_.dtype)
                  .rows;
    const int64_t first = config_.first_position;
    const Value positions =
        g_.Param(name("position_embeddings.weight"), options_.dtype,
                 {first + config_.max_seq, width}, Weights());
    x = Add(x, Slice(positions, 0, first, first + *options_.seq));
    if (config_.types > 0) {
      x = Add(x, TypeRows(name("token_type_embeddings.weight"), width));
    }
    x = LayerNorm(x, name("LayerNorm"), config_.eps);
    x = DropHidden(x);
    if (width == config_.width) return x;
    return Dense(x, StrCat(config_.names.prefix, "embeddings_project"),
                 config_.width);
  }

  Value Block(Value x, int64_t number) const {
    const EncoderNames& names = config_.names;
    const auto name = [&](std::string_view what) {
      return StrCat(names.prefix, names.layers, number, ".", what);
    };
    const int64_t width = config_.width;
    const Shape by_head{texts_, *options_.seq, config_.heads,
                        width / config_.heads};
    const Value q = Reshape(Dense(x, name(names.query), width), by_head);
    const Value k = Reshape(Dense(x, name(names.key), width), by_head);
    const Value v = Reshape(Dense(x, name(names.value), width), by_head);
    const Value joined =
        Reshape(Attend(q, k, v), {texts_, *options_.seq, width});
    Value projected = Dense(joined, name(names.out), width);
    if (names.drops_attention_out) projected = DropHidden(projected);
    const Value h =
        LayerNorm(Add(x, projected), name(names.attention_norm), config_.eps);
    const Value wide =
        Activate(Dense(h, name(names.up), config_.hidden), config_.activation);
    const Value narrow = DropHidden(Dense(wide, name(names.down), width));
    return LayerNorm(Add(h, narrow), name(names.mlp_norm), config_.eps);
  }

  Init Weights() const { return Init::Normal(config_.init_deviation); }

  Value Dense(Value x, std::string_view name, int64_t out) const {
    return Linear(x, name, out, {.init = Weights(), .out_in = true});
  }

  // The rate of a dropout in this graph.
  double RateOf(double rate) const {
    return purpose_ == ModelPurpose::kTrain ? rate : 0;
  }
  Value DropHidden(Value x) const {
    return dropouts_.ApplyAt(RateOf(config_.dropout.hidden), x);
  }

  // q, k, v (texts, T, heads, D) -> (texts, T, heads, D). Dropout requires the probabilities as a
  // value of the graph; the attention op stores none.
  Value Attend(Value q, Value k, Value v) const {
    const double rate = RateOf(config_.dropout.attention);
    if (rate == 0) return Attention(q, k, v, {.key_lengths = lengths_});
    const int64_t seq = *options_.seq;
    const auto by_head = [](Value x) { return Permute(x, {0, 2, 1, 3}); };
    const auto size = static_cast<double>(config_.width / config_.heads);
    const Value scores = MatMul(MulScalar(by_head(q), 1 / std::sqrt(size)),
                                by_head(k), false, true);
    const Value is_read = Less(Iota(g_, DType::kI32, 0, 1, seq),
                               Reshape(lengths_, {texts_, 1, 1, 1}));
    const Value none = Fill(g_, Lowest(options_.dtype), options_.dtype, {});
    const Value probabilities = Softmax(Where(is_read, scores, none));
    return by_head(MatMul(dropouts_.ApplyAt(rate, probabilities), by_head(v)));
  }

  // The rows of the tokens' types, which are inputs unless all are 0.
  Value TypeRows(const std::string& table, int64_t width) const {
    if (config_.types > 1 && !options_.embedding) {
      const Value types =
          g_.Input("token_types", DType::kI32, {texts_, *options_.seq});
      return Embedding(types, table, config_.types, width, options_.dtype).rows;
    }
    const Value rows =
        g_.Param(table, options_.dtype, {config_.types, width}, Weights());
    return Reshape(config_.types == 1 ? rows : Slice(rows, 0, 0, 1), {width});
  }

  GraphBuilder& g_;
  const EncoderConfig& config_;
  const ModelPurpose purpose_;
  const ModelOptions& options_;
  const int64_t texts_;
  const Value lengths_;
  Dropouts& dropouts_;
};

Status CheckEncoder(const EncoderConfig& config, ModelPurpose purpose,
                    const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckModelSizes(config.name, {{"layers", config.layers},
                                    {"heads", config.heads},
                                    {"width", config.width},
                                    {"hidden", config.hidden},
                                    {"vocabulary", config.vocabulary},
                                    {"max_seq", config.max_seq}}));
  if (options.embedding && !config.labels.empty()) {
    return InvalidArgumentError("[model] ", config.name, " has ",
                                config.labels.size(),
                                " labels, and an embedding is given, which has "
                                "none; leave one of them out");
  }
  if (!options.embedding && config.labels.size() < 2) {
    return InvalidArgumentError("[model] ", config.name, " has ",
                                config.labels.size(),
                                " labels; expected at least 2");
  }
  for (const auto& [name, rate] :
       {std::pair("hidden", config.dropout.hidden),
        std::pair("attention", config.dropout.attention),
        std::pair("classifier", config.dropout.classifier)}) {
    if (rate >= 0 && rate < 1) continue;
    return InvalidArgumentError("[model] the ", name, " dropout of ",
                                config.name, " is ", rate,
                                "; expected 0 or above, and below 1");
  }
  if (config.width % config.heads != 0) {
    return InvalidArgumentError(
        "[model] ", config.name, " has ", config.heads,
        " heads over a width of ", config.width,
        "; the width must be a positive multiple of the heads");
  }
  STOWAGE_RETURN_IF_ERROR(CheckNoLogitChunk(config.name, options));
  STOWAGE_RETURN_IF_ERROR(
      CheckTextModelOptions(config.name, config.max_seq, purpose, options));
  const auto refuse = [&](std::string_view option) {
    return InvalidArgumentError("[model] ", option, " is given, but ",
                                config.name,
                                " classifies texts and predicts no tokens; "
                                "leave it out");
  };
  if (options.packed) return refuse("packed");
  if (options.preference) return refuse("preference");
  if (options.cache) return refuse("cache");
  if (options.dropout != 0) {
    return InvalidArgumentError("[model] a dropout of ", options.dropout,
                                " is given, but ", config.name,
                                " has those of its config; leave it out");
  }
  return {};
}

}  // namespace

std::span<const EncoderNames> EncoderFamilies() { return kEncoders; }

const EncoderNames& BertNames() { return kEncoders[0]; }

Result<Graph> BuildEncoder(const EncoderConfig& config, ModelPurpose purpose,
                           const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(CheckEncoder(config, purpose, options));
  GraphBuilder g(config.name);
  const int64_t batch = *options.batch;
  Dropouts dropouts =
      DropoutsOf(g, config.dropout, !options.embedding.has_value(), purpose);
  if (options.embedding) {
    const EmbeddedTexts texts = DeclareEmbeddedTexts(g, options);
    if (!texts.tokens.ok()) return g.Finish();
    const EncoderNet net(g, config, purpose, options,
                         batch * (1 + options.embedding->documents),
                         texts.lengths, &dropouts);
    return FinishEmbedding(g, net.Encode(texts.tokens), texts, purpose,
                           options);
  }
  const Value lengths = g.Input("lengths", DType::kI32, {batch});
  const EncoderNet net(g, config, purpose, options, batch, lengths, &dropouts);
  const Value tokens = g.Input("tokens", DType::kI32, {batch, *options.seq});
  const Value logits = net.Head(net.Encode(tokens));
  if (purpose == ModelPurpose::kGenerate) {
    g.Output("logits", g.Name("logits", logits));
    return g.Finish();
  }
  const Value labels = g.Input("labels", DType::kI32, {batch});
  if (purpose == ModelPurpose::kEvaluate) {
    g.Output("logits", g.Name("logits", logits));
  }
  return FinishClassifier(g, logits, labels, purpose);
}

bool IsHeadParam(const EncoderConfig& config, std::string_view param) {
  return param.starts_with(StrCat(config.names.head_dense, ".")) ||
         param.starts_with(StrCat(config.names.head_out, "."));
}

namespace {

constexpr int64_t kMaxLabels = 1 << 20;

// Reads the config.json of an encoder.
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

  // transformers defaults to two, and treats one as a regression.
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
