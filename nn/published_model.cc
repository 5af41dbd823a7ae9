#include "nn/published_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "formats/gguf.h"
#include "formats/json_values.h"
#include "ir/shape.h"
#include "nn/llama.h"

namespace stowage {
namespace {

// Sizes above this are no model's; their products stay within 63 bits.
constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

// The value of a description, or `otherwise` where there is none.
template <typename T>
Result<T> ValueOr(Result<T> value, T otherwise) {
  if (!value.ok() && value.error().code == ErrorCode::kNotFound) {
    return otherwise;
  }
  return value;
}

class Description {
 public:
  explicit Description(const WeightsFile& file) : file_(file) {}

 protected:
  Error Unsupported(std::string_view what) const {
    return file_.Fail(StrCat("has ", what), ErrorCode::kUnsupported);
  }
  // Says which file an error of a value is of.
  Error In(const Error& error) const {
    return file_.Fail(StrCat("cannot be taken: ", error.message));
  }
  Result<int64_t> CheckSize(std::string_view name, Result<int64_t> size) const {
    if (!size.ok()) return In(size.error());
    if (*size >= 1 && *size <= kMaxSize) return *size;
    return file_.Fail(StrCat("has a ", Quoted(name), " of ", *size,
                             "; expected 1 to ", kMaxSize));
  }
  // Each layer has tensors; so no more are built than the file can fill.
  Status CheckLayers(int64_t layers) const {
    const int64_t tensors = std::ssize(file_.tensors());
    if (layers <= tensors) return {};
    return file_.Fail(StrCat("would have ", layers, " layers, and has ",
                             tensors, " tensors"));
  }
  Status CheckRopeBase(double base) const {
    if (std::isfinite(base) && base > 0) return {};
    return file_.Fail(StrCat("has a base of rope of ", base,
                             "; expected a finite number above 0"));
  }
  // So are there heads: factors of rope are computed for each of their pairs.
  Status CheckHeads(const LlamaConfig& config) const {
    int64_t most = 0;
    const WeightTensor* foreign = nullptr;
    for (const WeightTensor& tensor : file_.tensors()) {
      if (!tensor.foreign.empty()) {
        foreign = &tensor;
        continue;
      }
      most = std::max(most, tensor.shape.num_elements());
    }
    if (most == 0 && foreign != nullptr) {
      return file_.Fail(StrCat("has no tensor of a type that is read; ",
                               Quoted(foreign->name), " is ",
                               foreign->Describe()));
    }
    if (config.head_size <= most / config.heads) return {};
    return file_.Fail(
        StrCat("would have ", config.heads, " heads of ", config.head_size,
               " elements, more than its largest tensor, of ", most));
  }

  const WeightsFile& file_;
};

// --- GGUF -------------------------------------------------------------------

class GgufDescription : public Description {
 public:
  explicit GgufDescription(const WeightsFile& file)
      : Description(file), header_(*file.gguf()) {}

  Result<PublishedModel> Describe() {
    if (const auto parts = header_.Int("split.count");
        parts.ok() && *parts > 1) {
      const auto part = header_.Int("split.no");
      return file_.Fail(
          StrCat("is part ", part.ok() ? *part + 1 : 1, " of a model in ",
                 *parts,
                 " files, which are not read; join them by llama-gguf-split "
                 "--merge"),
          ErrorCode::kUnsupported);
    }
    const auto family = header_.Text("general.architecture");
    if (!family.ok()) return In(family.error());
    family_ = *family;
    constexpr std::array<std::string_view, 3> kFamilies = {"llama", "qwen2",
                                                           "qwen3"};
    if (std::ranges::find(kFamilies, family_) == kFamilies.end()) {
      return Unsupported(StrCat("the architecture ", Quoted(family_),
                                "; those that are read are llama, qwen2 and "
                                "qwen3"));
    }
    STOWAGE_RETURN_IF_ERROR(CheckKeys());
    STOWAGE_ASSIGN_OR_RETURN(LlamaConfig config, Sizes());
    STOWAGE_RETURN_IF_ERROR(FindRopeFactors(&config));
    const auto has = [&](std::string_view name) {
      return file_.Find(name) != nullptr;
    };
    config.name = family_;
    config.tied_head = !has("output.weight");
    config.qkv_bias = has("blk.0.attn_q.bias");
    config.out_bias = has("blk.0.attn_output.bias");
    config.mlp_bias = has("blk.0.ffn_gate.bias");
    config.qk_norm = family_ == "qwen3";
    config.out_in = true;
    return PublishedModel{family_, config};
  }

 private:
  std::string Key(std::string_view name) const {
    return StrCat(family_, ".", name);
  }
  Result<int64_t> Size(std::string_view name) const {
    return CheckSize(Key(name), header_.Int(Key(name)));
  }
  Result<int64_t> SizeOr(std::string_view name, int64_t otherwise) const {
    return CheckSize(Key(name), ValueOr(header_.Int(Key(name)), otherwise));
  }

  // Whatever a file says of its family is read below, or is nothing.
  Status CheckKeys() const {
    constexpr std::array<std::string_view, 18> kRead = {
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "vocab_size",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.finetuned"};
    const std::string prefix = family_ + ".";
    for (const auto& [key, value] : header_.values()) {
      if (!key.starts_with(prefix)) continue;
      const std::string_view name = std::string_view(key).substr(prefix.size());
      if (std::ranges::find(kRead, name) != kRead.end()) continue;
      const Result<int64_t> number = header_.Int(key);
      if (number.ok() && *number == 0) continue;  // no experts, for one
      return Unsupported(
          StrCat("a ", Quoted(key),
                 (number.ok() ? StrCat(" of ", *number) : std::string()),
                 ", which no model here knows"));
    }
    return {};
  }

  Result<LlamaConfig> Sizes() const {
    LlamaConfig config;
    STOWAGE_ASSIGN_OR_RETURN(config.layers, Size("block_count"));
    STOWAGE_RETURN_IF_ERROR(CheckLayers(config.layers));
    STOWAGE_ASSIGN_OR_RETURN(config.max_seq, Size("context_length"));
    STOWAGE_ASSIGN_OR_RETURN(config.width, Size("embedding_length"));
    STOWAGE_ASSIGN_OR_RETURN(config.hidden, Size("feed_forward_length"));
    STOWAGE_ASSIGN_OR_RETURN(config.heads, Size("attention.head_count"));
    STOWAGE_ASSIGN_OR_RETURN(config.kv_heads,
                             SizeOr("attention.head_count_kv", config.heads));
    STOWAGE_ASSIGN_OR_RETURN(
        config.head_size,
        SizeOr("attention.key_length",
               std::max<int64_t>(1, config.width / config.heads)));
    STOWAGE_RETURN_IF_ERROR(CheckHeads(config));
    for (const char* const name :
         {"attention.value_length", "rope.dimension_count"}) {
      STOWAGE_ASSIGN_OR_RETURN(const int64_t size,
                               SizeOr(name, config.head_size));
      if (size != config.head_size) {
        return Unsupported(StrCat("a ", Quoted(Key(name)), " of ", size,
                                  " and heads of ", config.head_size,
                                  "; they must be equal here"));
      }
    }
    const auto eps = header_.Real(Key("attention.layer_norm_rms_epsilon"));
    if (!eps.ok()) return In(eps.error());
    config.eps = *eps;
    const auto base = ValueOr(header_.Real(Key("rope.freq_base")), 10000.0);
    if (!base.ok()) return In(base.error());
    config.rope_base = *base;
    STOWAGE_RETURN_IF_ERROR(CheckRopeBase(config.rope_base));
    const WeightTensor* const embedding = file_.Find("token_embd.weight");
    if (embedding == nullptr || embedding->shape.rank() != 2) {
      return file_.Fail("has no matrix \"token_embd.weight\"");
    }
    config.vocabulary = embedding->shape[0];
    return config;
  }

  Status FindRopeFactors(LlamaConfig* config) const {
    const auto pairs = static_cast<size_t>(config->head_size / 2);
    const std::string key = Key("rope.scaling.type");
    // A factor without a type is a linear one, as llama.cpp has it.
    const bool has_factor = header_.Find(Key("rope.scaling.factor")) != nullptr;
    const auto type = ValueOr<std::string_view>(
        header_.Text(key), std::string_view(has_factor ? "linear" : "none"));
    if (!type.ok()) return In(type.error());
    if (*type == "linear") {
      const auto factor = header_.Real(Key("rope.scaling.factor"));
      if (!factor.ok()) return In(factor.error());
      config->rope_factors.assign(pairs, *factor);
    } else if (*type == "yarn") {
      STOWAGE_RETURN_IF_ERROR(FindYarn(config));
    } else if (*type != "none") {
      return Unsupported(StrCat("a ", Quoted(key), " of ", Quoted(*type),
                                "; linear, yarn and none are known here"));
    }
    // What Llama 3 has in their place, computed already.
    const WeightTensor* const factors = file_.Find("rope_freqs.weight");
    if (factors == nullptr) return {};
    if (factors->type != WeightType::kF32 ||
        factors->shape != Shape{config->head_size / 2} ||
        !config->rope_factors.empty()) {
      return file_.Fail(StrCat("has \"rope_freqs.weight\" as ",
                               factors->Describe(), "; expected F32(",
                               config->head_size / 2,
                               "), and no other scaling of rope"));
    }
    std::vector<float> numbers(pairs);
    STOWAGE_RETURN_IF_ERROR(file_.ReadFloats(*factors, 0, numbers));
    config->rope_factors.assign(numbers.begin(), numbers.end());
    return {};
  }

  Status FindYarn(LlamaConfig* config) const {
    YarnRopeScaling scaling;
    const auto real = [&](std::string_view name, double otherwise) {
      return ValueOr(header_.Real(Key(name)), otherwise);
    };
    const auto factor = header_.Real(Key("rope.scaling.factor"));
    if (!factor.ok()) return In(factor.error());
    scaling.factor = *factor;
    STOWAGE_ASSIGN_OR_RETURN(
        const int64_t positions,
        SizeOr("rope.scaling.original_context_length", config->max_seq));
    scaling.original_positions = static_cast<double>(positions);
    const auto fast = real("rope.scaling.yarn_beta_fast", scaling.fast_turns);
    if (!fast.ok()) return In(fast.error());
    scaling.fast_turns = *fast;
    const auto slow = real("rope.scaling.yarn_beta_slow", scaling.slow_turns);
    if (!slow.ok()) return In(slow.error());
    scaling.slow_turns = *slow;
    const Status possible = CheckYarn(scaling);
    if (!possible.ok()) return In(possible.error());
    config->rope_factors =
        YarnRopeFactors(config->head_size, config->rope_base, scaling);
    config->rope_gain = YarnGain(scaling.factor);
    return {};
  }

  const GgufHeader& header_;
  std::string family_;
};

// --- config.json ------------------------------------------------------------

class JsonDescription : public Description {
 public:
  explicit JsonDescription(const WeightsFile& file)
      : Description(file), config_(*file.config()) {}

  Result<PublishedModel> Describe() const {
    const auto architecture = config_.Text("architectures.0");
    if (!architecture.ok()) return In(architecture.error());
    if (config_.HasBelow("quantization_config")) {
      return Unsupported(
          "a \"quantization_config\"; quantised weights are read from GGUF "
          "files alone");
    }
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4>
        kLlamas = {{{"LlamaForCausalLM", "llama"},
                    {"MistralForCausalLM", "mistral"},
                    {"Qwen2ForCausalLM", "qwen2"},
                    {"Qwen3ForCausalLM", "qwen3"}}};
    for (const auto& [name, family] : kLlamas) {
      if (*architecture != name) continue;
      STOWAGE_ASSIGN_OR_RETURN(LlamaConfig config, Llama(family));
      config.name = family;
      STOWAGE_ASSIGN_OR_RETURN(std::string dropouts,
                               Dropouts({"attention_dropout"}, 0));
      return PublishedModel{std::string(family), config, std::move(dropouts)};
    }
    if (*architecture == "GPT2LMHeadModel") {
      STOWAGE_ASSIGN_OR_RETURN(const GptConfig config, Gpt());
      STOWAGE_ASSIGN_OR_RETURN(
          std::string dropouts,
          Dropouts({"attn_pdrop", "embd_pdrop", "resid_pdrop"}, 0.1));
      return PublishedModel{"gpt2", config, std::move(dropouts)};
    }
    return Unsupported(StrCat("the architecture ", Quoted(*architecture),
                              "; those that are read are LlamaForCausalLM, "
                              "MistralForCausalLM, Qwen2ForCausalLM, "
                              "Qwen3ForCausalLM and GPT2LMHeadModel"));
  }

 private:
  Result<int64_t> Size(std::string_view name) const {
    return CheckSize(name, config_.Int(name));
  }
  Result<int64_t> SizeOr(std::string_view name, int64_t otherwise) const {
    return CheckSize(name, ValueOr(config_.Int(name), otherwise));
  }
  Result<double> RealOr(std::string_view name, double otherwise) const {
    auto value = ValueOr(config_.Real(name), otherwise);
    if (!value.ok()) return In(value.error());
    return value;
  }
  Result<bool> BoolOr(std::string_view name, bool otherwise) const {
    auto value = ValueOr(config_.Bool(name), otherwise);
    if (!value.ok()) return In(value.error());
    return value;
  }
  // The error of a text that is none of those that are known.
  Status OneOf(std::string_view name, std::string_view otherwise,
               std::initializer_list<std::string_view> known) const {
    const auto value = ValueOr(config_.Text(name), std::string(otherwise));
    if (!value.ok()) return In(value.error());
    if (std::ranges::find(known, *value) != known.end()) return {};
    return Unsupported(StrCat("a ", Quoted(name), " of ", Quoted(*value),
                              "; here it is ", Quoted(*known.begin())));
  }
  Status MustBe(std::string_view name, bool expected) const {
    STOWAGE_ASSIGN_OR_RETURN(const bool value, BoolOr(name, expected));
    if (value == expected) return {};
    return Unsupported(StrCat("a ", Quoted(name), " of ", value,
                              ", which no model here knows"));
  }

  // Those of the names that are not 0; where the file lacks one it is `otherwise`.
  Result<std::string> Dropouts(std::initializer_list<std::string_view> names,
                               double otherwise) const {
    std::string all;
    for (const std::string_view name : names) {
      STOWAGE_ASSIGN_OR_RETURN(const double rate,
                               RealOr(std::string(name), otherwise));
      if (rate == 0) continue;
      all += StrCat(all.empty() ? "" : ", ", name, " ", rate);
    }
    return all;
  }

  Result<LlamaConfig> Llama(std::string_view family) const {
    LlamaConfig config;
    config.out_in = true;
    STOWAGE_RETURN_IF_ERROR(OneOf("hidden_act", "silu", {"silu", "swish"}));
    STOWAGE_ASSIGN_OR_RETURN(config.layers, Size("num_hidden_layers"));
    STOWAGE_RETURN_IF_ERROR(CheckLayers(config.layers));
    STOWAGE_ASSIGN_OR_RETURN(config.heads, Size("num_attention_heads"));
    STOWAGE_ASSIGN_OR_RETURN(config.kv_heads,
                             SizeOr("num_key_value_heads", config.heads));
    STOWAGE_ASSIGN_OR_RETURN(config.width, Size("hidden_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.hidden, Size("intermediate_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.vocabulary, Size("vocab_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.max_seq, Size("max_position_embeddings"));
    STOWAGE_ASSIGN_OR_RETURN(
        config.head_size,
        SizeOr("head_dim",
               family == "qwen3"
                   ? 128
                   : std::max<int64_t>(1, config.width / config.heads)));
    STOWAGE_RETURN_IF_ERROR(CheckHeads(config));
    STOWAGE_ASSIGN_OR_RETURN(config.eps, RealOr("rms_norm_eps", 1e-6));
    STOWAGE_ASSIGN_OR_RETURN(config.tied_head,
                             BoolOr("tie_word_embeddings", false));
    if (family == "llama" || family == "qwen3") {
      STOWAGE_ASSIGN_OR_RETURN(config.out_bias,
                               BoolOr("attention_bias", false));
      config.qkv_bias = config.out_bias;
    }
    if (family == "llama") {
      STOWAGE_ASSIGN_OR_RETURN(config.mlp_bias, BoolOr("mlp_bias", false));
    }
    if (family == "qwen2") config.qkv_bias = true;
    config.qk_norm = family == "qwen3";
    STOWAGE_RETURN_IF_ERROR(FindWindow(family, &config));
    STOWAGE_RETURN_IF_ERROR(FindRope(&config));
    return config;
  }

  // Of Mistral every layer has the window, of Qwen those that the config lists, or that
  // follow on max_window_layers.
  Status FindWindow(std::string_view family, LlamaConfig* config) const {
    if (family == "llama" || !config_.Has("sliding_window")) return {};
    STOWAGE_ASSIGN_OR_RETURN(const int64_t window, Size("sliding_window"));
    int64_t sliding = config->layers;
    if (config_.HasBelow("layer_types")) {
      sliding = 0;
      for (int64_t i = 0; i < config->layers; ++i) {
        const auto type = config_.Text(StrCat("layer_types.", i));
        if (!type.ok()) return In(type.error());
        if (*type == "sliding_attention") ++sliding;
      }
    } else if (family != "mistral") {
      STOWAGE_ASSIGN_OR_RETURN(const bool used,
                               BoolOr("use_sliding_window", false));
      const auto full = ValueOr<int64_t>(config_.Int("max_window_layers"), 28);
      if (!full.ok()) return In(full.error());
      sliding =
          used ? config->layers - std::clamp<int64_t>(*full, 0, config->layers)
               : 0;
    }
    if (sliding != 0 && sliding != config->layers) {
      return Unsupported(StrCat("a \"sliding_window\" of ", window, " in ",
                                sliding, " of ", config->layers,
                                " layers; here it is in all or in none"));
    }
    if (sliding > 0) config->window = window;
    return {};
  }

  // Under "rope_parameters" in what transformers 5 writes, which prefers "rope_scaling".
  Status FindRope(LlamaConfig* config) const {
    const std::string where =
        config_.HasBelow("rope_scaling") ? "rope_scaling." : "rope_parameters.";
    STOWAGE_ASSIGN_OR_RETURN(const double base, RealOr("rope_theta", 10000));
    STOWAGE_ASSIGN_OR_RETURN(config->rope_base,
                             RealOr(where + "rope_theta", base));
    STOWAGE_RETURN_IF_ERROR(CheckRopeBase(config->rope_base));
    for (const std::string& name : {std::string("partial_rotary_factor"),
                                    where + "partial_rotary_factor"}) {
      STOWAGE_ASSIGN_OR_RETURN(const double part, RealOr(name, 1));
      if (part != 1) {
        return Unsupported(StrCat("a ", Quoted(name), " of ", part,
                                  "; here whole heads turn"));
      }
    }
    std::string type = "default";
    for (const char* const name : {"type", "rope_type"}) {
      const auto value = ValueOr(config_.Text(where + name), type);
      if (!value.ok()) return In(value.error());
      type = *value;
    }
    if (type == "default") return {};
    const auto number = [&](std::string_view name) -> Result<double> {
      auto value = config_.Real(StrCat(where, name));
      if (!value.ok()) return In(value.error());
      return value;
    };
    STOWAGE_ASSIGN_OR_RETURN(const double factor, number("factor"));
    if (type == "linear") {
      config->rope_factors.assign(static_cast<size_t>(config->head_size / 2),
                                  factor);
      return {};
    }
    if (type == "yarn") return FindYarn(where, factor, config);
    if (type != "llama3") {
      return Unsupported(StrCat("a scaling of rope of type ", Quoted(type),
                                "; linear, llama3 and yarn are known here"));
    }
    Llama3RopeScaling scaling{.factor = factor};
    STOWAGE_ASSIGN_OR_RETURN(scaling.low_frequency_factor,
                             number("low_freq_factor"));
    STOWAGE_ASSIGN_OR_RETURN(scaling.high_frequency_factor,
                             number("high_freq_factor"));
    STOWAGE_ASSIGN_OR_RETURN(scaling.original_positions,
                             number("original_max_position_embeddings"));
    if (const Status possible = CheckLlama3Rope(scaling); !possible.ok()) {
      return In(possible.error());
    }
    config->rope_factors =
        Llama3RopeFactors(config->head_size, config->rope_base, scaling);
    return {};
  }

  Status FindYarn(const std::string& where, double factor,
                  LlamaConfig* config) const {
    YarnRopeScaling scaling{.factor = factor};
    STOWAGE_ASSIGN_OR_RETURN(scaling.original_positions,
                             RealOr(where + "original_max_position_embeddings",
                                    static_cast<double>(config->max_seq)));
    STOWAGE_ASSIGN_OR_RETURN(scaling.fast_turns,
                             RealOr(where + "beta_fast", scaling.fast_turns));
    STOWAGE_ASSIGN_OR_RETURN(scaling.slow_turns,
                             RealOr(where + "beta_slow", scaling.slow_turns));
    STOWAGE_ASSIGN_OR_RETURN(scaling.truncate,
                             BoolOr(where + "truncate", scaling.truncate));
    const Status possible = CheckYarn(scaling);
    if (!possible.ok()) return In(possible.error());
    config->rope_factors =
        YarnRopeFactors(config->head_size, config->rope_base, scaling);
    STOWAGE_ASSIGN_OR_RETURN(const double of_queries,
                             RealOr(where + "mscale", 0));
    STOWAGE_ASSIGN_OR_RETURN(const double of_scores,
                             RealOr(where + "mscale_all_dim", 0));
    const double usual =
        of_queries != 0 && of_scores != 0
            ? YarnGain(factor, of_queries) / YarnGain(factor, of_scores)
            : YarnGain(factor);
    STOWAGE_ASSIGN_OR_RETURN(config->rope_gain,
                             RealOr(where + "attention_factor", usual));
    return {};
  }

  Result<GptConfig> Gpt() const {
    GptConfig config{.name = "gpt2"};
    STOWAGE_RETURN_IF_ERROR(OneOf("activation_function", "gelu_new",
                                  {"gelu_new", "gelu_pytorch_tanh"}));
    STOWAGE_ASSIGN_OR_RETURN(config.tied_head,
                             BoolOr("tie_word_embeddings", true));
    STOWAGE_RETURN_IF_ERROR(MustBe("scale_attn_weights", true));
    STOWAGE_RETURN_IF_ERROR(MustBe("scale_attn_by_inverse_layer_idx", false));
    STOWAGE_RETURN_IF_ERROR(MustBe("add_cross_attention", false));
    STOWAGE_ASSIGN_OR_RETURN(config.layers, Size("n_layer"));
    STOWAGE_RETURN_IF_ERROR(CheckLayers(config.layers));
    STOWAGE_ASSIGN_OR_RETURN(config.heads, Size("n_head"));
    STOWAGE_ASSIGN_OR_RETURN(config.width, Size("n_embd"));
    STOWAGE_ASSIGN_OR_RETURN(config.vocabulary, Size("vocab_size"));
    STOWAGE_ASSIGN_OR_RETURN(config.max_seq, Size("n_positions"));
    STOWAGE_ASSIGN_OR_RETURN(const double eps,
                             RealOr("layer_norm_epsilon", 1e-5));
    if (eps != 1e-5) {
      return Unsupported(
          StrCat("a \"layer_norm_epsilon\" of ", eps, "; here it is 1e-05"));
    }
    STOWAGE_ASSIGN_OR_RETURN(const int64_t inner,
                             SizeOr("n_inner", 4 * config.width));
    if (inner != 4 * config.width) {
      return Unsupported(StrCat("an \"n_inner\" of ", inner,
                                "; here it is four times \"n_embd\", ",
                                4 * config.width));
    }
    return config;
  }

  const JsonValues& config_;
};

}  // namespace

Result<PublishedModel> DescribeModel(const WeightsFile& file) {
  if (file.gguf() != nullptr) return GgufDescription(file).Describe();
  if (file.config() != nullptr) return JsonDescription(file).Describe();
  return file.Fail(
      "has no config.json beside it, which says what model it is of; put it "
      "there");
}

}  // namespace stowage
