#include "nn/gguf_form.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "formats/weights_file.h"
#include "nn/pretrained.h"
#include "tests/support/files.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kGoldens = "tests/goldens/pretrained/";

struct MixRow {
  std::string architecture, mix;
  LlamaConfig config = {};
  std::map<std::string, std::string> types = {};  // "*" of all others
};

// tests/goldens/make_gguf_mix_goldens.py
std::vector<MixRow> MixGoldens() {
  std::ifstream in("tests/goldens/gguf_mixes.csv");
  std::string line;
  REQUIRE(std::getline(in, line));
  std::vector<MixRow> rows;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::vector<std::string> parts(9);
    for (std::string& part : parts) std::getline(fields, part, ',');
    MixRow row{.architecture = parts[0], .mix = parts[7]};
    row.config.layers = std::stoll(parts[1]);
    row.config.width = std::stoll(parts[2]);
    row.config.hidden = std::stoll(parts[3]);
    row.config.heads = std::stoll(parts[4]);
    row.config.kv_heads = std::stoll(parts[5]);
    row.config.tied_head = parts[6] == "1";
    std::istringstream types(parts[8]);
    for (std::string type; types >> type;) {
      const size_t equals = type.find('=');
      row.types[type.substr(0, equals)] = type.substr(equals + 1);
    }
    rows.push_back(std::move(row));
  }
  REQUIRE(rows.size() == 9 * 12);
  return rows;
}

TEST_CASE("the types of a mix are those of llama.cpp's quantizer") {
  int64_t compared = 0;
  for (const MixRow& row : MixGoldens()) {
    INFO(row.architecture << " of " << row.config.layers << " layers, "
                          << row.config.width << ", in " << row.mix);
    PublishedModel model{row.architecture, row.config};
    if (row.architecture == "gpt2") {
      model.config = GptConfig{.name = "gpt2",
                               .layers = row.config.layers,
                               .width = row.config.width,
                               .tied_head = row.config.tied_head};
    }
    const auto mix = ParseGgufMix(row.mix);
    REQUIRE(mix.ok());
    const GgufMixFacts facts = MixFactsOf(model);
    const auto check = [&](const std::string& name, int64_t columns) {
      const auto found = row.types.find(name);
      const std::string& golden =
          (found == row.types.end() ? row.types.find("*") : found)->second;
      const Shape shape{8, columns};
      INFO(name);
      if (!IsInMix(name, shape)) {
        CHECK(golden == "F32");
        return;
      }
      ++compared;
      CHECK(FormatOf(TypeInMix(*mix, facts, name, shape)).name == golden);
    };
    const int64_t width = row.config.width;
    check("token_embd.weight", width);
    if (!row.config.tied_head) check("output.weight", width);
    if (row.architecture == "gpt2") check("position_embd.weight", width);
    for (int64_t layer = 0; layer < row.config.layers; ++layer) {
      const auto of_layer = [&](const char* part, int64_t columns) {
        check(StrCat("blk.", layer, ".", part, ".weight"), columns);
      };
      if (row.architecture == "gpt2") {
        of_layer("attn_qkv", width);
      } else {
        of_layer("attn_q", width);
        of_layer("attn_k", width);
        of_layer("attn_v", width);
        of_layer("ffn_gate", width);
      }
      of_layer("attn_output", width);
      of_layer("ffn_up", width);
      of_layer("ffn_down", row.config.hidden);
    }
  }
  CHECK(compared > 20'000);
}

TEST_CASE("norms, biases and learned positions are in no mix") {
  CHECK(IsInMix("blk.0.attn_q.weight", Shape{2, 2}));
  CHECK_FALSE(IsInMix("blk.0.attn_q_norm.weight", Shape{2, 2}));
  CHECK_FALSE(IsInMix("blk.0.attn_norm.weight", Shape{2}));
  CHECK_FALSE(IsInMix("blk.0.attn_q.bias", Shape{2, 2}));
  CHECK_FALSE(IsInMix("position_embd.weight", Shape{2, 2}));
  const auto none = ParseGgufMix("Q4_K_M");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message ==
        "[gguf] there is no type \"Q4_K_M\"; expected one of f32, f16, bf16, "
        "q8_0, q4_0, q4_1, q5_0, q5_1, q4_k_s, q4_k_m, q5_k_s, q5_k_m, q6_k");
}

// As gguf.TensorNameMap has them.
TEST_CASE("params are called in GGUF files as its readers call them") {
  const std::pair<const char*, const char*> names[] = {
      {"model.embed_tokens.weight", "token_embd.weight"},
      {"model.norm.weight", "output_norm.weight"},
      {"lm_head.weight", "output.weight"},
      {"model.layers.11.self_attn.q_proj.bias", "blk.11.attn_q.bias"},
      {"model.layers.0.self_attn.k_norm.weight", "blk.0.attn_k_norm.weight"},
      {"model.layers.0.post_attention_layernorm.weight",
       "blk.0.ffn_norm.weight"},
      {"model.layers.3.mlp.down_proj.weight", "blk.3.ffn_down.weight"},
      {"wte", "token_embd.weight"},
      {"wpe", "position_embd.weight"},
      {"ln_f.bias", "output_norm.bias"},
      {"h.10.attn.c_attn.weight", "blk.10.attn_qkv.weight"},
      {"h.0.attn.c_proj.bias", "blk.0.attn_output.bias"},
      {"h.0.mlp.c_fc.weight", "blk.0.ffn_up.weight"},
      {"h.0.mlp.c_proj.weight", "blk.0.ffn_down.weight"},
      {"h.0.ln_2.weight", "blk.0.ffn_norm.weight"}};
  const PublishedModel gpt{"gpt2", GptConfig{}};
  const PublishedModel llama{"llama", LlamaConfig{}};
  for (const auto& [ours, gguf] : names) {
    const bool is_llama = std::string_view(ours).starts_with("model.") ||
                          std::string_view(ours).starts_with("lm_head");
    CHECK(GgufName(is_llama ? llama : gpt, ours) == gguf);
  }
  CHECK(IsTransposedInGguf(gpt, "h.0.attn.c_proj.weight"));
  CHECK_FALSE(IsTransposedInGguf(gpt, "h.0.attn.c_proj.bias"));
  CHECK_FALSE(IsTransposedInGguf(gpt, "wte"));
  CHECK_FALSE(IsTransposedInGguf(llama, "model.layers.0.mlp.up_proj.weight"));
}

PretrainedModel Open(const std::string& path) {
  auto model = PretrainedModel::Open(path);
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  return *std::move(model);
}

// The keys that are written for a model, read again.
WeightsFile Written(const PretrainedModel& model) {
  GgufMetadata metadata;
  const Status added = AddGgufKeys(model, &metadata);
  REQUIRE_MESSAGE(added.ok(), added.error().message);
  const std::string path = testing::EmptyFolder("keys") + "/keys.gguf";
  const auto file = OutputFile::Claim(path);
  REQUIRE(file.ok());
  REQUIRE(WriteGguf(*file, metadata, {}, {}).ok());
  auto written = WeightsFile::Open(path);
  REQUIRE(written.ok());
  return *std::move(written);
}

TEST_CASE("a folder's model gets the keys of its architecture") {
  const WeightsFile llama = Written(Open(kGoldens + "llama"));
  const GgufHeader& header = *llama.gguf();
  CHECK(*header.Text("general.architecture") == "llama");
  CHECK(*header.Text("general.type") == "model");
  CHECK(*header.Text("general.name") == "llama");
  CHECK(*header.Int("llama.block_count") == 2);
  CHECK(*header.Int("llama.context_length") == 32);
  CHECK(*header.Int("llama.embedding_length") == 32);
  CHECK(*header.Int("llama.feed_forward_length") == 32);
  CHECK(*header.Int("llama.attention.head_count") == 4);
  CHECK(*header.Int("llama.attention.head_count_kv") == 2);
  CHECK(*header.Int("llama.attention.key_length") == 8);
  CHECK(*header.Int("llama.vocab_size") == 64);
  CHECK(*header.Int("llama.rope.dimension_count") == 8);
  CHECK(*header.Real("llama.rope.freq_base") == 500000);
  CHECK(*header.Real("llama.attention.layer_norm_rms_epsilon") ==
        static_cast<double>(1e-5f));
  CHECK(header.Find("llama.rope.scaling.type") == nullptr);
  const auto factors = RopeFactorsInGguf(Open(kGoldens + "llama"));
  REQUIRE(factors.size() == 1);
  CHECK(factors[0].tensor == "rope_freqs.weight");
  CHECK(factors[0].numbers.size() == 4);
  CHECK(RopeFactorsInGguf(Open(kGoldens + "yarn")).empty());

  // Of Mistral, the context is the window, which has no key.
  const WeightsFile mistral = Written(Open(kGoldens + "mistral"));
  CHECK(*mistral.gguf()->Text("general.architecture") == "llama");
  CHECK(*mistral.gguf()->Int("llama.context_length") == 4);
  CHECK(*mistral.gguf()->Int("llama.attention.key_length") == 16);
  CHECK(*mistral.gguf()->Text("llama.rope.scaling.type") == "linear");
  CHECK(*mistral.gguf()->Real("llama.rope.scaling.factor") == 2);

  const WeightsFile yarn = Written(Open(kGoldens + "yarn"));
  CHECK(*yarn.gguf()->Text("qwen3.rope.scaling.type") == "yarn");
  CHECK(*yarn.gguf()->Real("qwen3.rope.scaling.factor") == 4);
  CHECK(*yarn.gguf()->Int("qwen3.rope.scaling.original_context_length") == 16);
  CHECK(*yarn.gguf()->Real("qwen3.rope.scaling.yarn_beta_fast") == 4);
  CHECK(*yarn.gguf()->Real("qwen3.rope.scaling.yarn_beta_slow") == 0.25);
  CHECK(yarn.gguf()->Find("qwen3.vocab_size") == nullptr);

  const WeightsFile gpt2 = Written(Open(kGoldens + "gpt2"));
  CHECK(*gpt2.gguf()->Text("general.architecture") == "gpt2");
  CHECK(*gpt2.gguf()->Int("gpt2.context_length") == 32);
  CHECK(*gpt2.gguf()->Int("gpt2.feed_forward_length") == 128);
  CHECK(*gpt2.gguf()->Int("gpt2.attention.head_count") == 4);
  CHECK(*gpt2.gguf()->Real("gpt2.attention.layer_norm_epsilon") ==
        static_cast<double>(1e-5f));
}

// The error for a golden model whose config.json is changed.
std::string Refusal(const std::string& name, const Json& changes) {
  const std::string folder = testing::EmptyFolder("changed");
  fs::copy(kGoldens + name, folder, fs::copy_options::recursive);
  std::ifstream in(folder + "/config.json");
  Json config = Json::parse(in);
  config.merge_patch(changes);
  // Before the copy, which may have no permission to be written to.
  fs::remove(folder + "/config.json");
  std::ofstream(folder + "/config.json") << config.dump();
  GgufMetadata metadata;
  const Status added = AddGgufKeys(Open(folder), &metadata);
  REQUIRE_FALSE(added.ok());
  CHECK(added.error().code == ErrorCode::kUnsupported);
  return added.error().message.substr(added.error().message.find(" has "));
}

TEST_CASE("what no key says is refused by its name") {
  CHECK(Refusal("qwen2", {{"rope_parameters",
                           {{"rope_type", "llama3"},
                            {"rope_theta", 500000.0},
                            {"factor", 4.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 16}}}}) ==
        " has a scaling of rope of type \"llama3\", which GGUF files of the "
        "architecture \"qwen2\" cannot say; write safetensors");
  CHECK(Refusal("yarn", {{"rope_parameters", {{"attention_factor", 1.5}}}}) ==
        " has an attention factor of 1.5 beside YaRN's own, "
        "1.138629436111989, which GGUF files of the architecture \"qwen3\" "
        "cannot say; write safetensors");
  CHECK(Refusal("yarn", {{"rope_parameters", {{"truncate", false}}}}) ==
        " has a \"truncate\" of false in YaRN, which GGUF files of the "
        "architecture \"qwen3\" cannot say; write safetensors");
}

}  // namespace
}  // namespace stowage
