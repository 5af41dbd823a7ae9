// The text models of nn/models.def.

#include "nn/gpt.h"
#include "nn/llama.h"
#include "nn/models.h"
#include "nn/recurrent.h"

namespace stowage {

// GPT (nn/gpt.h).

namespace {

// `config` with the vocabulary of the options, if they have one.
template <typename Config>
Config WithVocabulary(Config config, const ModelOptions& options) {
  if (options.vocabulary) config.vocabulary = *options.vocabulary;
  return config;
}

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
Result<Graph> BuildText(ModelPurpose purpose, const ModelOptions& options) {
  return BuildGpt(WithVocabulary(kConfig(), options), purpose, options);
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
          .build = BuildText<kConfig>};
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

// Llama (nn/llama.h).

namespace {

const LlamaConfig& LlamaNanoConfig() {
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
  return BuildLlama(WithVocabulary(LlamaNanoConfig(), options), purpose,
                    options);
}

}  // namespace

ModelInfo models::LlamaNano() {
  const LlamaConfig& config = LlamaNanoConfig();
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

// Recurrent language models (nn/recurrent.h).

namespace {

const TextLstmConfig& Config() {
  static const TextLstmConfig kConfig{.name = "lstm-char",
                                      .layers = 1,
                                      .width = 64,
                                      .hidden = 256,
                                      .vocabulary = kTextVocabulary,
                                      .max_seq = 4096};
  return kConfig;
}

}  // namespace

ModelInfo models::LstmChar() {
  return {.name = Config().name,
          .description = "LSTM over characters, one layer of 256",
          .data = ModelData::kText,
          .batch = 32,
          .seq = 64,
          .max_seq = Config().max_seq,
          .vocabulary = Config().vocabulary,
          .params = CountParams(Config()),
          .training = {.optimizer = "adamw",
                       .beta2 = 0.99,
                       .decay = 0.01,
                       .steps = 1500,
                       .schedule = {.peak = 5e-3,
                                    .warmup = 50,
                                    .final_factor = 0.02}},
          .build = [](ModelPurpose purpose, const ModelOptions& options) {
            return BuildTextLstm(WithVocabulary(Config(), options), purpose,
                                 options);
          }};
}

}  // namespace stowage
