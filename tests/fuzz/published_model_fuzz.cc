// config.json beside the weights of a small Llama, and beside those of a small GPT-2; and
// GGUF files, weights and all. A model that opens is built, with sequences of a few tokens.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nn/pretrained.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/safetensors_bytes.h"

using namespace stowage;
using stowage::testing::Check;
using stowage::testing::Folder;
using stowage::testing::SafetensorsBytes;

namespace {

// One layer, two heads of 2 elements that share their keys, and weights that only
// some configs want.
const char* const kWeights = "model.safetensors";

void WriteLlama(Folder& folder) {
  folder.Write(
      kWeights,
      SafetensorsBytes({{"model.embed_tokens.weight", {8, 4}},
                        {"model.norm.weight", {4}},
                        {"lm_head.weight", {8, 4}},
                        {"model.layers.0.input_layernorm.weight", {4}},
                        {"model.layers.0.self_attn.q_proj.weight", {4, 4}},
                        {"model.layers.0.self_attn.k_proj.weight", {2, 4}},
                        {"model.layers.0.self_attn.v_proj.weight", {2, 4}},
                        {"model.layers.0.self_attn.o_proj.weight", {4, 4}},
                        {"model.layers.0.post_attention_layernorm.weight", {4}},
                        {"model.layers.0.mlp.gate_proj.weight", {6, 4}},
                        {"model.layers.0.mlp.up_proj.weight", {6, 4}},
                        {"model.layers.0.mlp.down_proj.weight", {4, 6}}}));
}

void WriteGpt(Folder& folder) {
  folder.Write(kWeights, SafetensorsBytes({{"wte.weight", {8, 4}},
                                           {"wpe.weight", {5, 4}},
                                           {"h.0.ln_1.weight", {4}},
                                           {"h.0.ln_1.bias", {4}},
                                           {"h.0.attn.c_attn.weight", {4, 12}},
                                           {"h.0.attn.c_attn.bias", {12}},
                                           {"h.0.attn.c_proj.weight", {4, 4}},
                                           {"h.0.attn.c_proj.bias", {4}},
                                           {"h.0.ln_2.weight", {4}},
                                           {"h.0.ln_2.bias", {4}},
                                           {"h.0.mlp.c_fc.weight", {4, 16}},
                                           {"h.0.mlp.c_fc.bias", {16}},
                                           {"h.0.mlp.c_proj.weight", {16, 4}},
                                           {"h.0.mlp.c_proj.bias", {4}},
                                           {"ln_f.weight", {4}},
                                           {"ln_f.bias", {4}}}));
}

void Open(const std::string& path) {
  const auto model = PretrainedModel::Open(path);
  if (!model.ok()) {
    Check(model.error().code == ErrorCode::kInvalidArgument ||
          model.error().code == ErrorCode::kUnsupported);
    return;
  }
  const int64_t seq = std::min<int64_t>(model->max_seq(), 3);
  for (const ModelPurpose purpose :
       {ModelPurpose::kTrain, ModelPurpose::kGenerate}) {
    Check(model->Build(purpose, {.batch = 2, .seq = seq}).ok());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Folder llama, gpt;
  [[maybe_unused]] static const bool written = [] {
    WriteLlama(llama);
    WriteGpt(gpt);
    return true;
  }();
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  if (content.starts_with("GGUF")) {
    static Folder folder;
    folder.Write("model.gguf", content);
    Open(folder.path() + "/model.gguf");
    return 0;
  }
  for (Folder* const folder : {&llama, &gpt}) {
    folder->Write("config.json", content);
    Open(folder->path());
  }
  return 0;
}
