// The models that are a Llama (nn/llama.h) of some size.

#include "nn/llama.h"

#include "nn/models/model_list.h"
#include "nn/text_data.h"

namespace stowage {
namespace {

const LlamaConfig& NanoConfig() {
  static const LlamaConfig kConfig{.name = "llama-nano",
                                   .layers = 4,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .width = 128,
                                   .hidden = 352,
                                   .vocabulary = kTextVocabulary,
                                   .max_seq = 256};
  return kConfig;
}

Result<Graph> BuildNano(ModelPurpose purpose, const ModelOptions& options) {
  return BuildLlama(models::WithVocabulary(NanoConfig(), options), purpose,
                    options);
}

}  // namespace

ModelInfo models::LlamaNano() {
  const LlamaConfig& config = NanoConfig();
  return {.name = config.name,
          .description =
              "Llama over characters, 4 layers of width 128, 4 heads "
              "of queries, 2 of keys",
          .data = ModelData::kText,
          .batch = 8,
          .seq = 64,
          .max_seq = config.max_seq,
          .vocabulary = config.vocabulary,
          .params = LlamaParameterCount(config),
          .training = {.optimizer = "adamw",
                       .beta2 = 0.99,
                       .decay = 0.1,
                       .steps = 3000,
                       .schedule = {.peak = 2e-3,
                                    .warmup = 100,
                                    .final_factor = 0.1}},
          .build = BuildNano};
}

}  // namespace stowage
