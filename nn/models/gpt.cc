// The models that are a GPT (nn/gpt.h) of some size.

#include "nn/gpt.h"

#include "nn/models/model_list.h"
#include "nn/text_data.h"

namespace stowage {
namespace {

const GptConfig& NanoConfig() {
  static const GptConfig kConfig{.name = "gpt-nano",
                                 .layers = 4,
                                 .heads = 4,
                                 .width = 128,
                                 .vocabulary = kTextVocabulary,
                                 .max_seq = 256};
  return kConfig;
}

const GptConfig& Gpt2Config() {
  static const GptConfig kConfig{.name = "gpt2-124m",
                                 .layers = 12,
                                 .heads = 12,
                                 .width = 768,
                                 .vocabulary = 50257,
                                 .max_seq = 1024};
  return kConfig;
}

template <const GptConfig& (*kConfig)()>
Result<Graph> Build(ModelPurpose purpose, const ModelOptions& options) {
  return BuildGpt(models::WithVocabulary(kConfig(), options), purpose, options);
}

template <const GptConfig& (*kConfig)()>
ModelInfo InfoOf(std::string_view description, int64_t batch, int64_t seq,
                 const TrainingDefaults& training) {
  const GptConfig& config = kConfig();
  return {.name = config.name,
          .description = description,
          .data = ModelData::kText,
          .batch = batch,
          .seq = seq,
          .max_seq = config.max_seq,
          .vocabulary = config.vocabulary,
          .params = GptParameterCount(config),
          .training = training,
          .build = Build<kConfig>};
}

}  // namespace

ModelInfo models::GptNano() {
  return InfoOf<NanoConfig>(
      "GPT over characters, 4 layers of width 128, 4 heads", 8, 64,
      {.optimizer = "adamw",
       .beta2 = 0.99,
       .decay = 0.1,
       .steps = 3000,
       .schedule = {.peak = 2e-3, .warmup = 100, .final_factor = 0.1}});
}

ModelInfo models::Gpt2() {
  return InfoOf<Gpt2Config>(
      "GPT-2 small, 12 layers of width 768, 12 heads", 4, 1024,
      {.optimizer = "adamw",
       .beta2 = 0.95,
       .decay = 0.1,
       .steps = 1000,
       .schedule = {.peak = 6e-4, .warmup = 100, .final_factor = 0.1}});
}

}  // namespace stowage
