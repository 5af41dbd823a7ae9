// What config.json and GGUF's metadata of the families of decoders (nn/llama.h) say
// that models here, or GGUF files, cannot have.

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "nn/gguf_form.h"
#include "tests/support/files.h"
#include "tests/train/changed_folder.h"
#include "train/fine_tuning.h"
#include "train/gguf_export.h"

namespace stowage {
namespace {

const std::string kGoldens = "tests/goldens/families/";

// The error for a golden folder whose config.json has `from` replaced by `to`, without the
// path that it opens with; as GGUF, if asked to, that of the export.
std::string Refusal(const std::string& name, std::string_view from,
                    std::string_view to, bool as_gguf) {
  const std::string folder =
      testing::ChangedFolder(kGoldens + name, from, "", to);
  const auto tuning = FineTuning::Open(folder);
  std::string message;
  if (as_gguf) {
    REQUIRE_MESSAGE(tuning.ok(), tuning.error().message);
    const auto plan =
        GgufExport::Plan(*tuning, ParseGgufMix("f32").value(), {});
    REQUIRE_FALSE(plan.ok());
    message = plan.error().message;
  } else {
    REQUIRE_FALSE(tuning.ok());
    message = tuning.error().message;
  }
  return message.substr(message.find(folder) + folder.size() + 2);
}

TEST_CASE("numbers of GGUF's metadata that cannot be are refused by name") {
  struct Row {
    std::string name;
    std::string_view key;
    float number;
    std::string_view message;
  };
  const Row rows[] = {
      {"gemma2", "gemma2.attn_logit_softcapping", -2,
       "has a \"gemma2.attn_logit_softcapping\" of -2; expected a finite "
       "number above 0"},
      {"granite", "granite.embedding_scale", 0,
       "has a \"granite.embedding_scale\" of 0; expected a finite number "
       "above 0"},
      {"gemma3", "gemma3.rope.freq_base_swa", -1,
       "has a base of rope of -1; expected a finite number above 0"},
      {"phi3", "phi3.rope.scaling.attn_factor", 0,
       "describes what cannot be built: [model] phi3 has a gain of rope of 0; "
       "expected a finite number above 0"}};
  for (const Row& row : rows) {
    INFO(std::string(row.key));
    std::string bytes = testing::ReadAll(StrCat(kGoldens, row.name, ".gguf"));
    const size_t at = bytes.find(row.key);
    REQUIRE(at != std::string::npos);
    // The key is followed by its type, 6 of an f32, and the number.
    std::memcpy(&bytes[at + row.key.size() + 4], &row.number,
                sizeof(row.number));
    const std::string path = testing::NewFolder("changed") + ".gguf";
    std::ofstream(path, std::ios::binary) << bytes;
    const auto tuning = FineTuning::Open(path);
    REQUIRE_FALSE(tuning.ok());
    const std::string& message = tuning.error().message;
    CHECK(message.substr(message.find(path) + path.size() + 2) == row.message);
  }
}

TEST_CASE(
    "settings that ours or GGUF's files cannot have are refused by name") {
  struct Row {
    std::string name;
    std::string_view from, to, message;
    bool as_gguf = false;
  };
  const Row rows[] = {
      {"phi3", "\"partial_rotary_factor\": 0.5",
       "\"partial_rotary_factor\": 1.5",
       "has a \"partial_rotary_factor\" of 1.5; expected a part of 1"},
      {"phi3", "\"partial_rotary_factor\": 0.5",
       "\"partial_rotary_factor\": 0.75",
       "has 2 numbers of \"rope_parameters.short_factor\"; expected 3, one a "
       "pair"},
      {"phi3", "\"rope_type\": \"longrope\"", "\"rope_type\": \"ntk\"",
       "has a scaling of rope of type \"ntk\"; linear, llama3, longrope and "
       "yarn are known here"},
      {"phi3", "\"original_max_position_embeddings\": 8",
       "\"original_max_position_embeddings\": 1",
       "has a \"original_max_position_embeddings\" of 1; expected 2 or more"},
      {"phi3", "\"silu\"", "\"gelu\"",
       "has a \"hidden_act\" of \"gelu\", which GGUF files of the architecture "
       "\"phi3\" cannot say; write safetensors",
       true},
      {"gemma2", "\"use_bidirectional_attention\": null",
       "\"use_bidirectional_attention\": true",
       "has a \"use_bidirectional_attention\" of true, which no model here "
       "knows"},
      {"gemma2", "\"attn_logit_softcapping\": 1.5",
       "\"attn_logit_softcapping\": -1",
       "has a \"attn_logit_softcapping\" of -1; expected a finite number above "
       "0"},
      {"gemma2", "\"attn_logit_softcapping\": 1.5",
       "\"attn_logit_softcapping\": null",
       "has no \"attn_logit_softcapping\", which GGUF files of the "
       "architecture "
       "\"gemma2\" cannot say; write safetensors",
       true},
      {"gemma2", "\"query_pre_attn_scalar\": 8",
       "\"query_pre_attn_scalar\": 16",
       "has a \"query_pre_attn_scalar\" of 16, which GGUF files of the "
       "architecture \"gemma2\" cannot say; write safetensors",
       true},
      {"gemma2", "\"layer_types\": [\n  \"sliding_attention\"",
       "\"layer_types\": [\n  \"full_attention\"",
       "has no \"sliding_window\", which GGUF files of the architecture "
       "\"gemma2\" cannot say; write safetensors",
       true},
      {"gemma2", "\"full_attention\"\n ]", "\"sliding_attention\"\n ]",
       "has a layer 1 with the \"sliding_window\", which GGUF files of the "
       "architecture \"gemma2\" cannot say; write safetensors",
       true},
      {"gemma3", "\"rope_theta\": 100.0,\n   \"rope_type\": \"default\"",
       "\"rope_theta\": 100.0, \"rope_type\": \"linear\"",
       "has a \"rope_parameters.sliding_attention.rope_type\" of \"linear\"; "
       "here it is \"default\""},
      {"gemma3", "\"attn_logit_softcapping\": null",
       "\"attn_logit_softcapping\": 50",
       "has an \"attn_logit_softcapping\" of 50, which Gemma3ForCausalLM does "
       "not follow"},
      {"smollm3", "\"no_rope_layers\": [\n  1,", "\"no_rope_layers\": [\n  0,",
       "has a layer 0 without rope, which GGUF files of the architecture "
       "\"smollm3\" cannot say; write safetensors",
       true},
      {"granite", "\"logits_scaling\": 2.5", "\"logits_scaling\": 0",
       "has a \"logits_scaling\" of 0; expected a finite number above 0"},
      {"granite", "\"attention_bias\": false", "\"attention_bias\": true",
       "lacks 8 tensors of the model that it describes: "
       "\"model.layers.0.self_attn.q_proj.bias\", "
       "\"model.layers.0.self_attn.k_proj.bias\", "
       "\"model.layers.0.self_attn.v_proj.bias\", "
       "\"model.layers.0.self_attn.o_proj.bias\", "
       "\"model.layers.1.self_attn.q_proj.bias\" and 3 more"},
      {"olmo2", "\"rope_type\": \"default\"",
       "\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5",
       "has a \"partial_rotary_factor\" of 0.5; here whole heads turn"},
      {"gptneox", "\"gelu\"", "\"gelu_fast\"",
       "has a \"hidden_act\" of \"gelu_fast\", which GGUF files of the "
       "architecture \"gptneox\" cannot say; write safetensors",
       true},
      {"gptneox", "\"partial_rotary_factor\": 0.5",
       "\"partial_rotary_factor\": 0.4",
       "describes what cannot be built: [model] gptneox turns 3 elements of "
       "heads of 8; expected an even number of them, or 0 for all"},
      {"gemma2", "\"layer_types\": [\n  \"sliding_attention\"",
       "\"layer_types\": [\n  \"chunked_attention\"",
       "has a layer of type \"chunked_attention\"; here layers are of "
       "full_attention or sliding_attention"},
      {"mixtral", "\"output_router_logits\": false",
       "\"output_router_logits\": true",
       "has a \"output_router_logits\" of true, which no model here knows"},
      {"mixtral", "\"router_jitter_noise\": 0.0",
       "\"router_jitter_noise\": 0.1",
       "has a \"router_jitter_noise\" of 0.1, which no model here knows"},
      {"olmoe", "\"clip_qkv\": null", "\"clip_qkv\": 8",
       "has a \"clip_qkv\" of 8, which no model here knows"},
      {"qwen3moe", "\"use_sliding_window\": false",
       "\"use_sliding_window\": true",
       "has a \"use_sliding_window\" of true, which no model here knows"},
      {"qwen2moe", "\"qkv_bias\": true", "\"qkv_bias\": false",
       "has a \"qkv_bias\" of false, which no model here knows"},
      {"qwen2moe", "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 6",
       "describes what cannot be built: [model] qwen2moe "
       "gives a token 6 of 5 experts; expected 1 to 5"},
      {"qwen2moe", "\"num_experts\": 5", "\"num_experts\": 4",
       "has \"model.layers.0.mlp.gate.weight\" as F16(5, 32); the param "
       "\"model.layers.0.mlp.gate.weight\" is (4, 32) of floats"},
      {"olmoe", "\"norm_topk_prob\": false", "\"norm_topk_prob\": true",
       "has a \"norm_topk_prob\" of true, which GGUF files of the "
       "architecture \"olmoe\" cannot say; write safetensors",
       true},
      {"qwen2moe_some", "\"norm_topk_prob\": true", "\"norm_topk_prob\": false",
       "has a layer 0 without experts, which GGUF files of the architecture "
       "\"qwen2moe\" cannot say; write safetensors",
       true},
  };
  for (const Row& row : rows) {
    INFO(row.name << " " << std::string(row.to));
    CHECK(Refusal(row.name, row.from, row.to, row.as_gguf) == row.message);
  }
}

}  // namespace
}  // namespace stowage
